"""The whole protocol as one function: `Swim.step(event, now)` returns a list of effects.

This file only dispatches and keeps the gossip clock; `gossip/__init__.py` lists the other files.

The clock is the argument `now`, monotonic seconds; randomness is handed in. The same events
at the same times with the same seed give the same effects.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import assert_never

from gossip.config import Config
from gossip.member import Address, Member, State
from gossip.messages import (
    Ack,
    Alive,
    Claim,
    DatagramMessage,
    Dead,
    Digest,
    DigestAnswer,
    Left,
    Nack,
    NackReason,
    Ping,
    PingReq,
    StreamMessage,
    Suspect,
    Sync,
    SyncAnswer,
)
from gossip.protocol import events
from gossip.protocol.anti_entropy import AntiEntropy
from gossip.protocol.claim_rules import ClaimRules
from gossip.protocol.effects import Departed, Effect, Reply, Send, SetTimer
from gossip.protocol.join import Joiner
from gossip.protocol.membership import Membership, rumour_about
from gossip.protocol.probe import Prober


class Swim:
    """One member's side of the protocol. `membership.table` is its view of the group."""

    def __init__(
        self, me: Member, config: Config, *, rng: random.Random, seeds: Sequence[Address] = ()
    ) -> None:
        self.membership = Membership(me, config, rng)
        self._config = config
        self._claim_rules = ClaimRules(self.membership)
        self._prober = Prober(self.membership)
        self._joiner = Joiner(self.membership, tuple(seeds))
        self._anti_entropy = AntiEntropy(self.membership)
        self._is_gossip_set = False
        self._is_departed = False

    def step(self, event: events.Event, now: float) -> list[Effect]:
        """Return the effects of `event` at `now`, in the order in which they must be performed.

        After Departed there are no effects any more.
        """
        if self._is_departed:
            return []
        effects = self._dispatch(event, now)
        if not len(self.membership.queue):
            return effects
        self._anti_entropy.news_is_under_way(now)
        if self._is_gossip_set:
            return effects
        self._is_gossip_set = True
        return [*effects, SetTimer(events.GossipDue(), now + self._config.gossip_interval_s)]

    def _dispatch(self, event: events.Event, now: float) -> list[Effect]:
        match event:
            case events.Received(sender, messages):
                return self._receive(sender, messages, now)
            case events.TimerFired(timer):
                return self._time_up(timer, now)
            case events.TableBegun(table):
                return self._claim_rules.hear_table(table, now, more_follows=True)
            case events.Asked(stream, message):
                return self._asked(stream, message, now)
            case events.Answered():
                return self._answered(event, now)
            case events.Unanswered():
                return self._unanswered(event, now)
            case events.Started():
                return self._start(now)
            case events.Stalled(lag_s):
                return self._stalled(lag_s, now)
            case events.SeedAdded(address):
                return self._joiner.add(address, now)
            case events.ProbeAsked(name):
                return self._prober.probe_now(name)
            case events.LeaveRequested():
                return self._leave(now)
            case _:
                assert_never(event)

    def _start(self, now: float) -> list[Effect]:
        self.membership.begin()
        # A random first phase, or members started together would probe in step for ever.
        phase_s = self._config.probe_interval_s * self.membership.rng.random()
        return [
            SetTimer(events.ProbeDue(), now + phase_s),
            *self._anti_entropy.begin(now),
            *self._joiner.begin(now),
        ]

    def _receive(
        self, sender: Address, messages: Sequence[DatagramMessage], now: float
    ) -> list[Effect]:
        self._claim_rules.begin_datagram()
        effects: list[Effect] = []
        for message in messages:
            effects += self._receive_one(sender, message, now)
        return effects

    def _receive_one(self, sender: Address, message: DatagramMessage, now: float) -> list[Effect]:
        match message:
            case Ping():
                return self._pinged(message, sender, now)
            case Ack():
                return [*self._prober.acked(message), *self._heard_sum(message, now)]
            case PingReq():
                return self._prober.relay(message, sender, now)
            case Nack():
                self._prober.nacked(message)
                return []
            case Alive() | Suspect() | Dead() | Left():
                return self._claim_rules.hear(message, sender, now)
            case Claim():
                return self._claim_rules.hear_claim(message, now)
            case _:
                assert_never(message)

    def _pinged(self, ping: Ping, sender: Address, now: float) -> list[Effect]:
        """Ack to the sender of the ping; a suspect or dead sender gets the accusation first."""
        membership = self.membership
        if ping.target != membership.name:
            membership.counters["pings_for_others"] += 1
            return [Send(sender, (Nack(ping.sequence, membership.name, NackReason.WRONG_NODE),))]
        source = membership.table.get(ping.source)
        if source is None or source.address != sender:
            # Send no more bytes than arrived: no amplification for a forged sender.
            return [Send(sender, (Ack(ping.sequence, membership.name),))]
        ack = Ack(ping.sequence, membership.name, membership.table.digest.whole)
        head = (*self._claim_rules.accusation_of(ping.source, now), ack)
        packet = membership.queue.fill(head, live_count=membership.table.live_count)
        return [Send(sender, packet), *self._heard_sum(ping, now)]

    def _heard_sum(self, message: Ping | Ack, now: float) -> list[Effect]:
        return self._anti_entropy.heard_sum(message.source, message.state_hash, now)

    def _time_up(self, timer: events.Timer, now: float) -> list[Effect]:
        match timer:
            case events.ProbeDue():
                return self._prober.probe_due(now)
            case events.AckDue():
                return self._prober.ack_due(timer)
            case events.NackDue():
                return self._prober.nack_due(timer)
            case events.SuspicionDue():
                return self.membership.suspicion_due(timer, now)
            case events.GossipDue():
                return self._gossip(now)
            case events.SyncDue():
                return self._anti_entropy.sync_due(now)
            case events.ReconnectDue():
                return self._anti_entropy.reconnect_due(now)
            case events.SeedDue(address):
                return self._joiner.seed_due(address, now)
            case events.LeaveDue():
                return self._depart()
            case _:
                assert_never(timer)

    def _gossip(self, now: float) -> list[Effect]:
        """Send the waiting rumours to a few members; while leaving, stop after the last one."""
        self._is_gossip_set = False
        membership, config = self.membership, self._config
        targets = membership.table.pick_live(config.gossip_fanout, membership.rng, self._is_peer)
        if not targets:
            membership.queue.clear()
        effects: list[Effect] = [] if membership.is_leaving else self._tell_one_dead(now)
        for target in targets:
            for burst in range(config.gossip_burst):
                if not len(membership.queue) or (burst and not membership.queue.has_unsent):
                    break
                effects.append(membership.packet(target))
        if membership.is_leaving and membership.name not in membership.queue:
            effects += self._depart()
        return effects

    def _is_peer(self, member: Member) -> bool:  # Tests replace this.
        return member.is_live and member.name != self.membership.name

    def _tell_one_dead(self, now: float) -> list[Effect]:  # Tests replace this.
        """Send one lately dead member the accusation: if it lives after all, it refutes.

        It gets nothing else, or rumours would use up their sends on the dead.
        """
        since_s = now - self._config.dead_gossip_s
        dead = self.membership.table.pick_gone(
            1,
            self.membership.rng,
            lambda member: member.state is State.DEAD and member.changed_at_s > since_s,
        )
        name = self.membership.name
        return [Send(member.address, (rumour_about(member, name),)) for member in dead]

    def _asked(self, stream: int, message: StreamMessage, now: float) -> list[Effect]:
        membership = self.membership
        match message:
            case Ping(sequence, target, _) if target == membership.name:
                return [Reply(stream, Ack(sequence, membership.name))]
            case Sync():
                effects = self._claim_rules.hear_table(message, now)
                return [*effects, Reply(stream, membership.table_to_answer(message.buckets))]
            case Digest():
                return [Reply(stream, self._anti_entropy.asked(message))]
            case _:
                membership.counters["requests_refused"] += 1
                return []

    def _answered(self, event: events.Answered, now: float) -> list[Effect]:
        match event.exchange, event.message:
            case events.PingExchange() as exchange, Ack(sequence, source) if (sequence, source) == (
                exchange.sequence,
                exchange.name,
            ):
                return self._prober.answered(exchange, now)
            case events.DigestExchange() as exchange, DigestAnswer() as answer:
                return self._anti_entropy.answered(exchange, answer)
            case events.SyncExchange(), SyncAnswer() as table:
                return self._claim_rules.hear_table(table, now)
            case events.SeedExchange(address), SyncAnswer() as table:
                again = self._anti_entropy.soon(now) if self.membership.is_alone else []
                effects = self._claim_rules.hear_table(table, now)
                return [*effects, *again, *self._joiner.answered(address, table.source, now)]
            case _:
                self.membership.counters["answers_refused"] += 1
                return self._unanswered(events.Unanswered(event.exchange, is_refused=False), now)

    def _unanswered(self, event: events.Unanswered, now: float) -> list[Effect]:
        match event.exchange:
            case events.SeedExchange(address):
                return self._joiner.unanswered(address, event.is_refused, now)
            case events.DigestExchange():
                self._anti_entropy.unanswered()
                return []  # The prober reaches the member in its turn.
            case events.PingExchange() | events.SyncExchange() as exchange if event.is_refused:
                return self._refused(exchange, now)
            case events.PingExchange() | events.SyncExchange():
                return []  # Silence: the end of the probe interval judges.
            case _:
                assert_never(event.exchange)

    def _refused(
        self, exchange: events.PingExchange | events.SyncExchange, now: float
    ) -> list[Effect]:
        """Begin a short suspicion of a member whose host says that no process listens there."""
        membership = self.membership
        if isinstance(exchange, events.PingExchange):
            self._prober.refused(exchange)
        held = membership.table.get(exchange.name)
        if held is None or not held.is_live or held.incarnation != exchange.incarnation:
            return []  # The member was heard since, or is gone already.
        membership.counters["connections_refused"] += 1
        host, port = held.address
        cause = f"{host} refused the connection to port {port}: no process listens there"
        return [
            *membership.suspect(held, membership.name, now, cause=cause),
            *membership.hasten(held.name, now),
        ]

    def _stalled(self, lag_s: float, now: float) -> list[Effect]:
        self.membership.counters["stalls"] += 1
        self.membership.awareness.worsen()
        self._prober.abandon()
        return self.membership.extend_suspicions(lag_s, now)

    def _leave(self, now: float) -> list[Effect]:
        if self.membership.is_leaving:
            return []
        self.membership.leave(now)
        if self.membership.is_alone:
            return self._depart()
        return [SetTimer(events.LeaveDue(), now + self._config.leave_timeout_s)]

    def _depart(self) -> list[Effect]:
        self._is_departed = True
        return [Departed()]
