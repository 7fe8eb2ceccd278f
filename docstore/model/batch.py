"""Atomic batches: updates of several documents as one operation.

The documents share a partition key, and so a slot. Code that forwards, awaits or retries a batch
handles it as an operation on the document of its first update.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgpack

from docstore.model.operation import Operation, operation_from_wire

ROWS_MAX = 100
BYTES_MAX = 512 << 10
"""Most bytes of all states of a batch. A whole batch must fit into a message about a slot
(`SendingBounds`)."""
CURRENT_BYTES_MAX = 4 * BYTES_MAX
"""Most bytes of the current documents.

Reading them blocks other requests, 20 ms for a megabyte, and a node that is silent for a second
counts as dead.
"""


def batch_of(
    updates: Sequence[Operation],
    *,
    key: str = "",
    fence: Sequence[str | int] = (),
    principal: str = "",
) -> Operation:
    """Return updates of different documents as one operation, under one fence.

    The fence is outside the body, so a retry under the same key may carry a later one.
    """
    body: bytes = msgpack.packb([update.packed() for update in updates])
    return Operation(
        verb="BATCH", link=updates[0].link, body=body, key=key, fence=fence, principal=principal
    )


def updates_of(batch: Operation) -> list[Operation]:
    updates = [operation_from_wire(packed) for packed in msgpack.unpackb(batch.body)]
    if not batch.fence:
        return updates
    return [replace(update, fence=batch.fence) for update in updates]
