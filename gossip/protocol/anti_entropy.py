"""Repair of what gossip missed: now and then two members compare all that they believe.

Gossip tells each rumour a limited number of times, so with a small probability a member never
hears one. Every interval each member therefore exchanges tables with one random live peer,
both ways. And since the dead are asked by nobody, one of them is tried now and then: if it
lives after all, behind a partition that has healed, it finds our accusation in our table,
refutes it, and its answer already brings the refutation.

Source: epidemic repair in the sense of Demers et al. (1987), section 1.3, anti-entropy.
Left out: digests, which would compare tables without sending them.
"""

from __future__ import annotations

import math

from gossip.member import Member, State
from gossip.protocol.effects import Ask, Effect, SetTimer
from gossip.protocol.events import ReconnectDue, SyncDue, SyncExchange
from gossip.protocol.membership import Membership


def sync_scale(live_count: int) -> int:
    """Return the factor that stretches the interval among `live_count` members.

    1 up to 32 members, then ceil(log2(n) - 5) + 1, so that the bytes for whole tables, which
    grow with n per exchange, do not grow as fast per second.
    """
    if live_count <= 32:
        return 1
    return math.ceil(math.log2(live_count) - 5) + 1


def reconnect_probability(dead_count: int, live_count: int) -> float:
    """Return how likely one round tries one of the dead: max(1/8, min(1, dead / live)).

    After a partition down the middle everybody tries; a single dead member among many is
    left to a few of them.
    """
    if dead_count == 0:
        return 0.0
    return max(1 / 8, min(1.0, dead_count / max(1, live_count)))


class AntiEntropy:
    """Chooses with whom to compare tables."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._config = membership.config

    def begin(self, now: float) -> list[Effect]:
        """Set both clocks, each at a random phase so that members do not act in step."""
        return [
            SetTimer(SyncDue(), now + self._config.sync_interval_s * self._membership.rng.random()),
            SetTimer(ReconnectDue(), now + self._jittered_s(self._config.reconnect_interval_s)),
        ]

    def soon(self, now: float) -> list[Effect]:
        """Compare tables once more a few probe intervals from now.

        For a newcomer: where many join at once, the first table it gets is soon outdated, and
        the news that made it so may have passed before others knew the way to us.
        """
        wait_s = self._config.probe_interval_s * (1.0 + 2.0 * self._membership.rng.random())
        return [SetTimer(SyncDue(), now + wait_s)]

    def sync_due(self, now: float) -> list[Effect]:
        """Compare tables with a random live peer."""
        self._membership.table.forget_gone_since(now - self._config.forget_after_s)
        peers = self._membership.table.pick(
            1,
            self._membership.rng,
            lambda member: member.is_live and member.name != self._membership.name,
        )
        interval_s = self._config.sync_interval_s * sync_scale(self._membership.table.live_count)
        asks: list[Effect] = [self._ask(peer) for peer in peers]
        return [*asks, SetTimer(SyncDue(), now + self._jittered_s(interval_s))]

    def reconnect_due(self, now: float) -> list[Effect]:
        """Perhaps look whether one of the dead is back."""
        table, rng = self._membership.table, self._membership.rng
        dead_count = sum(member.state is State.DEAD for member in table)
        is_tried = rng.random() < reconnect_probability(dead_count, table.live_count)
        dead = table.pick(1, rng, lambda member: member.state is State.DEAD) if is_tried else []
        asks: list[Effect] = [self._ask(member) for member in dead]
        wait_s = self._jittered_s(self._config.reconnect_interval_s)
        return [*asks, SetTimer(ReconnectDue(), now + wait_s)]

    def _ask(self, member: Member) -> Ask:
        self._membership.counters["syncs"] += 1
        exchange = SyncExchange(member.name, member.incarnation)
        table = self._membership.table_to_send()
        return Ask(exchange, member.address, table, self._config.stream_timeout_s)

    def _jittered_s(self, interval_s: float) -> float:
        return interval_s * (0.8 + 0.4 * self._membership.rng.random())
