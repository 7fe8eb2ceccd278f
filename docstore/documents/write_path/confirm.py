"""Reads at the owner: answered once a quorum has confirmed that no other node took over (R1).

A read waits for a confirm round that starts after it arrived. One round runs at a time, for all
reads that came before its start. Under load a round carries many reads; an idle node starts a round
at once. A refusal that depends on a document's state is a read as well.

In a group that reads by lease, a replica that answers also promises the slot to no other node for a
second (R2). The owner counts that second from when it sent the round, less the clock drift it
allows for, and answers reads at once until then. It renews before the lease expires.

Source: the read-index of Raft (Ongaro, 2014, section 6.4), asked per round instead of per read;
leases: Gray and Cheriton (1989).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.peers import NEVER
from docstore.model.document import Ballot
from docstore.ownership import quorum
from docstore.wire.messages import Confirm, Confirmed, Release

Voting = tuple[tuple[str, ...], ...]
"""The replica sets of which each must give a majority."""

CLOCKS_DIFFER = 1e-3
"""Relative difference of the rates of two monotonic clocks."""


@dataclass(slots=True)
class Waiter:
    """An answer that waits until its slot's term is confirmed."""

    log: SlotLog
    ballot: Ballot
    deadline: float
    then: Callable[[], None]
    lost: Callable[[], None]
    """Called instead of `then` if the term is over or the deadline has passed."""
    at_us: int = 0
    """Instant that the answer is about; 0 for none."""


def _nothing() -> None:
    """Do nothing: the round only renews a lease."""


@dataclass(slots=True)
class IndexRead:
    """A question for the decided rows of many slots, answered once their terms are confirmed.

    rest: the unconfirmed slots, by the replica sets that must confirm them. found: slot -> (epoch,
    decided). then: runs when there is no rest, or the deadline has passed. at_us: slots in which
    this instant is not settled yet are left out; 0 for none.
    """

    deadline: float
    rest: dict[Voting, list[tuple[SlotLog, Ballot]]]
    then: Callable[[dict[int, tuple[int, int]]], None]
    found: dict[int, tuple[int, int]] = field(default_factory=dict)
    at_us: int = 0


@dataclass(slots=True)
class Round:
    number: int
    waiters: list[Waiter]
    reads: list[IndexRead]
    slots: list[tuple[int, int]]
    at_us: int = 0
    heard: set[str] = field(default_factory=set)
    begun_at: float = NEVER
    sent_at: float = NEVER


