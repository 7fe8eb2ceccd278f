"""Batches that are handed over to a store, and those who wait for one.

A driver hands a batch over and is called back, which costs it neither a task nor a future. Whoever
would rather wait uses `committed`. A store whose commit is something to be awaited keeps what was
handed over in `Submissions`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from docstore.storage.store import Then, Write


async def committed(
    submit: Callable[[Sequence[Write], Then], None], writes: Sequence[Write]
) -> None:
    """Return once `writes` are durable. Raises what `submit` says of them."""
    stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def then(error: Exception | None) -> None:
        if stored.done():
            return  # Nobody waits any more.
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)

    submit(writes, then)
    await stored


def unheard(error: BaseException) -> None:
    """Stand in the place of `Store.broken` until somebody listens. Raises the error in the loop."""
    raise error


class Submissions:
    """Does what was handed over, one batch after the other."""

    def __init__(self, commit: Callable[[Sequence[Write]], Awaitable[None]]) -> None:
        """commit: returns once a batch is durable; raises why it is not."""
        self._commit = commit
        self._waiting: deque[tuple[Sequence[Write], Then]] = deque()
        self._task: asyncio.Task[None] | None = None

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        """Commit `writes` after those before; `then` is called in the loop, later."""
        self._waiting.append((writes, then))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def finish(self) -> None:
        """Return when nothing is under way."""
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            while self._waiting:
                writes, then = self._waiting.popleft()
                error: Exception | None = None
                try:
                    await self._commit(writes)
                except Exception as found:  # noqa: BLE001 - whoever handed it over decides
                    error = found
                then(error)
        finally:
            self._task = None
