"""The newest batches, kept in memory: a bound for each partition, and one for all.

Readers and followers that are in step read from there, so that the disk is not asked at all.
"""

from collections import OrderedDict

from docstore.streams.log import PartitionLog
from docstore.streams.timing import BatchMemory


class Tails:
    """The partitions with batches in memory, and the bytes of these."""

    def __init__(self, bounds: BatchMemory) -> None:
        self._bounds = bounds
        self._by_name: OrderedDict[str, PartitionLog] = OrderedDict()
        self._bytes = 0

    def grown(self, log: PartitionLog) -> None:
        """Evict batches above the bounds, first of the partitions written to longest ago."""
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
            if other.tail_bytes:  # Not on the disk yet.
                break

    def forget(self, log: PartitionLog) -> None:
        """Count a partition no more."""
        if self._by_name.pop(log.name, None) is not None:
            self._bytes -= log.tail_accounted
            log.tail_accounted = 0
