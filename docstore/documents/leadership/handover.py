"""Hand-over: an owner transfers a slot to the member that the hash prefers, or to any other.

A node that restarts after a crash owns nothing: other nodes have taken its slots. Once it has been
up for a while, and its log has every decided row, the present owner gives its slots back. A node
that drains, or whose disk is full, transfers all of its slots to the next replicas in the order of
preference. It keeps them if all other replicas drain or are full as well (rule O7).

The owner closes the slot: operations that arrive wait. When no operation is under way any more, the
owner ends its term and tells the target, which takes over at once, as after a crash. The entry
nodes send the waiting operations to the new owner, so no operation is refused. Ballots fence a
hand-over as they fence every take-over: a hand-over that fails half-way is an ordinary failure.

Source: our own; the transfer of leadership in Raft (Ongaro, 2014, section 3.10) is its cousin.
"""

from collections.abc import Callable

from docstore.documents.core import Core
from docstore.documents.depose import depose
from docstore.documents.log import SlotLog
from docstore.documents.term import Phase, Term
from docstore.model.slots import to_bitmap
from docstore.wire.messages import HandOver, Release

Reopen = Callable[[SlotLog, Term], None]
"""Callback that serves the operations that waited."""

CLOSING_MAX = 64
"""Most slots closed at once, so that few documents wait, and only for milliseconds."""


class HandingOver:
    def __init__(self, core: Core, reopen: Reopen) -> None:
        self.core = core
        self.outbox = core.outbox
        self.reopen = reopen
        self._given: dict[str, list[int]] = {}
        self._released: list[tuple[int, int]] = []
        self._closed = 0
        self._misplaced: list[tuple[SlotLog, Term]] = []
        """This node's slots that the hash gives to another, cached per count of owner changes."""
        self._misplaced_as_of = -1

    def tick(self) -> None:
        """Close slots that other nodes should own; give away closed slots that are idle."""
        self._given, self._released = {}, []
        # A closed slot may stay here: the disk has room again, or its target is gone.
        concerns_all = self.core.should_yield or self._closed > 0
        terms = self.core.logs.terms() if concerns_all else self._misplaced_ones()
        self._closed = sum(term.closed_since is not None for _, term in terms)
        for log, term in terms:
            if term.phase is Phase.OPEN:
                self._look(log, term)

    def _misplaced_ones(self) -> list[tuple[SlotLog, Term]]:
        core = self.core
        if self._misplaced_as_of != core.ownership_changes:
            self._misplaced_as_of = core.ownership_changes
            terms = core.logs.terms()
            self._misplaced = [each for each in terms if each[0].replicas[0] != core.me]
        return self._misplaced

    def tell(self) -> None:
        """Tell targets to take over, after the heartbeat that drops this node's claims."""
        given, self._given = self._given, {}
        released, self._released = self._released, []
        if released and self.core.has_leases:
            for peer in self.core.peers:
                self.outbox.send(peer, Release(released))
        for target, slots in given.items():
            self.outbox.send(target, HandOver(to_bitmap(slots, self.core.placement.slots)))

    def _look(self, log: SlotLog, term: Term) -> None:
        target = self._target(log, term)
        if target is None:
            if term.closed_since is not None:
                self._reopen(log, term)
        elif term.closed_since is None:
            is_closable = self.core.now >= term.closable_from
            if is_closable and self._closed < CLOSING_MAX:
                term.closed_since = self.core.now
                self._closed += 1
        elif not term.is_busy and term.followers[target].acked >= log.end:
            depose(self.core, log)
            self.core.counters["handed_over"] += 1
            self._given.setdefault(target, []).append(log.slot)
            self._released.append((log.slot, term.ballot[0]))
        elif self.core.now - term.closed_since > self.core.config.leadership.closing_max_s:
            # The waiting operations have waited too long: serve them, and try again later.
            self._reopen(log, term)

    def _reopen(self, log: SlotLog, term: Term) -> None:
        term.closed_since = None
        term.closable_from = self.core.now + 5 * self.core.config.leadership.closing_max_s
        self.reopen(log, term)

    def _target(self, log: SlotLog, term: Term) -> str | None:
        """Return the member to transfer the slot to; None if no such member is ready."""
        if self.core.should_yield:
            candidates = [member for member in log.replicas if member != self.core.me]
        else:
            candidates = list(log.replicas[: log.replicas.index(self.core.me)])
        return next((each for each in candidates if self.is_ready(log, term, each)), None)

    def is_ready(self, log: SlotLog, term: Term, member: str) -> bool:
        """Say whether a member may own the slot, is up for long enough, and has all decided rows.

        A node that yields its slots does not ask how long the member is up.
        """
        follower = term.followers.get(member)
        peer = self.core.peers[member]
        if follower is None or not self.core.may_own(member) or not peer.linked:
            return False
        has_stayed = self.core.should_yield or (
            self.core.now - peer.here_since >= self.core.config.leadership.hand_back_after_s
        )
        holds = follower.adopted and follower.acked >= log.decided
        return has_stayed and holds and log.slot not in peer.faulty
