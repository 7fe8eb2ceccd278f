"""One reader of the news, with a bounded buffer of its own. A shell.

A reader that is slow, or never reads, costs a fixed amount of memory and blocks no other: news that
find the buffer full are dropped and counted, and one NewsLost takes their place.
"""

from __future__ import annotations

import asyncio
from collections import deque

from gossip.news import News, NewsLost

BUFFERED_MAX = 1024


class Subscription:
    """Read it with `async for`; it ends when the agent stops."""

    def __init__(self) -> None:
        self._buffer: deque[News] = deque()
        self._lost = 0
        self._arrived = asyncio.Event()
        self._is_closed = False

    def put(self, news: News) -> None:
        if len(self._buffer) >= BUFFERED_MAX:
            self._lost += 1
            return
        self._put_lost()
        self._buffer.append(news)
        self._arrived.set()

    def close(self) -> None:
        self._is_closed = True
        self._arrived.set()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> News:
        while not self._buffer:
            self._put_lost()
            if self._buffer:
                break
            if self._is_closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._buffer.popleft()

    def _put_lost(self) -> None:
        if self._lost:
            self._buffer.append(NewsLost(self._lost))
            self._lost = 0
