"""The rules for statements of peers: which are believed, and which are answered.

| statement                                 | our answer                                       |
|-------------------------------------------|--------------------------------------------------|
| about another, says more than we hold     | accept, pass on (`membership.py`)                |
| suspect again, by another accuser         | confirm, pass on                                 |
| alive, while we hold it dead or left      | tell the sender, so that the subject can refute  |
| suspect, dead, left about us, i >= ours   | refute with a greater incarnation, tell sender   |
| the same, i below ours                    | repeat what we are, tell the sender              |
| alive about us from an earlier life       | refute if it would win                           |
| alive about us, from elsewhere, other uid | two processes share our name: report, pass it on |
| accusation of an unknown member           | ignore                                           |

A table read from a stream is weaker than a rumour: the peer did not accuse, it only repeats.
So members that it calls dead become suspects here, and can refute; its suspects confirm nothing.

Source: SWIM (2002), section 4.2; the guard of incarnations and the weak reading of tables are
our own answers to faults seen in practice.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, assert_never

from gossip.member import Address, Member, State, supersedes
from gossip.messages import Alive, Claim, Dead, Left, Rumour, Suspect, Sync, SyncAnswer
from gossip.protocol.effects import Effect, ReportConflict, Send
from gossip.protocol.membership import Membership, rumour_about

ACCUSATION_LEAD_MAX = 2**20  # Tests replace this.
"""Lead of an accusation's incarnation over the greatest known one from which it counts as forged.

Only the subject raises its incarnation, by one at a time, and we would have heard of a restart.
"""

SELF_ACCUSATION_MAX = 2**61
"""Incarnation above which we do not refute, or a forger could exhaust the numbers.

