"""The replicas of partitions that this node keeps: found on its disk, begun, and dropped.

A partition may be large, and one commit that removes it all would hold up those of all others: so
it is removed in slices, until all is gone. A start finds what was left, as a partition without a
copy.
"""

from functools import partial

from docstore.storage.partitions import DropPartition, Oldest, PartitionResult, StreamsRecovered
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
        """Partitions of which the disk may still have something."""
        self._looking: set[str] = set()

    def recover(self, recovered: StreamsRecovered) -> None:  # Tests replace this.
        """Take what the disk has."""
        for name, found in sorted(recovered.partitions.items()):
            if not found.record.copy:
                self._dropped.add(name)
                continue
            log = log_from_disk(found)
            self._logs.add(log)
            if recovered.is_old:
                # It may lack records that it acknowledged, so it must count as another copy (RC5).
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
        self._dropped.add(log.name)
        self._disk.store(DropPartition(log.name))

    def tick(self) -> None:
        """See what is left of each that was dropped."""
        for name in self._dropped - self._looking:
            self._looking.add(name)
            self._disk.read(Oldest(name, 1), partial(self._looked, name))

    def _looked(self, name: str, found: PartitionResult) -> None:
        self._looking.discard(name)
        if name not in self._dropped:
            return  # Begun anew, and so dropped to the end.
        self._disk.store(DropPartition(name))
        if not found:
            self._dropped.discard(name)
