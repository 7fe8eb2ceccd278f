"""Scrub: reads every batch on this disk at intervals, so that damage is found in time.

A checksum is verified whenever a batch is read, but batches that are never read may become damaged
on all replicas, one after another. Pages are read slowly, one partition after the other.
"""

from collections import deque
from collections.abc import Callable

from docstore.model.streams_batch import header_of
from docstore.storage.partitions import Batches, CorruptPartition, PartitionResult
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.log import PartitionLog, PartitionLogs

PAGE_INTERVAL_S = 0.2


class Scrub:
    """Reads the disk, partition by partition, round after round."""

    def __init__(
        self, core: Core, logs: PartitionLogs, disk: Disk, damaged: Callable[[PartitionLog], None]
    ) -> None:
        """damaged: called when a batch of a log fails its check."""
        self._core = core
        self._logs = logs
        self._disk = disk
        self._damaged = damaged
        self._left: deque[str] = deque()
        self._offset = 0
        self._next_at = core.now + core.config.upkeep.scrub_s
        self._round_at = self._next_at

    def tick(self) -> None:
        """Read the next page, if it is due."""
        core = self._core
        if core.now < self._next_at:
            return
        if not self._left:
            self._left.extend(sorted(self._logs))
            self._round_at = core.now + core.config.upkeep.scrub_s
            self._offset = 0
        self._next_at = core.now + PAGE_INTERVAL_S
        log = self._logs.get(self._left[0]) if self._left else None
        if log is None or max(self._offset, log.start) >= log.durable or not log.full:
            self._next_partition()
            return
        offset = max(self._offset, log.start)
        query = Batches(log.name, offset, log.durable, core.config.replication.page_bytes)
        self._disk.read(query, lambda result: self._read(log, result))

    def _next_partition(self) -> None:
        if self._left:
            self._left.popleft()
        self._offset = 0
        if not self._left:
            self._next_at = self._round_at

    def _read(self, log: PartitionLog, result: PartitionResult) -> None:
        if not self._logs.holds(log):
            return
        if isinstance(result, CorruptPartition):
            self._damaged(log)
            return
        batches = [each for each in result if isinstance(each, bytes)]
        if batches and self._left and self._left[0] == log.name:
            self._offset = header_of(batches[-1]).end
            self._core.counters["scrubbed_batches"] += len(batches)
