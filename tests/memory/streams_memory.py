"""A stream store in memory: the contract around one ledger, without a disk.

For simulations and for trials. It survives `close` and `open` of the same object, as a disk
survives its process, and counts the boots.
"""

from collections.abc import Sequence

from docstore.storage.partitions import (
    PartitionQuery,
    PartitionResult,
    PartitionWrite,
    StreamsRecovered,
)
from tests.memory.partition_ledger import PartitionLedger


class MemoryStreamStore:
    """A `StreamStore` without a disk: commits are as durable as the object."""

    def __init__(self) -> None:
        self.ledger = PartitionLedger()
        self._boot = 0

    async def open(self) -> StreamsRecovered:
        """Count the boot and return the content."""
        self._boot += 1
        return self.ledger.recovered(self._boot)

    async def commit(self, writes: Sequence[PartitionWrite]) -> None:
        """Apply `writes`."""
        self.ledger.apply(writes)

    async def read(self, queries: Sequence[PartitionQuery]) -> list[PartitionResult]:
        """Answer queries in their order."""
        return [self.ledger.answer(query) for query in queries]

    async def close(self) -> None:
        """Keep everything for the next `open`."""
