"""The other members, as their links show them: liveness and claims.

No vote depends on this: it only says which node to try. Quorums count answers, by the sets of the
configuration.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NEVER = float("-inf")


@dataclass(slots=True)
class Peer:
    heard_at: float = NEVER
    """Time of its last message on the present connection."""
    last_word_at: float = NEVER
    """Time of its last message on any connection; at first, the time when it became a member."""
    here_since: float = NEVER
    """Time since which it has been heard without a gap."""
    linked: bool = False
    fit: bool = True
    faulty: frozenset[int] = frozenset()
    """Slots whose log is faulty there: it does not try to own them."""
    claims: tuple[tuple[int, bytes], ...] = ()
    clock_us: int | None = None
    """Its wall clock in microseconds, minus this node's monotonic clock, as last heard."""
    arrived: int | None = None
    """Number of the last arrival at levels 1 and 2 on its disk; None until reported on this link.
    """


class Peers(dict[str, Peer]):
    """Name -> member, joining and leaving ones included."""

    __slots__ = (
        "believed_alive", "changes", "claims", "count", "full", "links", "quorum_heard_at",
    )  # fmt: skip

    def __init__(self, now: float) -> None:
        super().__init__()
        self.links: dict[str, int] = {}
        """Linked node, member or not -> protocol of the link."""
        self.believed_alive: frozenset[str] | None = None
        """Members that gossip believes alive; None while it has no opinion."""
        self.claims: dict[int, tuple[int, str]] = {}
        """Slot -> (epoch, member) of the claim."""
        self.full: frozenset[str] = frozenset()
        """Members whose disks are full, as last reported."""
        self.changes = 0
        """Count of changes of claims and of members."""
        self.count = True
        """Whether a majority needs any peer; false in a group of one."""
        self.quorum_heard_at = now

    def become(self, names: Iterable[str], now: float) -> None:
        """Use the members of another configuration; keep the state of those that stay."""
        self.changes += 1
        before = dict(self)
        self.clear()
        for name in names:
            self[name] = before.get(name) or Peer(linked=name in self.links, last_word_at=now)
        self.full = self.full.intersection(self)
        # Heartbeats repeat the claims that still hold.
        self.claims.clear()
        for peer in self.values():
            peer.claims = ()

    def note_room(self, name: str, *, has_room: bool) -> None:
        if has_room is (name in self.full):
            self.full ^= {name}

    def claim(self, name: str, claimed: Mapping[int, int]) -> None:
        """Replace a peer's claims. claimed: slot -> epoch."""
        claims = self.claims
        self.changes += 1
        for slot in [slot for slot, claim in claims.items() if claim[1] == name]:
            if slot not in claimed:
                del claims[slot]
        for slot, epoch in claimed.items():
            if claims.get(slot, (0, "")) < (epoch, name):
                claims[slot] = (epoch, name)

    def disclaim(self, name: str, slot: int) -> None:
        claim = self.claims.get(slot)
        if claim is not None and claim[1] == name:
            del self.claims[slot]
            self.changes += 1
