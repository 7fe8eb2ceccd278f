"""The member table: one belief per name, ourselves among them, and the counts we need often.

It stores and counts, and judges nothing: what may replace what is `member.merge`, what
follows from a change is `membership.py`.

The dead and the left stay for a day (`forget_after_s`). While they do, a rumour about their
past cannot revive them; when the table is full the ones longest gone make room first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from gossip.member import Member
from gossip.protocol.digest import TableDigest


class Table:
    """All beliefs by name."""

    def __init__(self, members_max: int) -> None:
        assert members_max >= 1
        self._members_max = members_max
        self._members: dict[str, Member] = {}
        self.live_count = 0
        self.digest = TableDigest()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def get(self, name: str) -> Member | None:
        """Return what we hold of `name`, or None if we never heard it."""
        return self._members.get(name)

    def put(self, member: Member) -> None:
        """Hold `member`, whatever was held of its name before."""
        held = self._members.get(member.name)
        self.live_count += member.is_live - (held is not None and held.is_live)
        self._members[member.name] = member
        self.digest.put(member)

    def forget(self, name: str) -> None:
        """Drop a member that is gone. A later rumour of its past would be news again."""
        member = self._members.pop(name)
        assert not member.is_live

    def make_room(self) -> bool:
        """Tell whether one more name fits, after forgetting the longest gone if it must be."""
        if len(self._members) < self._members_max:
            return True
        gone = [member for member in self if not member.is_live]
        if not gone:
            return False
        self.forget(min(gone, key=lambda member: member.changed_at_s).name)
        return True

    def forget_gone_since(self, before_s: float) -> None:
        """Drop all that were gone already at `before_s`."""
        for member in list(self):
            if not member.is_live and member.changed_at_s < before_s:
                self.forget(member.name)

    def pick(
        self, count: int, rng: random.Random, is_wanted: Callable[[Member], bool]
    ) -> list[Member]:
        """Return up to `count` different members among the wanted ones, uniformly at random."""
        wanted = [member for member in self if is_wanted(member)]
        return wanted if len(wanted) <= count else rng.sample(wanted, count)