class Confirmer:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.outbox = core.outbox
        self._waiting: list[Waiter] = []
        self._reads: list[IndexRead] = []
        self._round: Round | None = None
        # The boot number in the upper bits makes numbers unique across restarts of this node.
        self._number = core.boot << 32

    def add(self, waiter: Waiter) -> None:
        """Add a waiter to the next round, or answer it at once under a lease."""
        term = waiter.log.term
        is_closed = term is not None and waiter.at_us <= term.closed_us
        left_s = term.lease_until - self.core.now if term is not None and is_closed else 0.0
        if left_s <= 0 or not self._is_same_term(waiter):
            self._waiting.append(waiter)
            return
        if left_s < self.core.config.leadership.lease_s / 2:
            renewal = Waiter(waiter.log, waiter.ballot, inf, _nothing, _nothing)
            if not any(each.log is waiter.log for each in self._waiting):
                self._waiting.append(renewal)
        waiter.then()

    def read(self, read: IndexRead) -> None:
        self._reads.append(read)

    def start_round(self) -> None:
        """Start the next round if none is under way; at the end of a turn."""
        if not self.has_more:
            return
        self._number += 1
        waiters, self._waiting = self._waiting, []
        reads, self._reads = self._reads, []
        slots = {(waiter.log.slot, waiter.ballot[0]) for waiter in waiters}
        for read in reads:
            for part in read.rest.values():
                slots.update((log.slot, ballot[0]) for log, ballot in part)
        now, me = self.core.now, {self.core.me}
        at_us = max([each.at_us for each in waiters] + [each.at_us for each in reads])
        self._round = Round(self._number, waiters, reads, sorted(slots), at_us, me, begun_at=now)
        self.core.counters["confirm_rounds"] += 1
        self._ask(self._round)
        self._conclude(self._round)

    def resend(self) -> None:
        asked = self._round
        if asked and self.core.now - asked.sent_at >= self.core.config.sending.resend_interval_s:
            self._ask(asked)

    def asked(self, sender: str, message: Confirm) -> None:
        """Answer, as a replica, which of these slots it has promised to higher ballots."""
        refused = []
        logs, has_leases, at_us = self.core.logs, self.core.has_leases, message.at_us
        for slot, epoch in message.slots:
            log = logs.get(slot)
            if log is not None and log.promised > (epoch, sender):
                refused.append((slot, epoch, log.promised))
                continue
            if log is not None and at_us:
                log.close(at_us)
            if has_leases:
                self.core.leases.grant(slot, epoch, sender, self.core.now)
        self.outbox.send(sender, Confirmed(message.round, refused))

    def answered(self, sender: str, message: Confirmed) -> None:
        """Count an answer; the caller has deposed the refused slots."""
        asked = self._round
        if asked is not None and asked.number == message.round:
            asked.heard.add(sender)
            self._conclude(asked)

    def expire(self) -> None:
        """Drop waiters past their deadline, and those whose term has ended."""
        if self._round is not None:
            self._round.waiters = [each for each in self._round.waiters if self._is_live(each)]
            self._round.reads = [each for each in self._round.reads if self._is_read(each)]
            self._conclude(self._round)
        self._waiting = [each for each in self._waiting if self._is_live(each)]
        self._reads = [each for each in self._reads if self._is_read(each)]

    def _is_live(self, waiter: Waiter) -> bool:
        if self.core.now < waiter.deadline and self._is_same_term(waiter):
            return True
        waiter.lost()
        return False

    def _is_read(self, read: IndexRead) -> bool:
        """Say whether a question is still open; drop the slots whose term has ended."""
        overdue = self.core.now >= read.deadline
        for sets, part in list(read.rest.items()):
            rest = [] if overdue else [each for each in part if _terms(*each)]
            if rest:
                read.rest[sets] = rest
            else:
                del read.rest[sets]
        if not read.rest:
            read.then(read.found)
        return bool(read.rest)

    def _ask(self, asked: Round) -> None:
        """Ask the voting replicas of the waiting slots: in a large group that is a subset."""
        asked.sent_at = self.core.now
        message = Confirm(asked.number, asked.slots, asked.at_us)
        sets = {waiter.log.voting for waiter in asked.waiters}
        sets.update(*(read.rest for read in asked.reads))
        counting = {peer for each in sets for replicas in each for peer in replicas}
        for peer in self.core.peers:
            if peer in counting and peer not in asked.heard:
                self.outbox.send(peer, message)

    def _conclude(self, asked: Round) -> None:
        """Answer the waiters whose replica set has answered in a quorum."""
        rest = []
        quorums: dict[Voting, bool] = {}
        has_leases = self.core.has_leases
        for waiter in asked.waiters:
            sets = waiter.log.voting
            if sets not in quorums:
                quorums[sets] = self.is_confirmed(asked, sets)
            if not quorums[sets]:
                rest.append(waiter)
            elif _terms(waiter.log, waiter.ballot):
                if has_leases:
                    self._lease(asked, waiter.log)
                self._close(asked, waiter.log)
                waiter.then()
            else:
                waiter.lost()
        asked.waiters = rest
        asked.reads = [read for read in asked.reads if not self._has_read(asked, read)]
        if not rest and not asked.reads and self._round is asked:
            self._round = None

    def _has_read(self, asked: Round, read: IndexRead) -> bool:
        """Note the confirmed slots of a question; once all are, answer it and return True."""
        has_leases, at_us, found = self.core.has_leases, read.at_us, read.found
        for sets in [each for each in read.rest if self.is_confirmed(asked, each)]:
            for log, ballot in read.rest.pop(sets):
                if log.term is not None and log.term.ballot == ballot:
                    if has_leases:
                        self._lease(asked, log)
                    until = log.settled_at(at_us) if at_us else log.decided
                    if until <= log.decided:
                        found[log.slot] = (ballot[0], until)
        if not read.rest:
            read.then(read.found)
        return not read.rest

    def _close(self, asked: Round, log: SlotLog) -> None:
        if log.term is not None:
            log.term.closed_us = max(log.term.closed_us, asked.at_us)

    def _lease(self, asked: Round, log: SlotLog) -> None:  # Tests replace this.
        """Extend the read lease to when the first promise of the quorum may expire."""
        if log.term is not None:
            times = self.core.config.leadership
            until = self.leased_from(asked) + times.lease_s * (1 - CLOCKS_DIFFER)
            until -= times.lease_guard_s
            log.term.lease_until = max(log.term.lease_until, until)

    def leased_from(self, asked: Round) -> float:  # Tests replace this.
        """Return the start of the lease: when the round was sent, before any replica promised."""
        return asked.begun_at

    def is_confirmed(self, asked: Round, sets: quorum.Sets) -> bool:  # Tests replace this.
        """Say whether a quorum of the replica sets has answered the round."""
        return quorum.is_quorum(asked.heard, sets)

    def released(self, sender: str, message: Release) -> None:
        for slot, epoch in message.slots:
            self.core.leases.release(slot, epoch, sender)

    def _is_same_term(self, waiter: Waiter) -> bool:
        return _terms(waiter.log, waiter.ballot)

    @property
    def has_more(self) -> bool:
        return self._round is None and bool(self._waiting or self._reads)


def _terms(log: SlotLog, ballot: Ballot) -> bool:
    return log.term is not None and log.term.ballot == ballot
