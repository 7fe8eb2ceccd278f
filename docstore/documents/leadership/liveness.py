"""Liveness: which members are heard, which slots they claim, and whether a quorum is heard.

In: heartbeats, links made and lost, membership's hints. Out: this node's heartbeats, and the end of
its terms when it hears no quorum any more (rule O6). No decision counts any of this as a vote: a
node that is wrong here makes a futile attempt, or serves later than it could.
"""

from collections.abc import Callable

from docstore.documents.core import Core
from docstore.documents.depose import depose
from docstore.documents.eventual.spread import Spreader
from docstore.documents.leadership.unowned_slots import UnownedSlots
from docstore.documents.peers import NEVER
from docstore.documents.term import Phase, Term
from docstore.model.slots import from_bitmap, to_bitmap
from docstore.ownership.quorum import is_quorum
from docstore.wire.messages import Heartbeat


class Liveness:
    def __init__(
        self, core: Core, spreader: Spreader, ready: Callable[[], tuple[int, bytes]]
    ) -> None:
        """ready: returns which slots are ready for a change of the group, for heartbeats."""
        self.core = core
        self.outbox = core.outbox
        self.spreader = spreader
        self.ready = ready
        self._beat_at = NEVER
        self._own_claims: tuple[tuple[int, bytes], ...] = ()
        self._claims_as_of = -1
        self.unowned_slots = UnownedSlots(core)

    def heard(self, sender: str) -> None:
        """Note that a peer is alive: any message shows it."""
        peer = self.core.peers.get(sender)
        if peer is None:
            return  # The sender is not a member (yet).
        if self.core.now - peer.heard_at > self.core.config.leadership.owner_timeout_s:
            self.core.routes_changed = True
            peer.here_since = self.core.now
        peer.heard_at = peer.last_word_at = self.core.now

    def heartbeat(self, sender: str, message: Heartbeat) -> None:
        peer = self.core.peers[sender]
        peer.fit = message.fit
        if message.wall_us:
            peer.clock_us = message.wall_us - int(self.core.now * 1e6)
        peer.arrived = message.arrived
        self.core.peers.note_room(sender, has_room=message.has_room)
        if message.faulty or peer.faulty:
            peer.faulty = frozenset(from_bitmap(message.faulty))
        if message.claims == peer.claims:
            return
        peer.claims = tuple(message.claims)
        claimed = {slot: epoch for epoch, bitmap in message.claims for slot in from_bitmap(bitmap)}
        self.core.peers.claim(sender, claimed)
        self.core.routes_changed = True

    def beat(self) -> None:
        """Send heartbeats when they are due, or at once when this node's claims have changed."""
        core = self.core
        self.unowned_slots.tick()
        due = core.now - self._beat_at >= core.config.leadership.heartbeat_interval_s
        if not due and not core.claims_changed:
            return
        self._beat_at, core.claims_changed = core.now, False
        message = self._heartbeat()
        for peer in core.peers:
            core.outbox.send(peer, message)

    def _heartbeat(self) -> Heartbeat:
        core = self.core
        faulty = [slot for slot, log in core.logs.items() if not log.full]
        bitmap = to_bitmap(faulty, core.placement.slots) if faulty else b""
        wall_us = core.clock.own_us(core.now)
        fit = core.may_own(core.me) or self._still_spreads()
        return Heartbeat(
            self._claims(), fit, bitmap, self.ready(), wall_us, self.spreader.arrived.durable,
            core.has_room,
        )  # fmt: skip

    def _still_spreads(self) -> bool:
        """Say whether followers of this draining node still lack operations that it executed."""
        core = self.core
        patience_s = core.config.leadership.quorum_grace_s
        if not core.is_draining or core.now - core.draining_since > patience_s:
            return False
        return not self.spreader.downstreams.has_spread()

    def _claims(self) -> tuple[tuple[int, bytes], ...]:
        if self._claims_as_of != self.core.ownership_changes:
            self._claims_as_of = self.core.ownership_changes
            self._own_claims = self._bitmaps_of_open()
        return self._own_claims

    def _bitmaps_of_open(self) -> tuple[tuple[int, bytes], ...]:
        owned: dict[int, list[int]] = {}
        for log, term in self.core.logs.terms():
            if term.phase is Phase.OPEN:
                owned.setdefault(term.ballot[0], []).append(log.slot)
        count = self.core.placement.slots
        return tuple((epoch, to_bitmap(slots, count)) for epoch, slots in sorted(owned.items()))

    def link_lost(self, peer: str) -> None:
        """Count a peer as silent until its next message, because its connection broke."""
        self.core.peers.links.pop(peer, None)
        state = self.core.peers.get(peer)
        if state is None:
            return
        state.heard_at, state.linked, state.claims, state.arrived = NEVER, False, (), None
        self.core.peers.claim(peer, {})
        self.core.routes_changed = True

    def link_made(self, peer: str, protocol: int) -> None:
        """Send a new peer a heartbeat. Timers resend the messages that the old link lost."""
        self.core.peers.links[peer] = protocol
        if peer in self.core.peers:
            self.core.peers[peer].linked = True
            self.outbox.send(peer, self._heartbeat())

    def watch_quorum(self) -> None:
        """Yield if for too long no majority of the members was heard or no row was decided."""
        core = self.core
        heard = {core.me, *(member for member in core.peers if self._is_heard(member))}
        if is_quorum(heard, core.configuration.sets):
            core.peers.quorum_heard_at = core.now
        silent = core.now - core.peers.quorum_heard_at > core.config.leadership.quorum_lost_s
        for log, term in core.logs.terms():
            if silent or (term.clients.updates and self._is_stuck(term)):
                core.counters["yields"] += 1
                core.unfit_until = core.now + core.config.leadership.unfit_s
                depose(core, log)

    def _is_stuck(self, term: Term) -> bool:
        patience_s = self.core.config.leadership.quorum_lost_s
        return term.phase is Phase.OPEN and self.core.now - term.progress_at > patience_s

    def _is_heard(self, member: str) -> bool:
        heard_at = self.core.peers[member].heard_at
        return self.core.now - heard_at <= self.core.config.leadership.quorum_grace_s
