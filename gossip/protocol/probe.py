"""Probes: when they are sent, what counts as an answer, and what follows from silence.

One probe at a time, one per interval. A ping goes out; if no ack comes in time, k others are asked
to ping in our stead and a ping is tried over TCP, side by side. Any ack saves the target. At the
end of the interval silence makes it a suspect. A refused TCP connection makes it one at once: its
own host says that no process listens.

    now          + timeout                 + interval
     |  Ping        |  PingReq to k, TCP       |  judge, next
     |------------->|------------------------->|
                    |   nack due at 0.8 of the relays' time

Source: SWIM (Das, Gupta and Motivala, 2002), sections 3.1 and 4.3; Lifeguard (2017), section
IV-A, for nacks and stretched intervals, IV-C for sending the suspicion to the suspect itself.
Left out: timeouts adapted to the measured round trip.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gossip.member import Address, Member, State
from gossip.messages import NACK_AFTER_MS_MAX, SEQUENCE_MAX, Ack, Nack, NackReason, Ping, PingReq
from gossip.protocol.effects import Ask, Effect, ReportUnreachable, Send, SetTimer
from gossip.protocol.events import AckDue, NackDue, PingExchange, ProbeDue
from gossip.protocol.membership import Membership, rumour_about
from gossip.protocol.order import ProbeOrder

_RELAYED_MAX = 256
"""Most pings in flight for others. Further requests to relay get a nack at once."""


_UNREACHABLE_INTERVAL_S = 60.0
"""Shortest time between two reports that a member's datagrams are lost."""


@dataclass(slots=True)
class _Probe:
    """The probe in flight, and the evidence so far."""

    sequence: int
    target: Member
    relays: tuple[str, ...] = ()
    nacks: dict[str, NackReason] = field(default_factory=dict)

    @property
    def silent_relays(self) -> list[str]:
        return [relay for relay in self.relays if relay not in self.nacks]

    @property
    def evidence(self) -> str:
        """The attempts and their results, in words."""
        host, port = self.target.address
        tried = [f"no ack from {host}:{port} to ping {self.sequence}, nor over TCP"]
        tried += [f"{name} answered {why.name.lower()}" for name, why in self.nacks.items()]
        tried += [f"{name} did not answer" for name in self.silent_relays]
        return "; ".join(tried)


@dataclass(frozen=True, slots=True)
class _Relayed:
    """A ping that we sent for another member."""

    target: str
    requester: Address
    sequence: int


