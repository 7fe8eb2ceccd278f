"""Updates of several documents as one operation: all of them are carried out, or none.

The documents share a partition key, and with it a slot. To the code that forwards it, waits for it
or retries it, a batch is one operation like others, on the document of its first update.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgpack

from docstore.model.operation import Operation, operation_from_wire

ROWS_MAX = 100
BYTES_MAX = 512 << 10
"""Bytes of all states of a batch, at most. With all its rows it is less than a message about a slot
may have (`SendingBounds`), so that one that begins between batches has room for the next whole
one."""
CURRENT_BYTES_MAX = 4 * BYTES_MAX
"""Bytes of the current documents, at most. All are read in one step, 20 ms for a megabyte. No other
request is served meanwhile, and other nodes take a node that is silent for a second for dead."""


def batch_of(
    updates: Sequence[Operation],
    *,
    key: str = "",
    fence: Sequence[str | int] = (),
    principal: str = "",
) -> Operation:
    """Return several updates of different documents as one operation, under one fence.

    A fence is no part of the body, so a retry under the same key may carry a later one.
    """
    body: bytes = msgpack.packb([update.packed() for update in updates])
    return Operation(
        verb="BATCH", link=updates[0].link, body=body, key=key, fence=fence, principal=principal
    )


def updates_of(batch: Operation) -> list[Operation]:
    """Return the updates of a batch, in their order, each under its fence."""
    updates = [operation_from_wire(packed) for packed in msgpack.unpackb(batch.body)]
    if not batch.fence:
        return updates
    return [replace(update, fence=batch.fence) for update in updates]
