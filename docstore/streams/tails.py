"""Newest batches in memory, bounded for each partition and for all together.

Readers and followers that are in step are served from memory, without a disk read.
"""

from collections import OrderedDict

from docstore.streams.log import PartitionLog
from docstore.streams.timing import BatchMemory


class Tails:
    """Accounts for the partitions with batches in memory, and evicts batches."""

    def __init__(self, bounds: BatchMemory) -> None:
        self._bounds = bounds
        self._by_name: OrderedDict[str, PartitionLog] = OrderedDict()
        self._bytes = 0

    def grown(self, log: PartitionLog) -> None:
        """Evict batches above the bounds, first of the partition least recently written to."""
        self.forget(log)
        log.shorten_tail(self._bounds.tail_bytes)
        self._by_name[log.name] = log
        self._bytes += log.tail_bytes
        log.tail_accounted = log.tail_bytes
        while self._bytes > self._bounds.tails_bytes and len(self._by_name) > 1:
            name = next(iter(self._by_name))
            other = self._by_name[name]
            self.forget(other)
            other.shorten_tail(0)
            if other.tail_bytes:  # The other batches are not durable yet.
                break

    def forget(self, log: PartitionLog) -> None:
        """Stop accounting for a partition."""
        if self._by_name.pop(log.name, None) is not None:
            self._bytes -= log.tail_accounted
            log.tail_accounted = 0
