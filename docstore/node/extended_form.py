"""A node that says who makes versions asks the group for the form of rows that have room for it.

Until all members read that form (rule M7), versions say nothing. One that is of an earlier version,
or away, stands in the way for as long as it is: so it is asked for again, and told once.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from docstore.errors import DocstoreError

TIMEOUT_S = 5.0
PAUSE_S, QUIET_S, PAUSE_S_MAX = 0.1, 1.0, 30.0

log = structlog.get_logger("docstore.node")


class ExtendedForm:
    """Asks for it until it is stored."""

    def __init__(self, allow: Callable[[float], Awaitable[None]]) -> None:
        """allow: returns once it is stored; raises DocstoreError if it cannot be now."""
        self._allow = allow
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._task = asyncio.get_running_loop().create_task(self._ask())

    async def stop(self) -> None:
        """Stop asking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self) -> None:
        pause_s, is_told = PAUSE_S, False
        while True:
            try:
                await self._allow(TIMEOUT_S)
            except DocstoreError as error:
                if pause_s > QUIET_S and not is_told:
                    log.info("versions do not say yet who made them", why=str(error))
                    is_told = True
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_S_MAX, 2 * pause_s)
