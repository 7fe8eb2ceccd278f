"""Reads that fail because the disk is full: SQLite needs some room for the index of its log.

A read is retried for a while. Then it raises StoreBroken and the process ends, because an operator
must make room.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from docstore.errors import DiskFull, StoreBroken

T = TypeVar("T")

PAUSE_S = 0.1
"""Seconds between two attempts."""
WITHOUT_ROOM_S = 5.0
"""Seconds until a read gives up; the tables may lack room for as many (`fullness.py`)."""


async def retry_while_full(read: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `read` as soon as there is room. Raises StoreBroken."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + WITHOUT_ROOM_S
    while True:
        try:
            return await read()
        except DiskFull as error:
            if loop.time() >= give_up_at:
                raise StoreBroken(
                    f"no room to read what is there, for {WITHOUT_ROOM_S:.0f} s: {error}"
                ) from error
        await asyncio.sleep(PAUSE_S)
