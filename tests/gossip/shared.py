"""Ten thousand tables in one process: a shared base is kept once, each keeps its differences.

Ten thousand full tables would be a hundred million records. Here all members share one base, and
the order of probes is a permutation that is computed and not stored. The ordinary table and the
ordinary order are the reference: a test holds the two against each other.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator, Sequence

from gossip import Member
from gossip.protocol.digest import TableDigest
from gossip.protocol.membership import Membership
from gossip.protocol.table import Table
from tests.gossip.world import World


class Base:
    """The members that every member knows from the start, all alive."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.names = [member.name for member in members]
        self.members = {member.name: member for member in members}
        self.digest = TableDigest()
        for member in members:
            self.digest.put(None, member)


class SharedTable(Table):
    """A table of differences to the base."""

    def __init__(self, base: Base) -> None:
        super().__init__(members_max=2 * len(base.names))
        self._base = base
        self._names = base.names
        self._lost: set[str] = set()
        """Names of the base that are not live here."""
        self.digest = copy.copy(base.digest)
        self.digest._buckets = list(base.digest._buckets)

    def __len__(self) -> int:
        extra = sum(name not in self._base.members for name in self._members)
        return len(self._names) + extra

    def __iter__(self) -> Iterator[Member]:
        for name, member in self._base.members.items():
            yield self._members.get(name, member)
        yield from (member for name, member in self._members.items() if self._is_extra(name))

    @property
    def live_count(self) -> int:
        extra = sum(
            member.is_live for name, member in self._members.items() if self._is_extra(name)
        )
        return len(self._names) - len(self._lost) + extra

    @property
    def gone(self) -> Iterator[Member]:
        return (member for member in self._members.values() if not member.is_live)

    def get(self, name: str) -> Member | None:
        return self._members.get(name) or self._base.members.get(name)

    def put(self, member: Member) -> None:
        self.digest.put(self.get(member.name), member)
        self._members[member.name] = member
        if not self._is_extra(member.name):
            (self._lost.discard if member.is_live else self._lost.add)(member.name)

    def pick_live(
        self, count: int, rng: random.Random, is_wanted: Callable[[Member], bool]
    ) -> list[Member]:
        picked: dict[str, Member] = {}
        for _ in range(20 * count):
            member = self.get(self._names[int(rng.random() * len(self._names))])
            if member is not None and member.is_live and is_wanted(member):
                picked[member.name] = member
                if len(picked) == count:
                    break
        return list(picked.values())

    def _is_extra(self, name: str) -> bool:
        return name not in self._base.members


class SharedOrder:
    """The order of probes: a permutation i -> a * i + b, drawn anew for each pass."""

    def __init__(self, membership: Membership, names: Sequence[str]) -> None:
        self._membership = membership
        self._names = names
        self._draw()

    def next(self) -> Member | None:
        self._membership.arrived.clear()
        for _ in range(2 * len(self._names)):
            if self._step == len(self._names):
                self._draw()
            place = (self._factor * self._step + self._offset) % len(self._names)
            self._step += 1
            candidate = self._membership.table.get(self._names[place])
            if candidate is not None and self.is_target(candidate):
                return candidate
        return None

    def is_target(self, member: Member) -> bool:
        return member.is_live and member.name != self._membership.name

    def _draw(self) -> None:
        rng, count = self._membership.rng, len(self._names)
        self._step, self._offset = 0, int(rng.random() * count)
        self._factor = 1 + int(rng.random() * count)
        while math.gcd(self._factor, count) != 1:
            self._factor += 1


def start_sharing(world: World, count: int) -> None:
    """Start `count` processes that know each other already, upon one base."""
    nodes = [world._prepare(f"n{number}") for number in range(count)]
    base = Base([node.swim.membership.me for node in nodes])
    for node in nodes:
        membership = node.swim.membership
        membership.table = SharedTable(base)
        node.swim._prober._order = SharedOrder(membership, base.names)  # type: ignore[assignment]
        world.oracles.watch(node)
        node.is_in_order = False
        world.begin(node)
        membership.queue.clear()
