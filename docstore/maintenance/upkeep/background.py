"""A background task of a node, which repeats its turn until the node stops.

An unexpected error is logged, and the next turn follows: one bad row must not end the task.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

AGAIN_S = 5.0
"""Seconds to pause after an unexpected error."""

log = structlog.get_logger("docstore.maintenance.upkeep.background")


class Background:
    """A background task. turn: does a piece of the work, including its pause."""

    def __init__(self, name: str, turn: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._run_turn = turn
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._run_turn()
            except Exception:
                log.exception("background work failed", work=self._name)
                await asyncio.sleep(AGAIN_S)