class Prober:
    """Sends probes and judges them, and relays those of others."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._config = membership.config
        self._sequence = int(membership.rng.random() * SEQUENCE_MAX)
        self._order = ProbeOrder(membership)
        self._probe: _Probe | None = None
        self._relayed: dict[int, _Relayed] = {}
        self._unreachable_at_s: dict[str, float] = {}

    def probe_due(self, now: float) -> list[Effect]:
        """Judge the probe in flight, begin one of the next member, set the clock."""
        effects = self._judge(now)
        target = self._order.next()
        if target is not None:
            effects += self._begin(target, now)
        interval_s = self._membership.awareness.stretched_s(self._config.probe_interval_s)
        return [*effects, SetTimer(ProbeDue(), now + interval_s)]

    def ack_due(self, timer: AckDue) -> list[Effect]:
        """Ask k others and TCP for help, since the direct ping brought nothing in time."""
        probe = self._probe
        if probe is None or probe.sequence != timer.sequence:
            return []  # Answered or judged meanwhile.
        target = probe.target
        self._membership.counters["probes_unanswered_directly"] += 1
        relays = self._membership.table.pick_live(
            self._config.indirect_probes_count,
            self._membership.rng,
            lambda member: (
                member.state is State.ALIVE
                and member.name not in (target.name, self._membership.name)
            ),
        )
        probe.relays = tuple(relay.name for relay in relays)
        stretched_s = self._membership.awareness.stretched_s
        left_s = stretched_s(self._config.probe_interval_s - self._config.probe_timeout_s)
        wait_s = min(stretched_s(self._config.probe_timeout_s), left_s)
        nack_after_ms = int(1000 * self._config.nack_fraction * wait_s)
        request = PingReq(
            sequence=probe.sequence,
            target=target.name,
            address=target.address,
            nack_after_ms=min(nack_after_ms, NACK_AFTER_MS_MAX),
            source=self._membership.name,
        )
        effects: list[Effect] = [self._membership.packet(relay, request) for relay in relays]
        exchange = PingExchange(probe.sequence, target.name, target.incarnation)
        ping = self._ping(probe.sequence, target.name)
        return [*effects, Ask(exchange, target.address, ping, left_s)]

    def acked(self, ack: Ack) -> list[Effect]:
        """Close our own probe, or pass the ack on to the member that asked us to ping."""
        probe = self._probe
        if probe is not None and probe.sequence == ack.sequence:
            if ack.source == probe.target.name:
                self._close_answered()
            return []
        relayed = self._relayed.get(ack.sequence)
        if relayed is None or relayed.target != ack.source:
            self._membership.counters["acks_unexpected"] += 1
            return []
        del self._relayed[ack.sequence]
        return [Send(relayed.requester, (Ack(relayed.sequence, ack.source),))]

    def nacked(self, nack: Nack) -> None:
        """Note that a relay is well: the silence of the target is then not our own fault."""
        probe = self._probe
        if probe is not None and probe.sequence == nack.sequence:
            probe.nacks[nack.source] = nack.reason

    def answered(self, exchange: PingExchange, now: float) -> list[Effect]:
        """Accept an ack over TCP: the target is alive, although its datagrams are lost."""
        probe = self._probe
        if probe is None or probe.sequence != exchange.sequence:
            return []
        self._membership.counters["probes_answered_by_stream_only"] += 1
        self._close_answered()
        reported_at_s = self._unreachable_at_s.get(exchange.name)
        if reported_at_s is not None and now - reported_at_s < _UNREACHABLE_INTERVAL_S:
            return []
        self._unreachable_at_s[exchange.name] = now
        return [ReportUnreachable(exchange.name)]

    def refused(self, exchange: PingExchange) -> None:
        """Drop the probe without lowering our own health: the other host refused it."""
        probe = self._probe
        if probe is not None and probe.sequence == exchange.sequence:
            self._probe = None

    def relay(self, request: PingReq, sender: Address, now: float) -> list[Effect]:
        """Ping for another member, or nack at once if we cannot.

        Only known members are pinged, at their known addresses, so that a forger cannot aim us at
        strangers.
        """
        target = self._membership.table.get(request.target)
        if target is None or not target.is_live or len(self._relayed) >= _RELAYED_MAX:
            has_left = target is not None and target.state is State.LEFT
            reason = NackReason.LEFT if has_left else NackReason.UNKNOWN
            return [Send(sender, (Nack(request.sequence, self._membership.name, reason),))]
        sequence = self._next_sequence()
        self._relayed[sequence] = _Relayed(request.target, sender, request.sequence)
        ping = self._ping(sequence, request.target)
        due_s = now + request.nack_after_ms / 1000
        return [Send(target.address, (ping,)), SetTimer(NackDue(sequence), due_s)]

    def nack_due(self, timer: NackDue) -> list[Effect]:
        """Send a nack to the member that asked us to ping: we had no ack either."""
        relayed = self._relayed.pop(timer.sequence, None)
        if relayed is None:
            return []  # Acked meanwhile.
        nack = Nack(relayed.sequence, self._membership.name, NackReason.TIMEOUT)
        return [Send(relayed.requester, (nack,))]

    def probe_now(self, name: str) -> list[Effect]:
        """Ping `name` over TCP at once, and by datagram in the next probe.

        If only the process died, its host refuses the connection, so the death is known at once.
        """
        held = self._membership.table.get(name)
        if held is None or not self._order.is_target(held):
            return []
        self._membership.urgent[name] = None
        sequence = self._next_sequence()
        ping = self._ping(sequence, name)
        exchange = PingExchange(sequence, name, held.incarnation)
        return [Ask(exchange, held.address, ping, self._config.probe_interval_s)]

    def abandon(self) -> None:
        """Drop the probes in flight unjudged, since this process did not listen."""
        self._probe = None
        self._relayed.clear()

    def _begin(self, target: Member, now: float) -> list[Effect]:
        self._probe = _Probe(self._next_sequence(), target)
        self._membership.counters["probes"] += 1
        ping = self._ping(self._probe.sequence, target.name)
        # The accusation goes ahead of the ping, so that the ack already brings the refutation.
        is_told = target.state is State.SUSPECT and self._config.buddy_rule
        accusation = (rumour_about(target, self._membership.name),) if is_told else ()
        timeout_s = self._membership.awareness.stretched_s(self._config.probe_timeout_s)
        return [
            self._membership.packet(target, *accusation, ping),
            SetTimer(AckDue(self._probe.sequence), now + timeout_s),
        ]

    def _judge(self, now: float) -> list[Effect]:
        probe, self._probe = self._probe, None
        if probe is None:
            return []
        self._membership.counters["probes_failed"] += 1
        # Without a nack the silence may be our own fault; any nack vouches for us.
        missing = len(probe.silent_relays) if probe.relays else int(not probe.nacks)
        self._membership.awareness.worsen(missing)
        held = self._membership.table.get(probe.target.name)
        if held is None or not held.is_live or held.incarnation != probe.target.incarnation:
            return []  # The target was heard meanwhile, or is gone already.
        return self._membership.suspect(held, self._membership.name, now, cause=probe.evidence)

    def _ping(self, sequence: int, target: str) -> Ping:
        return Ping(sequence, target, self._membership.name, self._membership.table.digest.whole)

    def _close_answered(self) -> None:
        self._probe = None
        self._membership.awareness.improve()

    def _next_sequence(self) -> int:
        self._sequence = (self._sequence + 1) % (SEQUENCE_MAX + 1)
        return self._sequence
