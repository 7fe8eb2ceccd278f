"""Batches that are handed over to a store, and those who wait for one.

A driver hands a batch over and is called back, which costs it neither a task nor a future. Whoever
would rather wait uses `committed`.
"""

import asyncio
from collections.abc import Callable, Sequence

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
