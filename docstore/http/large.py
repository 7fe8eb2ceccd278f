"""Large bodies are read beside the event loop, one at a time.

A megabyte of JSON takes ten milliseconds to be read, and a hundred if it is spelled strangely.
No other request, client or node is served meanwhile: forty that came at once stopped a node
for two seconds, and it took its own silence for the loss of its majority. In a thread the loop has
its turn between the steps; and one after the other, the loop has it between two bodies. Two threads
would not be faster, since both would wait for the interpreter's lock.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from docstore.errors import Unavailable

T = TypeVar("T")

LARGE_BYTES = 1 << 16
"""From here on a thread is worth its tenth of a millisecond."""
WAITING_BYTES_MAX = 64 << 20
"""As much as the protocol lets wait at a node; some two seconds of reading."""

TOO_LATE = "large bodies are read one after the other, and this one was not in time"


class LargeBodies:
    """The one place of a node where they are read."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting_bytes = 0

    async def read(self, size: int, patience_s: float, work: Callable[[], T]) -> tuple[T, float]:
        """Return what `work` makes of a body of `size` bytes, and the seconds that it waited.

        Raises Unavailable when too many bytes wait, or it is not done within `patience_s`; and
        whatever `work` raises.
        """
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise Unavailable("too many large bodies wait to be read")
        began = asyncio.get_running_loop().time()
        self._waiting_bytes += size
        try:
            await self._wait(patience_s)
            try:
                made = await asyncio.to_thread(work)
            finally:
                self._turn.release()
        finally:
            self._waiting_bytes -= size
        waited_s = asyncio.get_running_loop().time() - began
        if waited_s >= patience_s:
            raise Unavailable(TOO_LATE)
        return made, waited_s

    async def _wait(self, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await self._turn.acquire()
        except TimeoutError:
            raise Unavailable(TOO_LATE) from None
