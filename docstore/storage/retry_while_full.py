"""Reads on a disk so full that not even they find room: SQLite's index of its log needs some.

There is room again soon, or an operator is needed: then whoever reads is told, and the process
ends, instead of answering nobody for as long as it takes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from docstore.errors import DiskFull, StoreBroken

T = TypeVar("T")

PAUSE_S = 0.1
"""Between two attempts."""
WITHOUT_ROOM_S = 5.0
"""As long as the tables may find none for what the journal holds (`journalling.py`)."""


async def retry_while_full(read: Callable[[], Awaitable[T]]) -> T:
    """Return what `read` returns, as soon as there is room for it. Raises StoreBroken."""
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
