"""Finding the other members at the start, and again after all have forgotten each other.

A seed is an address where a member may be found, nothing more. Each seed has its own timer. When it
fires and we know no live member there, we send our table and take theirs. A failed attempt is
repeated with doubling, jittered waits; after an answer the timer is slow. So joining never blocks
anything, and it never quite ends: a seed whose member is held dead, or was forgotten in a long
partition, is looked at again.

Source: our own; the push and pull of whole tables at a join is common practice around SWIM.
Left out: seeds by names that resolve to many addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from gossip.member import Address
from gossip.protocol.effects import Ask, Effect, ReportSeed, SetTimer
from gossip.protocol.events import SeedDue, SeedExchange
from gossip.protocol.membership import Membership


@dataclass(slots=True)
class _Seed:
    """One seed: the member that answered there last, and the failures since."""

    name: str | None = None
    failures: int = 0


class Joiner:
    """Keeps the tables of this member and of the seeds' members in contact."""

    def __init__(self, membership: Membership, seeds: tuple[Address, ...]) -> None:
        self._membership = membership
        self._seeds = {address: _Seed() for address in seeds}

    def begin(self, now: float) -> list[Effect]:
        return [effect for address in self._seeds for effect in self.seed_due(address, now)]

    def add(self, address: Address, now: float) -> list[Effect]:
        """Try a seed at once, new or known."""
        self._seeds.setdefault(address, _Seed())
        return [self._ask(address)]

    def seed_due(self, address: Address, now: float) -> list[Effect]:
        """Exchange tables with the seed unless we know a live member there."""
        seed = self._seeds[address]
        if self._is_known(address, seed):
            return [self._later(address, now)]
        return [self._ask(address)]

    def answered(self, address: Address, source: str, now: float) -> list[Effect]:
        self._membership.counters["seeds_answered"] += 1
        self._seeds[address] = _Seed(name=source)
        return [ReportSeed(address, ""), self._later(address, now)]

    def unanswered(self, address: Address, is_refused: bool, now: float) -> list[Effect]:
        """Try again after min(longest, shortest * 2^failures), less up to half at random.

        So members do not ask in step.
        """
        seed = self._seeds[address]
        config = self._membership.config
        doubled_s = config.join_retry_min_s * 2.0 ** min(seed.failures, 32)
        wait_s = min(config.join_retry_max_s, doubled_s)
        wait_s *= 1.0 - 0.5 * self._membership.rng.random()
        seed.failures += 1
        failure = "connection refused" if is_refused else "no answer"
        return [ReportSeed(address, failure), SetTimer(SeedDue(address), now + wait_s)]

    def _is_known(self, address: Address, seed: _Seed) -> bool:
        table = self._membership.table
        if seed.name is not None:
            member = table.get(seed.name)
            if member is not None and member.is_live:
                return True
        return any(member.is_live and member.address == address for member in table)

    def _ask(self, address: Address) -> Ask:
        table = self._membership.table_to_send()
        timeout_s = self._membership.config.stream_timeout_s
        return Ask(SeedExchange(address), address, table, timeout_s)

    def _later(self, address: Address, now: float) -> SetTimer:
        wait_s = self._membership.config.seed_interval_s
        wait_s *= 0.8 + 0.4 * self._membership.rng.random()
        return SetTimer(SeedDue(address), now + wait_s)
