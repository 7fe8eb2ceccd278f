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
from docstore.documents.eventual.documents import Documents
from docstore.documents.eventual.downstreams import Downstreams
from docstore.documents.peers import NEVER
from docstore.model.document import Row
from docstore.storage.replication_log import SaveCursor
from docstore.storage.store import Recovered
from docstore.wire.messages import (
    Following,
    Offering,
    RequestVersions,
    SendVersions,
    Spread,
    Spreading,
)

HERE_AGAIN_S = 0.5
"""Seconds after a link is made by which the peer knows that this node is back, and routes to it."""


@dataclass(slots=True)
class Upstream:
    """This node's progress in the arrivals of one peer (the versions that arrived on its disk).

    taking: the page that is being merged. caught_up: whether this node reached the end of the
    arrivals after the peer knew that this node is back.
    """

    since: float
    disk: str = ""
    caught_up: bool = False
    asked_at: float = NEVER
    taking: Spread | None = None


class Spreader:
    """The receiving side; `downstreams` sends."""

    def __init__(
        self, core: Core, documents: Documents, recovered: Recovered, acked: Callable[[], None]
    ) -> None:
        self.core = core
        self.outbox = core.outbox
        self.documents = documents
        self.arrived = documents.arrived
        self.downstreams = Downstreams(core, documents, acked)
        self.reset(recovered)

    def reset(self, recovered: Recovered) -> None:
        number = self.core.configuration.id
        self.cursors = {disk: n for disk, (told, n) in recovered.cursors.items() if told == number}
        self.downstreams.reset()
        self.upstreams: dict[str, Upstream] = {}

    def reconfigured(self) -> None:
        """Follow all peers again from their first arrival: the placement has changed."""
        self.cursors.clear()
        for upstream in self.upstreams.values():
            upstream.taking = None
        self.downstreams.reconfigured()

    def received(self, sender: str, message: Spreading) -> None:
        match message:
            case Offering():
                self.offered(sender, message)
            case Following():
                self.downstreams.following(sender, message)
            case Spread():
                self.spread(sender, message)
            case RequestVersions():
                self.downstreams.lack(sender, message)
            case SendVersions():
                self.supply(sender, message)
            case _:
                assert_never(message)

    def offered(self, sender: str, message: Offering) -> None:
        upstream = self._upstream(sender)
        upstream.disk, upstream.taking = message.disk, None
        self._note_caught_up(upstream, self.cursors.get(message.disk, 0) >= message.n)
        self._follow(sender, message.disk)

    def spread(self, sender: str, message: Spread) -> None:  # Tests replace this.
        """Merge a page.

        First ask the sender for versions that the page only names and that are missing here.
        """
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
                self.outbox.send(sender, RequestVersions(message.disk, message.n, links))
            else:
                self._take(sender, upstream, message, message.rows)

        self.documents.lacking(message.names, judged)

    def _follow(self, sender: str, disk: str, *, asks: bool = False) -> None:
        self.outbox.send(
            sender, Following(disk, self.cursors.get(disk, 0), self.arrived.disk, asks)
        )

    def supply(self, sender: str, message: SendVersions) -> None:
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

    def lags_behind(self) -> bool:
        """Say whether a live peer may have versions that this node, just back, lacks."""
        return any(True for _ in self._behind())

    def _behind(self) -> Iterator[str]:
        for name, peer in self.core.peers.items():
            unknown = peer.arrived != 0 and not self._upstream(name).caught_up
            if unknown and self.core.is_alive(name):
                yield name

    def link_made(self, peer: str) -> None:
        self.upstreams[peer] = Upstream(self.core.now)
        self.downstreams.link_made(peer)

    def tick(self) -> None:
        late = self.core.now - 4 * self.core.config.sending.resend_interval_s
        self.downstreams.tick(late)
        for peer in self._behind():
            if self.core.peers[peer].arrived:
                self._ask(peer, self._upstream(peer), late)

    def _ask(self, peer: str, upstream: Upstream, late: float) -> None:
        """Ask a peer for an offer, once it surely knows that this node is back."""
        since = self.core.now - upstream.since
        if upstream.taking is None and since >= HERE_AGAIN_S and upstream.asked_at <= late:
            upstream.asked_at = self.core.now
            self._follow(peer, upstream.disk, asks=True)
