"""The disk of this node, as the partition machine sees it."""

from collections.abc import Callable, Iterable

from docstore.machines.disk import DiskBatch, MachineDisk
from docstore.model.streams_batch import range_of
from docstore.storage.partitions import (
    AppendBatches,
    CutPartition,
    PartitionQuery,
    PartitionResult,
    PartitionWrite,
    ReplaceBatches,
    SavePartition,
)
from docstore.streams.core import Core
from docstore.streams.log import PartitionLog, PartitionLogs
from docstore.streams.tails import Tails
from docstore.wire.streams_messages import Acked

WHOLE = 1 << 62
"""Number of batches to read all of a partition: more than any has."""

Appended = tuple[str, bytes]
"""(name of the partition, batch)."""


class Disk(MachineDisk[PartitionLog, Appended, PartitionWrite, PartitionQuery, PartitionResult]):
    """Writes batches, truncations and records of partitions, many in one commit."""

    def __init__(
        self, core: Core, logs: PartitionLogs, tails: Tails, durable: Callable[[PartitionLog], None]
    ) -> None:
        """durable: called when more of a log is durable."""
        super().__init__(core, AppendBatches)
        self._core = core
        self._logs = logs
        self._tails = tails
        self._durable = durable
        self._persisted_at = core.now
        self.raised: dict[str, PartitionLog] = {}
        """Partitions whose high watermark has moved since it was saved."""

    def append(self, log: PartitionLog, batches: list[bytes]) -> None:
        """Put batches that have joined the log into the turn's batch."""
        self.batch.appended.extend((log.name, raw) for raw in batches)
        self.batch.ends[log.name] = (log, log.cuts, log.end)
        self._tails.grown(log)

    def replace(self, log: PartitionLog, raw: bytes) -> None:
        """Add the replacement of durable batches by one of the same offsets to the turn's batch."""
        log.evict(range_of(raw)[1])
        self._tails.grown(log)
        self.store(ReplaceBatches(log.name, raw))
        self.save(log)  # The high watermark on the disk is not below a rewritten batch.

    def cut(self, log: PartitionLog) -> None:
        """Add a truncation to the turn's batch; the remaining log is durable with that batch."""
        self.store(CutPartition(log.name, log.end))
        self.batch.ends[log.name] = (log, log.cuts, log.end)

    def save(self, log: PartitionLog) -> None:
        """Add the record of the partition to the turn's batch, as it is at the end of the turn."""
        self.batch.saved[log.name] = log

    def acknowledge(self, leader: str, log: PartitionLog, epoch: int, probe: int) -> None:
        """Acknowledge to the leader that the log is durable up to its present end, once it is."""
        self.batch.accepted[leader, log.name] = (log, log.cuts, epoch, log.end, probe)

    @property
    def persists_nothing_since(self) -> float:
        """Return when a batch was last persisted, or the present if no batch is under way."""
        return self._persisted_at if self.unfinished else self._core.now

    def _records(self, logs: Iterable[PartitionLog]) -> Iterable[PartitionWrite]:
        return [SavePartition(log.record()) for log in logs if log.name in self._logs]

    def _release(self, batch: DiskBatch[PartitionLog, Appended, PartitionWrite]) -> None:
        self._persisted_at = self._core.now
        for log, cuts, end in batch.ends.values():
            if log.cuts == cuts and end > log.durable:
                log.durable = end
                self._durable(log)
        for (leader, name), (log, cuts, epoch, end, probe) in batch.accepted.items():
            # After a truncation, or as another copy, the log may be shorter than the answer says
            # (RC5).
            is_same = log.cuts == cuts and self._logs.holds(log)
            if is_same and log.promised == (epoch, leader):
                self._core.post(leader, Acked, (name, epoch, log.copy, end, probe))
