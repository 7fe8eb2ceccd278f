"""Outgoing effects, in order; messages about this node's disk wait until their batch is durable."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from docstore.documents.effects import Effect, Publish
from docstore.documents.log import SlotLog
from docstore.documents.logs import Logs
from docstore.documents.peers import Peers
from docstore.machines.core import Outlet
from docstore.machines.disk import DiskBatch, MachineDisk
from docstore.machines.effects import Read, Send
from docstore.model.agenda import has_agenda
from docstore.model.document import Row
from docstore.model.published import is_published
from docstore.storage import store
from docstore.wire.messages import Accepted, ReplicaMessage

MANY = 4
"""Number of look-ups from which one combined query is cheaper than a query for each."""


class LookUp(NamedTuple):
    """A query for the newest rows of documents of a slot, up to row `until`.

    then: runs with the results by link, in one call or in several.
    """

    slot: int
    links: Sequence[str]
    until: int
    then: Callable[[Mapping[str, store.Result]], None]


class Outbox(Outlet[Effect], MachineDisk[SlotLog, Row, store.Write, store.Query, store.Result]):
    """Effects of a step, and its batch for the disk."""

    def __init__(self, peers: Peers, logs: Logs) -> None:
        Outlet.__init__(self)
        MachineDisk.__init__(self, self, store.Append)
        self._peers = peers
        self._logs = logs
        self._look_ups: list[LookUp] | None = None

    def reset(self) -> None:
        """Forget the batches and reads that the disk has not answered."""
        self.batch = DiskBatch(self.next_token())
        self.unfinished.clear()
        self._reads.clear()

    def take(self) -> list[Effect]:
        effects, self.out = self.out, []
        return effects

    # To the world

    def send(self, to: str, message: ReplicaMessage) -> None:
        """Send to a member if it is linked; else drop the message, since timers send it again."""
        peer = self._peers.get(to)
        if peer is not None and peer.linked:
            self.out.append(Send(to, message))

    def send_any(self, to: str, message: ReplicaMessage) -> None:
        if to in self._peers.links:
            self.out.append(Send(to, message))

    def read(self, query: store.Query, then: Callable[[store.Result], None]) -> None:
        """Query the disk; `then` runs with the committed rows."""
        token = self.next_token()
        self._reads[token] = then
        self.out.append(Read(token, query))

    def look_up(self, look_up: LookUp) -> None:
        """Query the disk for newest rows."""
        if self._look_ups is None:
            self._look_up([look_up])
        else:
            self._look_ups.append(look_up)

    @contextmanager
    def reading_together(self) -> Iterator[None]:
        """Combine the look-ups of newest rows made in the `with` block."""
        look_ups = self._look_ups = []
        try:
            yield
        finally:
            self._look_ups = None
        self._look_up(look_ups)

    def _look_up(self, look_ups: Sequence[LookUp]) -> None:
        if sum([len(each.links) for each in look_ups]) < MANY:
            self._look_up_each(look_ups)
        else:
            self._look_up_all(look_ups)

    def _look_up_each(self, look_ups: Sequence[LookUp]) -> None:
        for slot, links, until, then in look_ups:
            for link in links:
                self.read(store.Newest(slot, link, until), partial(_give, then, link))

    def _look_up_all(self, look_ups: Sequence[LookUp]) -> None:
        def answered(result: store.Result) -> None:
            if isinstance(result, store.Corrupt):  # Query each, to find the damaged rows.
                self._look_up_each(look_ups)
                return
            found = {row.link: [row] for row in result}
            for each in look_ups:
                each.then({link: found.get(link, []) for link in each.links})

        asked = [(slot, link, until) for slot, links, until, _ in look_ups for link in links]
        self.read(store.NewestOfMany(asked), answered)

    def publish(self, log: SlotLog, after: int, until: int) -> None:
        """Report rows (after, until] to the node, if they concern it."""
        for n in range(after + 1, until + 1):
            row = log.pending.get(n)
            if row is not None and (is_published(row.link) or has_agenda(row)):
                self.out.append(Publish(row))

    def store_rows(self, log: SlotLog, rows: Iterable[Row]) -> None:
        """Add rows that the log has appended to the batch."""
        self.store_part(rows)
        self.batch.ends[log.slot] = (log, log.cuts, log.end)

    def store_part(self, rows: Iterable[Row]) -> None:
        """Add rows of a log that is being copied; they do not move its durable end."""
        self.batch.appended.extend(rows)

    def save(self, log: SlotLog) -> None:
        """Add the slot's record, as it is when the turn ends, to the batch."""
        self.batch.saved[log.slot] = log

    def accept(self, owner: str, log: SlotLog, epoch: int) -> None:
        """Acknowledge the present end of the log to its owner, once it is durable."""
        self.batch.accepted.setdefault(owner, []).append((log.slot, epoch, log.end))

    def _records(self, logs: Iterable[SlotLog]) -> Iterable[store.Write]:
        return [store.SaveSlot(log.record()) for log in logs]

    def _release(self, batch: DiskBatch[SlotLog, Row, store.Write]) -> None:
        for log, cuts, end in batch.ends.values():
            if log.cuts == cuts and log is self._logs.get(log.slot):
                log.durable = max(log.durable, end)
                log.evict_durable()
        for owner, slots in batch.accepted.items():
            self.send(owner, Accepted(slots))


def _give(
    then: Callable[[Mapping[str, store.Result]], None], link: str, result: store.Result
) -> None:
    then({link: result})
