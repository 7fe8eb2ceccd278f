"""This node's disk, as the machine sees it: group commit, and questions.

Nothing is told of the disk before it is there (`when_kept`, `acknowledge`): that rule is kept in
this one place, as `documents/core.py` keeps it for documents.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from docstore.storage.partitions import (
    AppendBatches,
    CutPartition,
    PartitionQuery,
    PartitionResult,
    PartitionWrite,
    SavePartition,
)
from docstore.streams.core import Core
from docstore.streams.effects import Keep, Look
from docstore.streams.log import PartitionLog
from docstore.streams.logs import Logs
from docstore.streams.tails import Tails
from docstore.wire.streams_messages import Acked

WHOLE = 1 << 62
"""Batches: more than any partition has."""


@dataclass(slots=True)
class Batch:
    """What one turn wants kept, and what may be said once it is."""

    token: int
    writes: list[PartitionWrite] = field(default_factory=list)
    appended: list[tuple[str, bytes]] = field(default_factory=list)
    saved: dict[str, PartitionLog] = field(default_factory=dict)
    ends: dict[str, tuple[PartitionLog, int, int]] = field(default_factory=dict)
    """name -> (log, its cuts, how far it reaches when this is kept)."""
    acknowledged: dict[tuple[str, str], tuple[PartitionLog, int, int, int, int]] = field(
        default_factory=dict
    )
    """(leader, name) -> (log, epoch, end, probe)."""
    then: list[Callable[[], None]] = field(default_factory=list)


class Disk:
    """What is on its way to the disk, and what waits for it or for what is found there."""

    def __init__(
        self, core: Core, logs: Logs, tails: Tails, durable: Callable[[PartitionLog], None]
    ) -> None:
        """durable: told when more of a log has become so."""
        self._core = core
        self._logs = logs
        self._tails = tails
        self._durable = durable
        self._batch = Batch(core.next_token())
        self._unfinished: deque[Batch] = deque()
        self._looks: dict[int, Callable[[PartitionResult], None]] = {}
        self._kept_at = core.now
        self.raised: dict[str, PartitionLog] = {}
        """Partitions whose high watermark has moved since it was saved."""

    # The turn's batch

    def append(self, log: PartitionLog, batches: list[bytes]) -> None:
        """Put batches that have joined the log into the turn's batch."""
        self._batch.appended.extend((log.name, raw) for raw in batches)
        self._batch.ends[log.name] = (log, log.cuts, log.end)
        self._tails.grown(log)

    def cut(self, log: PartitionLog) -> None:
        """Put a cut of the log into the turn's batch: what is left is durable once it is kept."""
        self.store(CutPartition(log.name, log.end))
        self._batch.ends[log.name] = (log, log.cuts, log.end)

    def store(self, write: PartitionWrite) -> None:
        """Put another write into the batch, after the batches that came before it."""
        self._store_appended()
        self._batch.writes.append(write)

    def save(self, log: PartitionLog) -> None:
        """Put the partition's record into the batch, as it is when the turn ends."""
        self._batch.saved[log.name] = log

    def when_kept(self, then: Callable[[], None]) -> None:
        """Run `then` when all that this turn writes is durable, and all that came before."""
        self._batch.then.append(then)

    def acknowledge(self, leader: str, log: PartitionLog, epoch: int, probe: int) -> None:
        """Tell the leader, when it is durable, that the log reaches as far as it does now."""
        self._batch.acknowledged[leader, log.name] = (log, log.cuts, epoch, log.end, probe)

    @property
    def has_more(self) -> bool:
        """Say whether something gathered that only the end of a turn lets out."""
        batch = self._batch
        return bool(
            batch.writes or batch.appended or batch.saved or batch.acknowledged or batch.then
        )

    @property
    def keeps_nothing_since(self) -> float:
        """Return when the disk last got on; now, if it has nothing to do."""
        return self._kept_at if self._unfinished else self._core.now

    def flush(self) -> None:  # Seam.
        """End the turn: one Keep for all that gathered."""
        self._store_appended()
        core, batch = self._core, self._batch
        batch.writes.extend(
            SavePartition(log.record()) for log in batch.saved.values() if log.name in self._logs
        )
        if batch.writes:
            if not self._unfinished:
                self._kept_at = core.now
            core.emit(Keep(batch.token, batch.writes))
        if batch.writes or batch.acknowledged or batch.then or batch.ends:
            self._unfinished.append(batch)
            self._batch = Batch(core.next_token())
            if len(self._unfinished) == 1 and not batch.writes:
                self.kept(batch.token)

    def kept(self, token: int) -> None:
        """Say what waited for the batches up to `token`, and for those that wrote nothing."""
        self._kept_at = self._core.now
        while self._unfinished:
            batch = self._unfinished[0]
            if batch.token > token and batch.writes:
                return
            self._unfinished.popleft()
            self._release(batch)

    def _release(self, batch: Batch) -> None:
        for log, cuts, end in batch.ends.values():
            if log.cuts == cuts and end > log.durable:
                log.durable = end
                self._durable(log)
        for (leader, name), (log, cuts, epoch, end, probe) in batch.acknowledged.items():
            # Cut since, or begun anew as another copy: then it has not what is to be said (RC5).
            is_same = log.cuts == cuts and self._logs.holds(log)
            if is_same and log.promised == (epoch, leader):
                self._core.post(leader, Acked, (name, epoch, log.copy, end, probe))
        for then in batch.then:
            then()

    def _store_appended(self) -> None:
        if self._batch.appended:
            self._batch.writes.append(AppendBatches(self._batch.appended))
            self._batch.appended = []

    # Questions

    def look(self, query: PartitionQuery, then: Callable[[PartitionResult], None]) -> None:
        """Ask the disk; `then` runs with what is committed there."""
        token = self._core.next_token()
        self._looks[token] = then
        self._core.emit(Look(token, query))

    def looked(self, token: int, result: PartitionResult) -> None:
        """Run what waits for a look."""
        self._looks.pop(token)(result)
