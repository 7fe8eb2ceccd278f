"""Anti-entropy: each replica sends its peers the versions that arrived on its disk, in pages.

Each disk numbers its arrivals, from any writer. A peer keeps a cursor into that order and gets the
arrivals after it, page by page: versions that this disk wrote in full, others by name, because
their writers send them too. The peer asks for the versions that it lacks. When a page is on its
disk, it moves its cursor, durably. So no version is lost over network partitions, restarts and lost
frames, and a version travels once along each link. A version whose writer cannot send it any more
comes from another node that has it.

Source: the changes feed and checkpoints of CouchDB's replication. Sending one's own versions in
full and the rest by name is our own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from docstore.documents.core import Core
from docstore.documents.eventual.documents import Documents, Name
from docstore.documents.eventual.lineage import lineage_of
from docstore.documents.peers import NEVER
from docstore.model.document import Row
from docstore.storage.replication_log import Arrivals, SaveCursor
from docstore.storage.store import Corrupt, Recovered, Result
from docstore.wire.messages import Following, Lack, Offering, Spread, Spreading, Supply

HERE_AGAIN_S = 0.5
"""Seconds on a new link after which a peer knows that this node is back, and routes to it."""


@dataclass(slots=True)
class Downstream:
    """The progress of a peer in this node's arrivals.

    disk: of the peer, "" until it has answered. acked: it has all arrivals up to there, durably.
    sent: end of the page under way, None if there is none. asked: it has an unanswered offer.
    """

    disk: str = ""
    acked: int = 0
    sent: int | None = None
    sent_at: float = NEVER
    offered_at: float = NEVER
    asked: bool = False
    reading: bool = False


@dataclass(slots=True)
class Upstream:
    """This node's progress in a peer's arrivals. taking: the page that is being merged.

    caught_up: followed to its end, at a time when the peer knew that this node is back.
    """

    since: float
    disk: str = ""
    caught_up: bool = False
    asked_at: float = NEVER
    taking: Spread | None = None


class Spreader:
    """Both sides of the anti-entropy messages."""

    def __init__(
        self, core: Core, documents: Documents, recovered: Recovered, acked: Callable[[], None]
    ) -> None:
        """acked: called when a peer has acknowledged more."""
        self.core = core
        self.outbox = core.outbox
        self.documents = documents
        self.arrived = documents.arrived
        self._acked = acked
        self.reset(recovered)

    def reset(self, recovered: Recovered) -> None:
        number = self.core.configuration.id
        self.cursors = {disk: n for disk, (told, n) in recovered.cursors.items() if told == number}
        self.downstreams: dict[str, Downstream] = {}
        self.upstreams: dict[str, Upstream] = {}

    def reconfigured(self) -> None:
        """Follow all peers again from the start, by name: the placement has changed."""
        self.cursors.clear()
        self.downstreams.clear()
        for upstream in self.upstreams.values():
            upstream.taking = None
        for peer in self.core.peers:
            self.offer(peer)

    def received(self, sender: str, message: Spreading) -> None:
        match message:
            case Offering():
                self.offered(sender, message)
            case Following():
                self.following(sender, message)
            case Spread():
                self.spread(sender, message)
            case Lack():
                self.lack(sender, message)
            case Supply():
                self.supply(sender, message)
            case _:
                assert_never(message)

    # Arrivals here

    def stored(self, n: int) -> None:
        """Send the arrivals up to number n, which are durable."""
        self.arrived.stored(n)
        for peer in self.core.peers:
            if peer in self.downstreams:
                self._push(peer)
            else:
                self.offer(peer)

    def copies(self, n: int, slot: int) -> int:  # Seam.
        """Return how many of the slot's replicas have arrival n durably, this node included."""
        others = [each for each in self.core.placement.replicas(slot) if each != self.core.me]
        return sum(self.acked_by(each) >= n for each in others) + (self.arrived.durable >= n)

    def awaited(self, n: int, slot: int) -> bool:
        """Say whether a live replica of the slot lacks arrival n."""
        return any(
            self.core.is_alive(peer) and self.acked_by(peer) < n
            for peer in self.core.placement.replicas(slot)
            if peer != self.core.me
        )

    def acked_by(self, peer: str) -> int:
        theirs = self.downstreams.get(peer)
        return theirs.acked if theirs else -1

    # Out

    def offer(self, peer: str) -> None:
        """Tell a peer this disk's id and its last arrival; the peer answers with its cursor.

        A node without arrivals only says so in its heartbeats.
        """
        if peer not in self.core.peers or not self.arrived.durable:
            return
        theirs = self.downstreams.setdefault(peer, Downstream())
        theirs.sent, theirs.offered_at, theirs.asked = None, self.core.now, True
        self.outbox.send(peer, Offering(self.arrived.disk, self.arrived.durable))

    def following(self, sender: str, message: Following) -> None:
        """Send a peer the arrivals after its cursor."""
        if message.asks:
            self.offer(sender)
        if message.of != self.arrived.disk:
            return
        theirs = self.downstreams.setdefault(sender, Downstream())
        theirs.disk, theirs.acked, theirs.sent, theirs.asked = message.disk, message.n, None, False
        self._push(sender)
        self._acked()

    def _push(self, peer: str) -> None:
        theirs = self.downstreams.get(peer)
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
                if self.downstreams.get(peer) is theirs:
                    self._send_page(peer, theirs, result, end)
            else:
                self._push(peer)  # Its cursor has moved meanwhile.

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

    def lack(self, sender: str, message: Lack) -> None:
        """Send the heads of documents of which a peer lacks versions."""

        def found(rows: list[Row]) -> None:
            self.core.counters["versions_supplied"] += len(rows)
            self.outbox.send(sender, Supply(self.arrived.disk, message.n, rows))

        if message.of == self.arrived.disk:
            self.documents.heads(message.links, found)

    # In

    def offered(self, sender: str, message: Offering) -> None:
        """Answer a peer's offer with this node's cursor."""
        upstream = self._upstream(sender)
        upstream.disk, upstream.taking = message.disk, None
        self._note_caught_up(upstream, self.cursors.get(message.disk, 0) >= message.n)
        self._follow(sender, message.disk)

    def spread(self, sender: str, message: Spread) -> None:  # Seam.
        """Merge a page, after asking for the versions that it only names and that are missing."""
        upstream = self._upstream(sender)
        if message.after != self.cursors.get(message.disk, 0):
            self._follow(sender, message.disk)
            return
        if upstream.taking is not None:
            return
        upstream.taking = message

        def judged(links: list[str]) -> None:
            if upstream.taking is not message:
                return
            if links:
                self.outbox.send(sender, Lack(message.disk, message.n, links))
            else:
                self._take(sender, upstream, message, message.rows)

        self.documents.lacking(message.names, judged)

    def _follow(self, sender: str, disk: str, *, asks: bool = False) -> None:
        self.outbox.send(
            sender, Following(disk, self.cursors.get(disk, 0), self.arrived.disk, asks)
        )

    def supply(self, sender: str, message: Supply) -> None:
        """Merge the missing versions, with their page."""
        upstream = self._upstream(sender)
        page = upstream.taking
        if page is not None and (page.disk, page.n) == (message.disk, message.n):
            self._take(sender, upstream, page, [*page.rows, *message.rows])

    def _take(self, sender: str, upstream: Upstream, page: Spread, rows: Sequence[Row]) -> None:
        number = self.core.configuration.id

        def taken() -> None:
            if self.core.configuration.id != number:
                return
            self.outbox.store(SaveCursor(page.disk, number, page.n))
            self.outbox.when_durable(durable)

        def durable() -> None:
            if self.core.configuration.id != number:
                return
            self.cursors[page.disk] = page.n
            self._note_caught_up(upstream, page.n >= page.end)
            if upstream.taking is page:
                upstream.taking = None
            self._follow(sender, page.disk)

        self.documents.take([row for row in rows if row.slot in self.core.logs], taken)

    def _upstream(self, peer: str) -> Upstream:
        return self.upstreams.setdefault(peer, Upstream(self.core.now))

    def _note_caught_up(self, upstream: Upstream, has_all: bool) -> None:
        if has_all and self.core.now - upstream.since >= HERE_AGAIN_S:
            upstream.caught_up = True

    def has_spread(self) -> bool:
        """Say whether every live peer has all arrivals of this disk."""
        return not self.arrived.durable or all(
            self.acked_by(peer) >= self.arrived.last
            for peer in self.core.peers
            if self.core.is_alive(peer)
        )

    def lags_behind(self) -> bool:
        """Say whether a live peer may have versions that this node, just back, lacks."""
        return any(True for _ in self._behind())

    def _behind(self) -> Iterator[str]:
        for name, peer in self.core.peers.items():
            unknown = peer.arrived != 0 and not self._upstream(name).caught_up
            if unknown and self.core.is_alive(name):
                yield name

    # Time

    def link_made(self, peer: str) -> None:
        self.downstreams.pop(peer, None)
        self.upstreams[peer] = Upstream(self.core.now)
        self.offer(peer)

    def tick(self) -> None:
        """Repeat offers that peers have not answered in time."""
        late = self.core.now - 4 * self.core.config.sending.resend_interval_s
        for peer in self.core.peers if self.arrived.durable else ():
            theirs = self.downstreams.get(peer)
            overdue = theirs is None or self._is_overdue(theirs, late)
            if overdue and self.core.peers[peer].linked:
                self.offer(peer)
        for peer in self._behind():
            if self.core.peers[peer].arrived:
                self._ask(peer, self._upstream(peer), late)

    def _ask(self, peer: str, upstream: Upstream, late: float) -> None:
        """Ask a peer for an offer, once it surely knows that this node is back."""
        since = self.core.now - upstream.since
        if upstream.taking is None and since >= HERE_AGAIN_S and upstream.asked_at <= late:
            upstream.asked_at = self.core.now
            self._follow(peer, upstream.disk, asks=True)

    def _is_overdue(self, theirs: Downstream, late: float) -> bool:
        if theirs.sent is not None:
            return theirs.sent_at <= late
        return theirs.asked and theirs.offered_at <= late
