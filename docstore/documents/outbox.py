"""The way out: effects leave in order, and what speaks of the disk waits until it is durable.

Everything that speaks of this node's own disk goes through `when_durable` or `accept`, and leaves
only when the batch that forms now has come back as Persisted: that one rule (P3) is kept here, so
that no step can forget it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from docstore.documents.effects import Effect, Persist, Publish, Read, Send
from docstore.documents.log import SlotLog
from docstore.documents.logs import Logs
from docstore.documents.peers import Peers
from docstore.model.document import Row
from docstore.model.published import is_published
from docstore.storage.store import (
    Append,
    Corrupt,
    Newest,
    NewestOfMany,
    Query,
    Result,
    SaveSlot,
    Write,
)
from docstore.wire.messages import Accepted, ReplicaMessage

MANY = 4
"""Of so many newest rows the look-up of all together costs less than each alone."""

LookUp = tuple[Newest, Callable[[Result], None]]


@dataclass(slots=True)
class Batch:
    """What one turn wants stored, and what may be said once it is."""

    token: int
    writes: list[Write] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    saved: dict[int, SlotLog] = field(default_factory=dict)
    ends: list[tuple[SlotLog, int, int]] = field(default_factory=list)
    accepted: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    then: list[Callable[[], None]] = field(default_factory=list)


class Outbox:
    """What a step says to the world, and what it gives to the disk."""

    def __init__(self, peers: Peers, logs: Logs) -> None:
        self._peers = peers
        self._logs = logs
        self.effects: list[Effect] = []
        self._reads: dict[int, Callable[[Result], None]] = {}
        self._look_ups: list[LookUp] | None = None
        self._tokens = 0
        self.batch = Batch(self._next_token())
        self.unfinished: deque[Batch] = deque()

    def reset(self) -> None:
        """Forget what has not come back from the disk."""
        self.batch = Batch(self._next_token())
        self.unfinished.clear()
        self._reads.clear()

    def take(self) -> list[Effect]:
        """Return the effects of the step that ends."""
        effects, self.effects = self.effects, []
        return effects

    # To the world

    def emit(self, effect: Effect) -> None:
        """Let an effect leave, after all before it."""
        self.effects.append(effect)

    def send(self, to: str, message: ReplicaMessage) -> None:
        """Send to a member whose link stands; otherwise the timers repair."""
        peer = self._peers.get(to)
        if peer is not None and peer.linked:
            self.effects.append(Send(to, message))

    def send_any(self, to: str, message: ReplicaMessage) -> None:
        """Send to a node that need not be a member of ours, if a connection stands."""
        if to in self._peers.links:
            self.effects.append(Send(to, message))

    def read(self, query: Query, then: Callable[[Result], None]) -> None:
        """Ask the disk; `then` runs with what is committed there."""
        if self._look_ups is not None and isinstance(query, Newest):
            self._look_ups.append((query, then))
            return
        token = self._next_token()
        self._reads[token] = then
        self.effects.append(Read(token, query))

    @contextmanager
    def reading_together(self) -> Iterator[None]:
        """Have one query for the newest rows that are asked for meanwhile, if they are many."""
        look_ups = self._look_ups = []
        try:
            yield
        finally:
            self._look_ups = None
        if len(look_ups) < MANY:
            self._look_up_each(look_ups)
        else:
            self._look_up_all(look_ups)

    def _look_up_each(self, look_ups: Sequence[LookUp]) -> None:
        for query, then in look_ups:
            self.read(query, then)

    def _look_up_all(self, look_ups: Sequence[LookUp]) -> None:
        def answered(result: Result) -> None:
            if isinstance(result, Corrupt):  # One of them is damaged: each meets its own.
                self._look_up_each(look_ups)
                return
            found = {row.link: [row] for row in result}
            for query, then in look_ups:
                then(found.get(query.link, []))

        asked = [(query.slot, query.link, query.until) for query, _ in look_ups]
        self.read(NewestOfMany(asked), answered)

    def publish(self, log: SlotLog, after: int, until: int) -> None:
        """Tell the node of rows (after, until] that concern it."""
        for n in range(after + 1, until + 1):
            row = log.pending.get(n)
            if row is not None and is_published(row.link):
                self.effects.append(Publish(row))

    def answer_read(self, token: int, result: Result) -> None:
        """Run what waits for a read; one from before a reset has nobody waiting."""
        then = self._reads.pop(token, None)
        if then is not None:
            then(result)

    def store_rows(self, log: SlotLog, rows: Iterable[Row]) -> None:
        """Put rows that have joined the log into the batch."""
        self.store_part(rows)
        self.batch.ends.append((log, log.cuts, log.end))

    def store_part(self, rows: Iterable[Row]) -> None:
        """Put rows into the batch of a log that is not whole: what has come of it is no end."""
        self.batch.rows.extend(rows)

    def store(self, write: Write) -> None:
        """Put another write into the batch, after the rows that came before it."""
        self._flush_rows()
        self.batch.writes.append(write)

    def save(self, log: SlotLog) -> None:
        """Put the slot's record into the batch, as it is when the turn ends."""
        self.batch.saved[log.slot] = log

    def when_durable(self, then: Callable[[], None]) -> None:  # Seam.
        """Run `then` when all that this turn stores is durable."""
        self.batch.then.append(then)

    def accept(self, owner: str, log: SlotLog, epoch: int) -> None:
        """Tell the owner, when it is durable, that the log reaches as far as it does now."""
        self.batch.accepted.setdefault(owner, []).append((log.slot, epoch, log.end))

    def flush(self) -> None:  # Seam.
        """End the turn: one Persist for all that gathered."""
        self._flush_rows()
        batch = self.batch
        batch.writes.extend(SaveSlot(log.record()) for log in batch.saved.values())
        speaks = batch.accepted or batch.then or batch.ends
        if batch.writes:
            self.effects.append(Persist(batch.token, batch.writes))
        elif not speaks:
            return
        self.unfinished.append(batch)
        self.batch = Batch(self._next_token())
        if len(self.unfinished) == 1 and not batch.writes:
            self.persisted(batch.token)

    @property
    def has_more(self) -> bool:
        """Say whether something gathered that only the end of a turn lets out."""
        batch = self.batch
        gathered = batch.writes or batch.rows or batch.saved or batch.accepted or batch.then
        return bool(gathered or self._logs.dirty)

    def persisted(self, token: int) -> None:
        """Say what waited for the batches up to `token`, and for those that wrote nothing."""
        while self.unfinished:
            batch = self.unfinished[0]
            if batch.token > token and batch.writes:
                return
            self.unfinished.popleft()
            self._release(batch)

    def _release(self, batch: Batch) -> None:
        for log, cuts, end in batch.ends:
            if log.cuts == cuts and log is self._logs.get(log.slot):
                log.durable = max(log.durable, end)
                log.drop_stored()
        for owner, slots in batch.accepted.items():
            self.send(owner, Accepted(slots))
        for then in batch.then:
            then()

    def _flush_rows(self) -> None:
        if self.batch.rows:
            self.batch.writes.append(Append(self.batch.rows))
            self.batch.rows = []

    def _next_token(self) -> int:
        self._tokens += 1
        return self._tokens
