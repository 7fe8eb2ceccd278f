"""Questions between the nodes' services, beside the protocol: listings, digests, resync.

They ride on the same links as the protocol's messages, and give up by a deadline. A question
names a function; the argument and the result are plain values.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from docstore.errors import DocstoreError, Unavailable
from docstore.links.peers import PeerLinks
from docstore.wire import Ask, Told

Answerer = Callable[[Any], Awaitable[Any]]


class Questions:
    """Asks other nodes, and answers them."""

    def __init__(self, me: str, links: PeerLinks) -> None:
        self._me = me
        self._links = links
        self._answerers: dict[str, Answerer] = {}
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, question: str, answerer: Answerer) -> None:
        """Let `answerer` answer this question, whoever asks."""
        self._answerers[question] = answerer

    def reaches(self, peer: str) -> bool:
        """Say whether a node can be asked now."""
        return peer == self._me or self._links.is_linked(peer)

    async def ask(self, peer: str, question: str, argument: Any, timeout_s: float) -> Any:
        """Return what a node (or this one) answers. Raises Unavailable when it does not."""
        if peer == self._me:
            return await self._answerers[question](argument)
        if not self._links.is_linked(peer):
            raise Unavailable(f"node {peer} is not connected")
        number = next(self._ids)
        future = self._open[number] = asyncio.get_running_loop().create_future()
        self._links.send(peer, Ask(number, question, argument))
        self._links.flush()
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise Unavailable(f"node {peer} did not answer in time") from None
        finally:
            del self._open[number]

    def asked(self, peer: str, message: Ask) -> None:
        """Answer a peer's question in a task of its own."""
        task = asyncio.get_running_loop().create_task(self._answer(peer, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def told(self, message: Told) -> None:
        """Take the answer to a question of ours."""
        future = self._open.get(message.id)
        if future is None or future.done():
            return
        if message.ok:
            future.set_result(message.result)
        else:
            future.set_exception(Unavailable(str(message.result)))

    async def stop(self) -> None:
        """Give up the answers that are under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, peer: str, message: Ask) -> None:
        answerer = self._answerers.get(message.question)
        if answerer is None:
            told = Told(message.id, False, f"node {self._me} does not know {message.question}")
        else:
            try:
                told = Told(message.id, True, await answerer(message.argument))
            except DocstoreError as error:
                told = Told(message.id, False, str(error))
        self._links.send(peer, told)
        self._links.flush()
