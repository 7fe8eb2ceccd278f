"""Work of a node that goes on beside its clients, from its start to its end.

An error that a turn did not expect is logged, and the next turn comes: what is looked after in the
background must not stop to be, without a word, because of one bad row.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

AGAIN_S = 5.0
"""After an error that nobody expected."""

log = structlog.get_logger("docstore.maintenance.upkeep.background")


class Background:
    """One task. `turn`: does a piece of the work, its own pauses included."""

    def __init__(self, name: str, turn: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._turn = turn
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, unless that has been done."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop where it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except Exception:
                log.exception("background work failed", work=self._name)
                await asyncio.sleep(AGAIN_S)
