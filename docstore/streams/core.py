"""What all parts of the partition machine share: the logs, the turn's batch, and the way out.

Nothing is told of this node's disk before it is there (`when_kept`, `acknowledge`): that rule is
kept in this one place, as `protocol/core.py` keeps it for documents.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from docstore.beside.asking import Ask
from docstore.beside.view import View
from docstore.model.operation import Answer, Operation
from docstore.storage.partitions import (
    AppendBatches,
    CutPartition,
    DropPartition,
    PartitionQuery,
    PartitionResult,
    PartitionWrite,
    SavePartition,
    StreamsRecovered,
)
from docstore.streams.effects import Alarm, Give, Keep, Look, Outcome, Send, StreamEffect
from docstore.streams.log import PartitionLog, log_from_disk
from docstore.streams.messages import Acked, Streaming
from docstore.streams.timing import StreamsConfig

NEVER = float("-inf")
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


class Core:
    """The shared state of the partitions of one node; the parts are written around it."""

    def __init__(  # Seam.
        self,
        me: str,
        recovered: StreamsRecovered,
        *,
        view: View,
        rng: Random,
        config: StreamsConfig,
        now: float,
    ) -> None:
        """rng: names copies of data."""
        self.me = me
        self.view = view
        self.config = config
        self.now = now
        self.has_room = True
        self.draining = False
        self.counters: Counter[str] = Counter()
        self.out: list[StreamEffect] = []
        self.local: deque[Streaming] = deque()
        """Messages of this node to itself."""
        self._rng = rng
        self._tokens = 0
        self._posted: dict[tuple[str, type[Any]], list[Any]] = {}
        self._looks: dict[int, Callable[[PartitionResult], None]] = {}
        self._asks: dict[int, Callable[[Answer], None]] = {}
        self._tails: OrderedDict[str, PartitionLog] = OrderedDict()
        self._tails_bytes = 0
        self._batch = Batch(self._next_token())
        self._unfinished: deque[Batch] = deque()
        self.kept_at = now
        """When the disk last kept something, or had nothing to keep."""
        self.raised: dict[str, PartitionLog] = {}
        """Partitions whose high watermark has moved since it was saved."""
        self.appended: Callable[[PartitionLog], None] = lambda log: None
        """Told when more of a log has become durable."""
        self.logs: dict[str, PartitionLog] = {}
        self._at: dict[str, list[PartitionLog]] = {}
        self.dropped: set[str] = set()
        """Partitions of which the disk may still have something (`dropping.py`)."""
        for name, found in sorted(recovered.partitions.items()):
            if not found.record.copy:
                self.dropped.add(name)
                continue
            log = self._with_log(log_from_disk(found))
            if recovered.is_old:
                # It may lack what it has acknowledged: nobody may take it for who it was (RC5).
                log.copy = self.new_copy()
                self.save(log)

    def new_copy(self) -> str:  # Seam.
        """Return an id for data that are begun anew."""
        return f"{self._rng.getrandbits(64):016x}"

    def new_run(self) -> int:
        """Return a number to count on from that is far from those of other starts of this node."""
        return self._rng.getrandbits(62)

    def new_log(self, name: str) -> PartitionLog:
        """Begin an empty replica of a partition."""
        if name in self.dropped:
            self.dropped.discard(name)
            self.store(DropPartition(name, limit=WHOLE))
        log = self._with_log(PartitionLog(name, self.new_copy()))
        self.save(log)
        return log

    def logs_at(self, link: str) -> list[PartitionLog]:
        """Return the replicas of a partition's document: of its incarnations, mostly one."""
        return self._at.get(link, [])

    def _with_log(self, log: PartitionLog) -> PartitionLog:
        self.logs[log.name] = log
        self._at[log.link] = [*self.logs_at(log.link), log]
        return log

    def drop_log(self, log: PartitionLog) -> None:
        """Know nothing of a partition any more, and let go of its data."""
        del self.logs[log.name]
        self._at[log.link] = [each for each in self._at[log.link] if each is not log]
        if not self._at[log.link]:
            del self._at[log.link]
        self._drop_tail(log)
        self.dropped.add(log.name)
        self.store(DropPartition(log.name))

    # The way out

    def emit(self, effect: StreamEffect) -> None:
        """Let an effect leave, after all before it."""
        self.out.append(effect)

    def give(self, request: int, outcome: Outcome) -> None:
        """Answer a request of this node's clients."""
        self.out.append(Give(request, outcome))

    def alarm(self, what: str) -> None:
        """Tell the operator of something that must never happen."""
        self.counters["alarms"] += 1
        self.out.append(Alarm(what))

    def send(self, to: str, message: Streaming) -> None:
        """Send to a node that a connection stands to, or to ourselves; otherwise timers repair."""
        if to == self.me:
            self.local.append(message)
        elif self.view.is_linked(to):
            self.out.append(Send(to, message))

    def post(self, to: str, kind: type[Any], item: Any) -> None:
        """Let a message of this kind that leaves at the end of the turn have this item too."""
        self._posted.setdefault((to, kind), []).append(item)

    def look(self, query: PartitionQuery, then: Callable[[PartitionResult], None]) -> None:
        """Ask the disk; `then` runs with what is committed there."""
        token = self._next_token()
        self._looks[token] = then
        self.out.append(Look(token, query))

    def looked(self, token: int, result: PartitionResult) -> None:
        """Run what waits for a look."""
        self._looks.pop(token)(result)

    def ask(self, operation: Operation, then: Callable[[Answer], None]) -> None:
        """Carry out an operation on a document; `then` runs with how it ended."""
        token = self._next_token()
        self._asks[token] = then
        self.out.append(Ask(token, operation, self.config.ask_timeout_s))

    def told(self, token: int, answer: Answer) -> None:
        """Run what waits for an operation."""
        self._asks.pop(token)(answer)

    def next_token(self) -> int:
        """Return a number that nothing else of this process has."""
        return self._next_token()

    # The turn's batch

    def append(self, log: PartitionLog, batches: list[bytes]) -> None:
        """Put batches that have joined the log into the turn's batch."""
        self._batch.appended.extend((log.name, raw) for raw in batches)
        self._batch.ends[log.name] = (log, log.cuts, log.end)
        self._account_tail(log)

    def cut(self, log: PartitionLog) -> None:
        """Put a cut of the log into the turn's batch: what is left is durable once it is kept."""
        self.store(CutPartition(log.name, log.end))
        self._batch.ends[log.name] = (log, log.cuts, log.end)

    def store(self, write: PartitionWrite) -> None:
        """Put another write into the batch, after the batches that came before it."""
        self._flush_appended()
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
        gathered = batch.writes or batch.appended or batch.saved or batch.acknowledged or batch.then
        return bool(gathered or self._posted)

    @property
    def keeps_nothing_since(self) -> float:
        """Return when the disk last got on; now, if it has nothing to do."""
        return self.kept_at if self._unfinished else self.now

    def flush(self) -> None:  # Seam.
        """End the turn: one Keep for all that gathered, one message of each kind to each node."""
        self._flush_appended()
        batch = self._batch
        batch.writes.extend(
            SavePartition(log.record()) for log in batch.saved.values() if log.name in self.logs
        )
        if batch.writes:
            if not self._unfinished:
                self.kept_at = self.now
            self.out.append(Keep(batch.token, batch.writes))
        if batch.writes or batch.acknowledged or batch.then or batch.ends:
            self._unfinished.append(batch)
            self._batch = Batch(self._next_token())
            if len(self._unfinished) == 1 and not batch.writes:
                self.kept(batch.token)
        posted, self._posted = self._posted, {}
        for (to, kind), items in posted.items():
            self.send(to, kind(items))

    def kept(self, token: int) -> None:
        """Say what waited for the batches up to `token`, and for those that wrote nothing."""
        self.kept_at = self.now
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
                self.appended(log)
        for (leader, name), (log, cuts, epoch, end, probe) in batch.acknowledged.items():
            # Cut since, or begun anew as another copy: then it has not what is to be said (RC5).
            is_same = log.cuts == cuts and self.logs.get(name) is log
            if is_same and log.promised == (epoch, leader):
                self.post(leader, Acked, (name, epoch, log.copy, end, probe))
        for then in batch.then:
            then()

    def _flush_appended(self) -> None:
        if self._batch.appended:
            self._batch.writes.append(AppendBatches(self._batch.appended))
            self._batch.appended = []

    def _next_token(self) -> int:
        self._tokens += 1
        return self._tokens

    # What is kept in memory of the newest batches

    def _account_tail(self, log: PartitionLog) -> None:
        """Let go of what is too much, of the partitions that were written to longest ago first."""
        self._drop_tail(log)
        log.shorten_tail(self.config.tail_bytes)
        self._tails[log.name] = log
        self._tails_bytes += log.tail_bytes
        log.tail_accounted = log.tail_bytes
        while self._tails_bytes > self.config.tails_bytes and len(self._tails) > 1:
            name = next(iter(self._tails))
            other = self._tails[name]
            self._drop_tail(other)
            other.shorten_tail(0)
            if other.tail_bytes:  # Not on the disk yet.
                break

    def _drop_tail(self, log: PartitionLog) -> None:
        if self._tails.pop(log.name, None) is not None:
            self._tails_bytes -= log.tail_accounted
            log.tail_accounted = 0
