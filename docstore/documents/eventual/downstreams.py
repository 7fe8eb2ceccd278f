"""The sending side of anti-entropy: how far each peer has this node's arrivals; see `spread.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from docstore.documents.core import Core
from docstore.documents.eventual.documents import Documents, Name
from docstore.documents.eventual.lineage import lineage_of
from docstore.documents.peers import NEVER
from docstore.model.document import Row
from docstore.storage.replication_log import Arrivals
from docstore.storage.store import Corrupt, Result
from docstore.wire.messages import Following, Offering, RequestVersions, SendVersions, Spread


@dataclass(slots=True)
class Downstream:
    """The progress of a peer in this node's arrivals.

    disk: id of the peer's disk, "" until it has answered. acked: the peer has all arrivals up to
    this one durably. sent: end of the page under way, None without one. asked: it has an
    unanswered offer.
    """

    disk: str = ""
    acked: int = 0
    sent: int | None = None
    sent_at: float = NEVER
    offered_at: float = NEVER
    asked: bool = False
    reading: bool = False


class Downstreams:
    """The peers that follow this node's arrivals."""

    def __init__(self, core: Core, documents: Documents, acked: Callable[[], None]) -> None:
        """acked: called when a peer has acknowledged more."""
        self.core = core
        self.outbox = core.outbox
        self.documents = documents
        self.arrived = documents.arrived
        self._acked = acked
        self._progress: dict[str, Downstream] = {}

    def reset(self) -> None:
        self._progress = {}

    def reconfigured(self) -> None:
        self._progress.clear()
        for peer in self.core.peers:
            self.offer(peer)

    def link_made(self, peer: str) -> None:
        self._progress.pop(peer, None)
        self.offer(peer)

    def tick(self, late: float) -> None:
        """Repeat offers that peers have not answered since `late`."""
        for peer in self.core.peers if self.arrived.durable else ():
            theirs = self._progress.get(peer)
            overdue = theirs is None or self._is_overdue(theirs, late)
            if overdue and self.core.peers[peer].linked:
                self.offer(peer)

    def _is_overdue(self, theirs: Downstream, late: float) -> bool:
        if theirs.sent is not None:
            return theirs.sent_at <= late
        return theirs.asked and theirs.offered_at <= late

    def has_spread(self) -> bool:
        return not self.arrived.durable or all(
            self.acked_by(peer) >= self.arrived.last
            for peer in self.core.peers
            if self.core.is_alive(peer)
        )

    # Arrivals here

    def stored(self, n: int) -> None:
        """Send the arrivals up to number n, which are durable."""
        self.arrived.stored(n)
        for peer in self.core.peers:
            if peer in self._progress:
                self._push(peer)
            else:
                self.offer(peer)

    def copies(self, n: int, slot: int) -> int:  # Tests replace this.
        """Return how many of the slot's replicas have arrival n durably, this node included."""
        others = [each for each in self.core.placement.replicas(slot) if each != self.core.me]
        return sum(self.acked_by(each) >= n for each in others) + (self.arrived.durable >= n)

    def awaited(self, n: int, slot: int) -> bool:
        return any(
            self.core.is_alive(peer) and self.acked_by(peer) < n
            for peer in self.core.placement.replicas(slot)
            if peer != self.core.me
        )

    def acked_by(self, peer: str) -> int:
        theirs = self._progress.get(peer)
        return theirs.acked if theirs else -1

    # Offers and pages

    def offer(self, peer: str) -> None:
        """Tell a peer this disk's id and its last arrival; the peer answers with its cursor.

        A node without arrivals makes no offer: its heartbeats show it.
        """
        if peer not in self.core.peers or not self.arrived.durable:
            return
        theirs = self._progress.setdefault(peer, Downstream())
        theirs.sent, theirs.offered_at, theirs.asked = None, self.core.now, True
        self.outbox.send(peer, Offering(self.arrived.disk, self.arrived.durable))

    def following(self, sender: str, message: Following) -> None:
        if message.asks:
            self.offer(sender)
        if message.of != self.arrived.disk:
            return
        theirs = self._progress.setdefault(sender, Downstream())
        theirs.disk, theirs.acked, theirs.sent, theirs.asked = message.disk, message.n, None, False
        self._push(sender)
        self._acked()

    def _push(self, peer: str) -> None:
        theirs = self._progress.get(peer)
        if theirs is None or not theirs.disk or theirs.sent is not None or theirs.reading:
            return
        if theirs.acked >= self.arrived.durable:
            return
        page = self.arrived.after(theirs.acked, self._page)
        if page is not None:
            self._send_page(peer, theirs, page, self.arrived.durable)
            return
        theirs.reading = True
        after, end = theirs.acked, self.arrived.durable

        def found(result: Result) -> None:
            theirs.reading = False
            if isinstance(result, Corrupt):
                self.core.counters["branches_unreadable"] += 1
            elif theirs.acked == after and theirs.sent is None:
                if self._progress.get(peer) is theirs:
                    self._send_page(peer, theirs, result, end)
            else:
                self._push(peer)  # The peer's cursor has moved meanwhile.

        self.outbox.read(Arrivals(after, self._page), found)

    @property
    def _page(self) -> int:
        return self.core.config.sending.page_rows

    def _send_page(self, peer: str, theirs: Downstream, page: Sequence[Row], end: int) -> None:
        """Send the part of a page that concerns the peer, complete up to `end`."""
        rows: list[Row] = []
        names: list[Name] = []
        until = min(end, page[-1].n) if page else end
        weight = 0
        for row in page:
            weight += len(row.state)
            if row.n > until:
                break
            if weight > self.core.config.sending.page_bytes and rows:
                until = row.n - 1
                break
            lineage = lineage_of(row)
            writer = lineage.hand.partition("@")[0]
            if writer == theirs.disk or not self._concerns(peer, row.slot):
                continue
            if writer == self.arrived.disk:
                rows.append(row)
            else:
                names.append((row.link, lineage.hand, row.updated_us))
        theirs.sent, theirs.sent_at = until, self.core.now
        self.core.counters["versions_spread"] += len(rows)
        self.outbox.send(
            peer, Spread(self.arrived.disk, theirs.acked, until, self.arrived.durable, rows, names)
        )

    def _concerns(self, peer: str, slot: int) -> bool:
        placement = self.core.placement
        return peer in placement.replicas(slot) or peer in placement.next_replicas(slot)

    def lack(self, sender: str, message: RequestVersions) -> None:
        def found(rows: list[Row]) -> None:
            self.core.counters["versions_supplied"] += len(rows)
            self.outbox.send(sender, SendVersions(self.arrived.disk, message.n, rows))

        if message.of == self.arrived.disk:
            self.documents.heads(message.links, found)
