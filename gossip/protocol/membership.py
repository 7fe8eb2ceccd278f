"""The beliefs of this member, and the consequences of a change.

Every change goes through `accept`: the greater of the held and the new belief is kept
(`member.merge`), and from the pair of old and new everything else follows: a suspicion begins
or ends, the application gets the change, the rumour is passed on. `claim_rules.py` decides which
statements are believed; this file only has the consequences.

Source: SWIM (Das, Gupta and Motivala, 2002), section 4.2; Lifeguard (2017), section IV-B.
Left out: stability filters over the view; damping of members that flap.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

from gossip import messages
from gossip.config import Config
from gossip.member import Change, Member, State, merge
from gossip.protocol.awareness import Awareness
from gossip.protocol.broadcast import Broadcasts
from gossip.protocol.chronicle import Chronicle, Moment
from gossip.protocol.digest import ALL_BUCKETS, within
from gossip.protocol.effects import Effect, Notify, Send, SetTimer
from gossip.protocol.events import SuspicionDue
from gossip.protocol.suspicion import Suspicion, begin_suspicion
from gossip.protocol.table import Table


def rumour_about(member: Member, reporter: str) -> messages.Rumour:
    name, incarnation = member.name, member.incarnation
    match member.state:
        case State.ALIVE:
            return messages.Alive(name, member.uid, incarnation, member.address, member.meta)
        case State.SUSPECT:
            return messages.Suspect(name, incarnation, reporter)
        case State.DEAD:
            return messages.Dead(name, incarnation, reporter)
        case State.LEFT:
            return messages.Left(name, incarnation)


class Membership:
    """The beliefs of one member, and the state shared by all parts of the machine."""

    def __init__(self, me: Member, config: Config, rng: random.Random) -> None:
        assert me.state is State.ALIVE
        self.config = config
        self.rng = rng
        self.name = me.name
        self.table = Table(config.members_max)
        self.table.put(me)
        self.queue = Broadcasts(config)
        self.awareness = Awareness(config.health_max)
        self.suspicions: dict[str, Suspicion] = {}
        self.counters: Counter[str] = Counter()
        self.chronicle = Chronicle()
        self.arrived: list[str] = []
        """Names that became live and that the prober has not taken yet."""
        self.urgent: dict[str, None] = {}
        """Names of members to probe before all others."""

    @property
    def me(self) -> Member:
        """Our own state, as other members should believe it."""
        me = self.table.get(self.name)
        assert me is not None
        return me

    @property
    def is_leaving(self) -> bool:
        """Whether we have announced that we leave, and refute nothing any more."""
        return self.me.state is State.LEFT

    @property
    def is_alone(self) -> bool:
        """Whether no other member is live, as for a member that has not joined yet."""
        return self.table.live_count == (0 if self.is_leaving else 1)

    def begin(self) -> None:
        """Make our own existence the first rumour."""
        self.queue.put(rumour_about(self.me, self.name))

    def table_to_send(self, buckets: int = ALL_BUCKETS) -> messages.Sync:
        return messages.Sync(self.name, within(self.table, buckets), self.queue.names, buckets)

    def table_to_answer(self, buckets: int) -> messages.SyncAnswer:
        return messages.SyncAnswer(self.name, within(self.table, buckets), self.queue.names)

    def packet(self, member: Member, *head: messages.DatagramMessage) -> Send:
        """Return a datagram to `member`: `head` first, then as many rumours as fit."""
        return Send(member.address, self.queue.fill(head, live_count=self.table.live_count))

    def accept(
        self, incoming: Member, reporter: str, now: float, *, cause: str, is_spread: bool = True
    ) -> list[Effect]:
        """Merge one belief about another member; return the effects if it says more.

        reporter: the member that began the statement, such as the first accuser.
        cause: how it came to us, in words, for `explain`.
        is_spread: whether it is news to others too, rather than to us alone.
        No effects if we hold an equal or greater belief, are leaving, or lack room for a name.
        """
        assert incoming.name != self.name
        held = self.table.get(incoming.name)
        if held is None and (self.is_leaving or not self.table.make_room()):
            self.counters["members_refused_full"] += 1
            return []
        if held is not None and merge(held, incoming) is held:
            return []
        fresh = held is None or (held.state, held.uid) != (incoming.state, incoming.uid)
        since_s = now if held is None or fresh else held.changed_at_s
        member = dataclasses.replace(incoming, changed_at_s=since_s)
        self.table.put(member)
        if held is not None and (fresh or member.state is State.SUSPECT):
            moment = Moment(now, member.state, member.incarnation, reporter, cause)
            self.chronicle.note(member.name, moment)
        if member.is_live and (held is None or not held.is_live):
            self.arrived.append(member.name)
        if is_spread:
            self.queue.put(rumour_about(member, reporter))
        return [*_notice(held, member), *self._follow_suspicion(member, reporter, now)]

    def suspect(  # Tests replace this.
        self, member: Member, reporter: str, now: float, *, cause: str
    ) -> list[Effect]:
        """Take up one accusation at `member.incarnation`, or count it as a confirmation.

        A confirmation that counted is spread anew, so that the timers of others shorten too.
        """
        suspicion = self.suspicions.get(member.name)
        if suspicion is None or suspicion.incarnation < member.incarnation:
            accused = dataclasses.replace(member, state=State.SUSPECT)
            return self.accept(accused, reporter, now, cause=cause)
        if suspicion.incarnation > member.incarnation or not suspicion.confirm(reporter):
            return []
        moment = Moment(now, State.SUSPECT, member.incarnation, reporter, f"confirmed: {cause}")
        self.chronicle.note(member.name, moment)
        self.queue.put(messages.Suspect(member.name, member.incarnation, reporter))
        return [self._look(suspicion, now)]

    def hasten(self, name: str, now: float) -> list[Effect]:
        """Cut a running suspicion short, since the suspect's own host refused a connection."""
        suspicion = self.suspicions.get(name)
        if suspicion is None:
            return []
        suspicion.hasten(now + self.config.refused_grace_s)
        return self.suspicion_due(SuspicionDue(name, suspicion.incarnation), now)

    def suspicion_due(self, timer: SuspicionDue, now: float) -> list[Effect]:
        """Call the suspect dead if its time is up; else send it the accusation and look again."""
        suspicion = self.suspicions.get(timer.name)
        if suspicion is None or suspicion.incarnation != timer.incarnation:
            return []  # Refuted or accused anew meanwhile: this timer is outdated.
        held = self.table.get(timer.name)
        assert held is not None
        assert held.state is State.SUSPECT
        if now < suspicion.deadline_s:
            accusation = rumour_about(held, self.name)
            return [Send(held.address, (accusation,)), self._look(suspicion, now)]
        self.counters["members_declared_dead"] += 1
        cause = (
            f"suspect for {now - suspicion.started_at_s:.1f} s without a refutation,"
            f" accused by {', '.join(sorted(suspicion.reporters))}"
        )
        dead = dataclasses.replace(held, state=State.DEAD)
        return self.accept(dead, self.name, now, cause=cause)

    def refute(self, accused_incarnation: int) -> None:
        """Answer a statement about ourselves with an incarnation that it cannot outbid.

        accused_incarnation: the incarnation of the statement; ours is above it afterwards.
        """
        assert not self.is_leaving
        incarnation = max(self.me.incarnation, accused_incarnation) + 1
        assert incarnation <= messages.INCARNATION_MAX
        self.counters["refutations"] += 1
        self._speak(dataclasses.replace(self.me, incarnation=incarnation))

    def repeat(self) -> None:  # Tests replace this.
        """Spread our own state once more: an older statement is still around."""
        if self.name not in self.queue:
            self.queue.put(rumour_about(self.me, self.name))

    def leave(self, now: float) -> None:
        """Announce that we go. From here on we refute nothing."""
        self._speak(dataclasses.replace(self.me, state=State.LEFT, changed_at_s=now))

    def extend_suspicions(self, lag_s: float, now: float) -> list[Effect]:
        """Give all suspects back the time in which we did not listen."""
        for suspicion in self.suspicions.values():
            suspicion.extend(lag_s)
        return [self._look(suspicion, now) for suspicion in self.suspicions.values()]

    def _look(self, suspicion: Suspicion, now: float) -> SetTimer:
        timer = SuspicionDue(suspicion.name, suspicion.incarnation)
        return SetTimer(timer, suspicion.next_look_s(now, self.name))

    def _speak(self, me: Member) -> None:  # Tests replace this.
        self.table.put(me)
        self.queue.put(rumour_about(me, self.name))

    def _follow_suspicion(self, member: Member, reporter: str, now: float) -> list[Effect]:
        """Begin, restart or end the suspicion, as the new state of `member` requires."""
        self.suspicions.pop(member.name, None)
        if member.state is not State.SUSPECT:
            return []
        self.counters["suspicions"] += 1
        suspicion = begin_suspicion(
            member.name,
            member.incarnation,
            reporter,
            now=now,
            live_count=self.table.live_count,
            config=self.config,
        )
        self.suspicions[member.name] = suspicion
        return [self._look(suspicion, now)]


def _notice(held: Member | None, member: Member) -> list[Effect]:
    """Return the report to the application; none if only the incarnation changed."""
    if held is None:
        return [Notify(Change(member, None))]
    moved = dataclasses.replace(held, incarnation=member.incarnation)
    return [] if moved == member else [Notify(Change(member, held.state))]