For ourselves a lead shows no forgery: our clock may have been set back since our last start.
"""

_ANSWER_INTERVAL_S = 1.0
"""Shortest time between unasked answers about one subject, or two members answer for ever."""


_NEWCOMER_AT_MAX = 16
"""Peers whose tables may be partly received at once."""


class _Told(NamedTuple):
    """One accusation of another member, as `sender` passed it on."""

    state: State
    name: str
    incarnation: int
    reporter: str
    sender: Address


class ClaimRules:
    """Judges statements from peers and applies the credible ones to the membership."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._answered_at_s: dict[tuple[str, str], float] = {}
        self._newcomers = 0
        self._claims: set[tuple[str, bytes]] = set()
        self._newcomer_at: set[str] = set()

    def begin_datagram(self) -> None:
        """Reset the count of unknown names that one datagram may bring."""
        self._newcomers = 0

    def hear(self, rumour: Rumour, sender: Address, now: float) -> list[Effect]:
        match rumour:
            case Alive():
                return self._hear_alive(rumour, sender, now)
            case Suspect(name, incarnation) | Dead(name, incarnation) | Left(name, incarnation) if (
                name == self._membership.name
            ):
                self._hear_accusation_of_me(_STATE_OF[type(rumour)], incarnation)
                return self._answer_accuser(sender, now)
            case Suspect(name, incarnation, reporter):
                told = _Told(State.SUSPECT, name, incarnation, reporter, sender)
            case Dead(name, incarnation, reporter):
                told = _Told(State.DEAD, name, incarnation, reporter, sender)
            case Left(name, incarnation):
                told = _Told(State.LEFT, name, incarnation, name, sender)
            case _:
                assert_never(rumour)
        return self._hear_accusation(told, now)

    def hear_table(
        self, table: Sync | SyncAnswer, now: float, *, more_follows: bool = False
    ) -> list[Effect]:
        """Return what follows from the table of a peer, or from a part of it.

        A newcomer passes on only the names that are news to that peer as well: all members know the
        other names. It stays a newcomer until it has heard the last part.
        """
        is_newcomer = self._membership.is_alone or table.source in self._newcomer_at
        if is_newcomer and more_follows and len(self._newcomer_at) < _NEWCOMER_AT_MAX:
            self._newcomer_at.add(table.source)
        elif not more_follows:
            self._newcomer_at.discard(table.source)
        news = set(table.news)
        effects: list[Effect] = []
        for member in table.members:
            if member.name == self._membership.name:
                effects += self._hear_record_of_me(member, now)
            elif self._membership.table.get(member.name) is not None:
                effects += self._hear_record(member, table.source, now)
            elif member.is_live or is_newcomer:
                # Only newcomers learn of the dead here. If others did too, members would
                # remind each other of them for ever, and none would be forgotten.
                is_spread = member.is_live and (not is_newcomer or member.name in news)
                cause = f"table of {table.source}"
                effects += self._membership.accept(
                    member, table.source, now, cause=cause, is_spread=is_spread
                )
        return effects

    def hear_claim(self, claim: Claim, now: float) -> list[Effect]:
        """Report a claim to a name that another live process holds."""
        held = self._membership.table.get(claim.name)
        if held is None or held.state is not State.ALIVE or held.uid == claim.uid:
            return []
        return self._report_conflict(held, claim, now)

    def accusation_of(self, name: str, now: float) -> tuple[Rumour, ...]:
        """Return our accusation of `name`, to be sent to `name`; at most once a second.

        Lifeguard's buddy rule: the accused should be the first to hear, section IV-C.
        """
        held = self._membership.table.get(name)
        if (
            held is None
            or held.state is State.ALIVE
            or not self._membership.config.buddy_rule
            or not self._may_answer("accusation", name, now)
        ):
            return ()
        return (rumour_about(held, self._membership.name),)

    def _hear_alive(self, alive: Alive, sender: Address, now: float) -> list[Effect]:
        claim = Member(
            name=alive.name,
            uid=alive.uid,
            address=alive.address,
            incarnation=alive.incarnation,
            meta=alive.meta,
        )
        if alive.name == self._membership.name:
            return self._hear_alive_me(claim, now)
        held = self._membership.table.get(alive.name)
        if held is None:
            self._newcomers += 1
            if self._newcomers > self._membership.config.newcomers_max:
                self._membership.counters["newcomers_refused"] += 1
                return []
        elif _is_conflict(held, claim):
            return self._report_conflict(held, claim, now)
        elif not held.is_live and claim.incarnation <= held.incarnation:
            accusation = self.accusation_of(held.name, now)
            return [Send(sender, accusation)] if accusation else []
        return self._membership.accept(claim, alive.name, now, cause=_gossip_from(sender))

    def _hear_alive_me(self, claim: Member, now: float) -> list[Effect]:
        me = self._membership.me
        if self._membership.is_leaving or claim.incarnation < me.incarnation:
            return []  # Our own statement, or one of an earlier start.
        if claim.uid == me.uid:
            if claim.incarnation > me.incarnation:
                self._refute(claim.incarnation)
            return []
        if claim.address != me.address:
            return self._report_conflict(me, claim, now)
        self._refute(claim.incarnation)
        return []

    def _hear_accusation(self, told: _Told, now: float) -> list[Effect]:
        held = self._membership.table.get(told.name)
        if held is None:
            return []
        if told.incarnation > held.incarnation + ACCUSATION_LEAD_MAX:
            self._membership.counters["accusations_refused"] += 1
            return []
        accused = dataclasses.replace(held, incarnation=told.incarnation, state=told.state)
        cause = _gossip_from(told.sender)
        if told.state is State.SUSPECT:
            return self._membership.suspect(accused, told.reporter, now, cause=cause)
        return self._membership.accept(accused, told.reporter, now, cause=cause)

    def _hear_accusation_of_me(self, state: State, incarnation: int) -> None:
        membership = self._membership
        if membership.is_leaving:
            if state is not State.LEFT:
                membership.repeat()
            return
        if incarnation < membership.me.incarnation:
            membership.repeat()
        elif self._refute(incarnation) and state is not State.LEFT:
            membership.awareness.worsen()

    def _answer_accuser(self, sender: Address, now: float) -> list[Effect]:
        """Send our state to the member that passed the accusation on.

        It may have missed our refutation, and gossip does not spread an old refutation again.
        """
        host, port = sender
        if self._membership.is_leaving or not self._may_answer("sender", f"{host} {port}", now):
            return []
        return [Send(sender, (rumour_about(self._membership.me, self._membership.name),))]

    def _refute(self, incarnation: int) -> bool:  # Tests replace this.
        if self._membership.is_leaving or incarnation > SELF_ACCUSATION_MAX:
            self._membership.counters["accusations_refused"] += 1
            return False
        self._membership.refute(incarnation)
        return True

    def _hear_record(
        self, record: Member, source: str, now: float
    ) -> list[Effect]:  # Tests replace this.
        membership = self._membership
        held = membership.table.get(record.name)
        assert held is not None
        if _is_conflict(held, record):
            return self._report_conflict(held, record, now)
        lead = record.incarnation - held.incarnation
        is_accusation = record.state is not State.ALIVE and record.uid == held.uid
        if is_accusation and lead > ACCUSATION_LEAD_MAX:
            membership.counters["accusations_refused"] += 1
            return []
        if record.state is State.DEAD and held.is_live:
            record = dataclasses.replace(record, state=State.SUSPECT)
        return membership.accept(record, source, now, cause=f"table of {source}")

    def _hear_record_of_me(self, record: Member, now: float) -> list[Effect]:
        me = self._membership.me
        if record.state is not State.ALIVE:
            if record.incarnation >= me.incarnation:
                self._hear_accusation_of_me(record.state, record.incarnation)
            return []
        if record.uid != me.uid and record.address != me.address:
            return self._report_conflict(me, record, now)
        return self._hear_alive_me(record, now)

    def _report_conflict(self, held: Member, claim: Member | Claim, now: float) -> list[Effect]:
        """Report a conflict. The holder keeps the name and is probed at once: it may be gone."""
        self._membership.counters["name_conflicts"] += 1
        self._membership.urgent[held.name] = None
        # Each claim is passed on once, or members would remind each other of it for ever.
        said = Claim(held.name, claim.uid, claim.incarnation, claim.address)
        if (said.name, said.uid) not in self._claims:
            if len(self._claims) >= self._membership.config.members_max:
                self._claims.clear()
            self._claims.add((said.name, said.uid))
            self._membership.queue.put(said)
        if not self._may_answer("conflict", held.name, now):
            return []
        return [ReportConflict(held.name, held.address, claim.address)]

    def _may_answer(self, topic: str, name: str, now: float) -> bool:
        answered_at_s = self._answered_at_s.get((topic, name))
        if answered_at_s is not None and now - answered_at_s < _ANSWER_INTERVAL_S:
            return False
        if len(self._answered_at_s) >= self._membership.config.members_max:
            self._answered_at_s.clear()
        self._answered_at_s[topic, name] = now
        return True


_STATE_OF = {Suspect: State.SUSPECT, Dead: State.DEAD, Left: State.LEFT}


def _is_conflict(held: Member, claim: Member) -> bool:
    """Tell whether `claim` would take the name of a live process away at another address.

    Another uid at the same address is a restart: two processes cannot hold one port.
    """
    is_other = claim.uid != held.uid and claim.address != held.address
    return is_other and held.state is State.ALIVE and claim.is_live and supersedes(claim, held)


def _gossip_from(sender: Address) -> str:
    host, port = sender
    return f"gossip from {host}:{port}"
