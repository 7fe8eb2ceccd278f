"""Replicas that this node keeps: those found on its disk, and those that it begins and drops.

Data may be large, and one commit that deletes all of it would delay all other writes. So a
partition is deleted in slices, and so are the records below a log start. After a restart, the
remains of a partition are found as one without a copy.
"""

from functools import partial

from docstore.model.streams_batch import BatchHeader
from docstore.storage.partitions import (
    CorruptPartition,
    DropPartition,
    Oldest,
    PartitionResult,
    StreamsRecovered,
    TrimPartition,
)
from docstore.streams.core import Core
from docstore.streams.disk import WHOLE, Disk
from docstore.streams.log import PartitionLog, PartitionLogs, log_from_disk
from docstore.streams.tails import Tails


class Replicas:
    """Begins replicas, and drops them."""

    def __init__(self, core: Core, logs: PartitionLogs, tails: Tails, disk: Disk) -> None:
        self._core = core
        self._logs = logs
        self._tails = tails
        self._disk = disk
        self._dropped: set[str] = set()
        """Partitions of which the disk may still have data."""
        self._trimmed: dict[str, PartitionLog] = {}
        """Partitions of which the disk may still have batches below the log start."""
        self._looking: set[str] = set()

    def recover(self, recovered: StreamsRecovered) -> None:  # Tests replace this.
        """Add the replicas found on the disk."""
        for name, found in sorted(recovered.partitions.items()):
            if not found.record.copy:
                self._dropped.add(name)
                continue
            log = log_from_disk(found)
            self._logs.add(log)
            if log.start:
                self._trimmed[name] = log
            if recovered.is_old:
                # This log may lack acknowledged records, so it must count as another copy (RC5).
                log.copy = self._core.new_copy()
                self._disk.save(log)

    def begin(self, name: str) -> PartitionLog:
        """Begin an empty replica of a partition."""
        if name in self._dropped:
            self._dropped.discard(name)
            self._disk.store(DropPartition(name, limit=WHOLE))
        log = PartitionLog(name, self._core.new_copy())
        self._logs.add(log)
        self._disk.save(log)
        return log

    def drop(self, log: PartitionLog) -> None:
        """Delete a partition and its data."""
        self._logs.remove(log)
        self._tails.forget(log)
        self._trimmed.pop(log.name, None)
        self._dropped.add(log.name)
        self._disk.store(DropPartition(log.name))

    def trim(self, log: PartitionLog, start: int) -> None:
        """Delete the records below an offset: in memory at once, on the disk in slices."""
        log.trim(start)
        self._disk.save(log)
        self._slice(log)

    def _slice(self, log: PartitionLog) -> None:
        # The last batch stays: its time is the least that the next one can have.
        self._disk.store(TrimPartition(log.name, first_kept(log)))
        self._disk.when_durable(lambda: self._sliced(log))

    def _sliced(self, log: PartitionLog) -> None:
        if self._logs.holds(log):
            self._trimmed[log.name] = log

    def _trimmed_to(self, log: PartitionLog, found: PartitionResult) -> None:
        self._looking.discard(log.name)
        if not self._logs.holds(log) or isinstance(found, CorruptPartition):
            return
        if any(isinstance(each, BatchHeader) and each.end <= first_kept(log) for each in found):
            self._slice(log)

    def tick(self) -> None:
        """Check what is left of each dropped partition, and below the start of each trimmed one."""
        for name in self._trimmed.keys() - self._looking:
            self._looking.add(name)
            self._disk.read(Oldest(name, 1), partial(self._trimmed_to, self._trimmed.pop(name)))
        for name in self._dropped - self._looking:
            self._looking.add(name)
            self._disk.read(Oldest(name, 1), partial(self._looked, name))

    def _looked(self, name: str, found: PartitionResult) -> None:
        self._looking.discard(name)
        if name not in self._dropped:
            return  # The partition was created again.
        self._disk.store(DropPartition(name))
        if not found:
            self._dropped.discard(name)


def first_kept(log: PartitionLog) -> int:
    """Return the offset below which whole batches are removed from the disk."""
    return min(log.start, log.end - 1)
