"""The member table: one belief per name, ourselves among them, and the counts we need often.

It stores and counts, and judges nothing: `member.merge` says which belief wins, `membership.py`
what follows from a change.

The dead and the left stay for a day (`forget_after_s`). While they do, a rumour about their
past cannot revive them; when the table is full the ones longest gone make room first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from gossip.member import Member
from gossip.protocol.digest import TableDigest

_SCANNED_MAX = 32
"""Live members up to which a scan of all is as quick as random draws."""


class Table:
    """The beliefs of this member, by name."""

    def __init__(self, members_max: int) -> None:
        assert members_max >= 1
        self._members_max = members_max
        self._members: dict[str, Member] = {}
        self._live: list[str] = []
        self._place: dict[str, int] = {}
        """Index of each live name in `_live`, so that a random draw takes one step."""
        self._gone: dict[str, None] = {}
        self.digest = TableDigest()

    def __len__(self) -> int:
        return len(self._members)

    @property
    def live_count(self) -> int:
        """Number of live members, ourselves included unless we are leaving."""
        return len(self._live)

    @property
    def gone(self) -> Iterator[Member]:
        return (self._members[name] for name in self._gone)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def get(self, name: str) -> Member | None:
        return self._members.get(name)

    def put(self, member: Member) -> None:
        """Hold `member`, whatever was held of its name before."""
        self.digest.put(self._members.get(member.name), member)
        self._members[member.name] = member
        if not member.is_live:
            self._remove_live(member.name)
            self._gone[member.name] = None
        elif member.name not in self._place:
            self._gone.pop(member.name, None)
            self._place[member.name] = len(self._live)
            self._live.append(member.name)

    def forget(self, name: str) -> None:
        """Drop a member that is gone. An old rumour about it would count as news afterwards."""
        member = self._members.pop(name)
        assert not member.is_live
        del self._gone[name]

    def make_room(self) -> bool:
        """Tell whether one more name fits, after forgetting the longest gone if it must be."""
        if len(self._members) < self._members_max:
            return True
        if not self._gone:
            return False
        self.forget(min(self.gone, key=lambda member: member.changed_at_s).name)
        return True

    def forget_gone_since(self, before_s: float) -> list[str]:
        """Drop the members that were gone already at `before_s`; return their names."""
        names = [member.name for member in self.gone if member.changed_at_s < before_s]
        for name in names:
            self.forget(name)
        return names

    def pick_live(  # Tests replace this.
        self, count: int, rng: random.Random, is_wanted: Callable[[Member], bool]
    ) -> list[Member]:
        """Return up to `count` different live members among the wanted, uniformly at random.

        Draws at random until enough are found, since nearly all are wanted, and scans the list only
        if that fails.
        """
        picked: dict[str, Member] = {}
        if len(self._live) > _SCANNED_MAX:
            for _ in range(8 * count):
                member = self._members[self._live[int(rng.random() * len(self._live))]]
                if is_wanted(member):
                    picked[member.name] = member
                    if len(picked) == count:
                        return list(picked.values())
        live = map(self._members.__getitem__, self._live)
        return _sample([member for member in live if is_wanted(member)], count, rng)

    def pick_gone(
        self, count: int, rng: random.Random, is_wanted: Callable[[Member], bool]
    ) -> list[Member]:
        """Return up to `count` different members that are gone among the wanted, at random."""
        return _sample([member for member in self.gone if is_wanted(member)], count, rng)

    def _remove_live(self, name: str) -> None:
        place = self._place.pop(name, None)
        if place is None:
            return
        last = self._live.pop()
        if last != name:
            self._live[place] = last
            self._place[last] = place


def _sample(wanted: list[Member], count: int, rng: random.Random) -> list[Member]:
    return wanted if len(wanted) <= count else rng.sample(wanted, count)
