"""Anti-entropy: members whose beliefs differ notice it and exchange tables.

Gossip tells each rumour a limited number of times, so with a small probability a member never
hears one. The sum over each member's table rides on pings and acks (`digest.py`). Where two sums
differ although no news is under way, the two compare partial sums and exchange the parts that
differ. Besides, every interval each member compares with one random live peer. And since no
member probes the dead, one of them is tried now and then: if it lives after all, behind a
partition that has healed, it finds our accusation in our table, and its answer brings the
refutation.

Source: epidemic repair in the sense of Demers et al. (1987), section 1.3, anti-entropy.
"""

from __future__ import annotations

import math

from gossip.member import Member, State
from gossip.messages import Digest, DigestAnswer
from gossip.protocol.digest import ALL_BUCKETS, dissemination_s
from gossip.protocol.effects import Ask, Effect, SetTimer
from gossip.protocol.events import DigestExchange, ReconnectDue, SyncDue, SyncExchange
from gossip.protocol.membership import Membership

WHOLE_TABLES_MAX = 64
"""Live members up to which sending a whole table costs no more than comparing sums first."""


def sync_scale(live_count: int) -> int:
    """Return the factor that stretches the interval among `live_count` members.

    1 up to 32 members, then ceil(log2(n) - 5) + 1, so that the bytes for whole tables, which
    grow with n per exchange, do not grow as fast per second.
    """
    if live_count <= 32:
        return 1
    return math.ceil(math.log2(live_count) - 5) + 1


def reconnect_probability(dead_count: int, live_count: int) -> float:
    """Return the chance that a round tries to reach a dead member: max(1/8, min(1, dead / live)).

    After a partition into halves all members try; a single dead member among many is tried by
    a few of them.
    """
    if dead_count == 0:
        return 0.0
    return max(1 / 8, min(1.0, dead_count / max(1, live_count)))


class AntiEntropy:
    """Chooses the peers to compare tables with, and the times."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._config = membership.config
        self._quiet_since_s = 0.0
        self._differs_since_s: dict[str, float] = {}
        self._compared_at_s = -math.inf
        self._is_comparing = False

    def begin(self, now: float) -> list[Effect]:
        """Set the timers of comparing and reconnecting, at random phases so that members differ."""
        return [
            SetTimer(SyncDue(), now + self._config.sync_interval_s * self._membership.rng.random()),
            SetTimer(ReconnectDue(), now + self._jittered_s(self._config.reconnect_interval_s)),
        ]

    def soon(self, now: float) -> list[Effect]:
        """Compare tables once more a few probe intervals from now.

        A newcomer needs this: where many join at once, the first table it gets is soon outdated,
        and the later news may have spread before others knew our address.
        """
        wait_s = self._config.probe_interval_s * (1.0 + 2.0 * self._membership.rng.random())
        return [SetTimer(SyncDue(), now + wait_s)]

    def news_is_under_way(self, now: float) -> None:
        """Note the time of the last rumour: while news spreads, sums may differ."""
        self._quiet_since_s = now

    def heard_sum(
        self, name: str, state_hash: int | None, now: float
    ) -> list[Effect]:  # Tests replace this.
        """Compare with a peer whose sum differs from ours for longer than news travels.

        Either nothing has been under way here for that long, or this very peer has differed
        all the time. Sums differ for a moment at every change; without this patience a storm of
        comparisons would follow each of them.
        """
        table = self._membership.table
        if state_hash is None or state_hash == table.digest.whole:
            self._differs_since_s.pop(name, None)
            return []
        patience_s = 2 * dissemination_s(table.live_count, self._config)
        is_quiet = not len(self._membership.queue) and now - self._quiet_since_s >= patience_s
        is_lasting = now - self._differs_since_s.setdefault(name, now) >= patience_s
        is_free = (
            not self._is_comparing and now - self._compared_at_s >= self._config.digest_pause_s
        )
        peer = table.get(name)
        if not (is_quiet or is_lasting) or not is_free or peer is None or not peer.is_live:
            return []
        self._membership.counters["sums_differed"] += 1
        self._differs_since_s.clear()
        return [self._compare(peer, now)]

    def asked(self, digest: Digest) -> DigestAnswer:
        membership = self._membership
        return DigestAnswer(membership.name, membership.table.digest.differing(digest.sums))

    def answered(self, exchange: DigestExchange, answer: DigestAnswer) -> list[Effect]:
        """Exchange the parts that differ, if any do."""
        self._is_comparing = False
        peer = self._membership.table.get(exchange.name)
        if not answer.buckets or peer is None:
            return []
        self._membership.counters["parts_exchanged"] += answer.buckets.bit_count()
        return [self._ask(peer, answer.buckets)]

    def unanswered(self) -> None:
        self._is_comparing = False

    def sync_due(self, now: float) -> list[Effect]:
        for name in self._membership.table.forget_gone_since(now - self._config.forget_after_s):
            self._membership.chronicle.forget(name)
        peers = self._membership.table.pick_live(
            1,
            self._membership.rng,
            lambda member: member.name != self._membership.name,
        )
        interval_s = self._config.sync_interval_s * sync_scale(self._membership.table.live_count)
        asks: list[Effect] = [self._compare(peer, now) for peer in peers]
        return [*asks, SetTimer(SyncDue(), now + self._jittered_s(interval_s))]

    def reconnect_due(self, now: float) -> list[Effect]:  # Tests replace this.
        """Try to reach one dead member, with a probability."""
        table, rng = self._membership.table, self._membership.rng
        dead_count = sum(member.state is State.DEAD for member in table.gone)
        is_tried = rng.random() < reconnect_probability(dead_count, table.live_count)
        tried = table.pick_gone(int(is_tried), rng, lambda member: member.state is State.DEAD)
        asks: list[Effect] = [self._ask(member) for member in tried]
        wait_s = self._jittered_s(self._config.reconnect_interval_s)
        return [*asks, SetTimer(ReconnectDue(), now + wait_s)]

    def _compare(self, peer: Member, now: float) -> Ask:
        table = self._membership.table
        self._compared_at_s = now
        if table.live_count <= WHOLE_TABLES_MAX:
            return self._ask(peer)
        self._is_comparing = True
        self._membership.counters["digests"] += 1
        exchange = DigestExchange(peer.name, peer.incarnation)
        digest = Digest(self._membership.name, table.digest.packed())
        return Ask(exchange, peer.address, digest, self._config.stream_timeout_s)

    def _ask(self, member: Member, buckets: int = ALL_BUCKETS) -> Ask:
        self._membership.counters["syncs"] += 1
        exchange = SyncExchange(member.name, member.incarnation)
        table = self._membership.table_to_send(buckets)
        return Ask(exchange, member.address, table, self._config.stream_timeout_s)

    def _jittered_s(self, interval_s: float) -> float:
        return interval_s * (0.8 + 0.4 * self._membership.rng.random())
