"""The order of probes: each member once in each pass, in a random order of this prober.

Round-robin over a shuffled list, not a random pick: two probes of one member by the same prober
are then at most 2n - 1 intervals apart, so the time to first detection has a bound and not only
a mean. Newcomers get a random place in what is left of the pass.

Source: SWIM (Das, Gupta and Motivala, 2002), section 4.3.
"""

from __future__ import annotations

from gossip.member import Member
from gossip.protocol.membership import Membership


class ProbeOrder:
    """The private permutation of one prober."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._order: list[str] = []
        self._next = 0
        self._was_urgent = False

    def next(self) -> Member | None:  # Tests replace this.
        """Return the member to probe now; None if there is none.

        An urgent member goes first, but never two urgent ones in a row, so that the other members
        are probed too.
        """
        self._insert_arrived()
        if not self._was_urgent:
            self._was_urgent = True
            urgent = self._urgent()
            if urgent is not None:
                return urgent
        self._was_urgent = False
        for _ in range(2):
            while self._next < len(self._order):
                candidate = self._membership.table.get(self._order[self._next])
                self._next += 1
                if candidate is not None and self.is_target(candidate):
                    return candidate
            self._shuffle()
        return None

    def is_target(self, member: Member) -> bool:
        return member.is_live and member.name != self._membership.name

    def _urgent(self) -> Member | None:
        while self._membership.urgent:
            name = next(iter(self._membership.urgent))
            del self._membership.urgent[name]
            urgent = self._membership.table.get(name)
            if urgent is not None and self.is_target(urgent):
                return urgent
        return None

    def _shuffle(self) -> None:
        self._order = [member.name for member in self._membership.table if self.is_target(member)]
        self._membership.rng.shuffle(self._order)
        self._next = 0

    def _insert_arrived(self) -> None:
        if not self._membership.arrived:
            return
        waiting = set(self._order[self._next :])
        for name in self._membership.arrived:
            if name not in waiting:
                room = len(self._order) - self._next + 1
                place = self._next + int(self._membership.rng.random() * room)
                self._order.insert(place, name)
        self._membership.arrived.clear()
