"""Large bodies are parsed in a thread, one at a time.

Parsing a megabyte of JSON takes ten milliseconds, or a hundred for unusual spellings. The event
loop would serve nothing else meanwhile: forty large bodies at once stopped a node for two seconds,
and it took its own silence for the loss of its majority. With a thread, the event loop gets turns
during each body and between bodies. Two threads would be no faster, since both need the
interpreter's lock.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from docstore.errors import Unavailable

T = TypeVar("T")

LARGE_BYTES = 1 << 16
"""Size from which parsing in a thread is worth its tenth of a millisecond."""
WAITING_BYTES_MAX = 64 << 20
"""Maximum bytes of waiting bodies, as in a node's protocol queue: some two seconds of parsing."""

TOO_LATE = "timed out in the queue of large bodies, which are read one by one: retry later"


class LargeBodies:
    """Parses the large bodies of a node, one at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting_bytes = 0

    async def read(self, size: int, patience_s: float, work: Callable[[], T]) -> tuple[T, float]:
        """Run `work`, which parses `size` bytes, in a thread; return its result and duration in s.

        Raises Unavailable if too many bytes wait, or `work` does not end within `patience_s`.
        Errors of `work` pass through.
        """
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise Unavailable(
                "too many large bodies wait to be read at this node: retry later, or at another"
            )
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
