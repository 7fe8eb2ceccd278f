"""Submitted batches, and callers that wait for them.

A driver submits a batch with a callback, which costs neither a task nor a future. Other callers
wait with `committed`.
"""

import asyncio
from collections.abc import Callable, Sequence

from docstore.storage.store import Then, Write


async def committed(
    submit: Callable[[Sequence[Write], Then], None], writes: Sequence[Write]
) -> None:
    """Return once `writes` are durable. Raises the error that `submit` reports."""
    stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def then(error: Exception | None) -> None:
        if stored.done():
            return  # The caller was cancelled.
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)

    submit(writes, then)
    await stored


def unheard(error: BaseException) -> None:
    """Raise the error in the loop. `Store.broken` is this function until the node sets it."""
    raise error
