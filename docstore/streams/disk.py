"""The disk of this node, as the partition machine sees it."""

from collections.abc import Callable, Iterable

from docstore.machines.disk import DiskBatch, MachineDisk
from docstore.storage.partitions import (
    AppendBatches,
    CutPartition,
    PartitionQuery,
    PartitionResult,
    PartitionWrite,
    SavePartition,
)
from docstore.streams.core import Core
from docstore.streams.log import PartitionLog, PartitionLogs
from docstore.streams.tails import Tails
from docstore.wire.streams_messages import Acked

WHOLE = 1 << 62
"""Batches: more than any partition has."""

Appended = tuple[str, bytes]
"""(name of the partition, batch)."""


class Disk(MachineDisk[PartitionLog, Appended, PartitionWrite, PartitionQuery, PartitionResult]):
    """Group commit of batches, cuts and records of partitions."""

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

    def cut(self, log: PartitionLog) -> None:
        """Add a truncation to the turn's batch: the rest is durable with the batch."""
        self.store(CutPartition(log.name, log.end))
        self.batch.ends[log.name] = (log, log.cuts, log.end)

    def save(self, log: PartitionLog) -> None:
        """Put the partition's record into the batch, as it is when the turn ends."""
        self.batch.saved[log.name] = log

    def acknowledge(self, leader: str, log: PartitionLog, epoch: int, probe: int) -> None:
        """Tell the leader, when it is durable, that the log reaches as far as it does now."""
        self.batch.accepted[leader, log.name] = (log, log.cuts, epoch, log.end, probe)

    @property
    def persists_nothing_since(self) -> float:
        """Return when a batch was last persisted; now, if none is on its way."""
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
            # Cut since, or begun anew as another copy: then it has not what is to be said (RC5).
            is_same = log.cuts == cuts and self._logs.holds(log)
            if is_same and log.promised == (epoch, leader):
                self._core.post(leader, Acked, (name, epoch, log.copy, end, probe))
