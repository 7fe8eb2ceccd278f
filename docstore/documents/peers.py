"""The other members, as their links show them: who is heard, and what they say that they own.

None of it is ever counted: it says whom to try. What is counted are answers, by the sets of the
configuration.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NEVER = float("-inf")


@dataclass(slots=True)
class Peer:
    """Another member, as its link shows it."""

    heard_at: float = NEVER
    """When it was last heard on a connection that still stands."""
    last_word_at: float = NEVER
    """When it was last heard at all; at first, when it came to our notice."""
    here_since: float = NEVER
    """Since when it has been heard without a gap."""
    linked: bool = False
    fit: bool = True
    faulty: frozenset[int] = frozenset()
    """Slots whose log it cannot vouch for: it does not try for them."""
    claims: tuple[tuple[int, bytes], ...] = ()
    clock_us: int | None = None
    """Its wall clock when our monotonic one was at 0, as of when it was last heard."""
    arrived: int | None = None
    """Versions at levels 1 and 2 on its disk; None until it has said so on this link."""


class Peers(dict[str, Peer]):
    """The others by name, those that leave and that come included."""

    __slots__ = (
        "believed_alive", "changes", "claims", "count", "full", "links", "quorum_heard_at",
    )  # fmt: skip

    def __init__(self, now: float) -> None:
        super().__init__()
        self.links: dict[str, int] = {}
        """Node, member or not, that a connection stands to -> its protocol."""
        self.believed_alive: frozenset[str] | None = None
        """Membership's opinion; None while it has none."""
        self.claims: dict[int, tuple[int, str]] = {}
        """slot -> (epoch, member) that says it owns the slot."""
        self.full: frozenset[str] = frozenset()
        """Members whose disks have no room, as they said last."""
        self.changes = 0
        """How often it has changed what members claim, or who they are."""
        self.count = True
        """Whether a majority takes any of them: a group of one has nobody to listen to."""
        self.quorum_heard_at = now

    def become(self, names: Iterable[str], now: float) -> None:
        """Take the members of another configuration; what is known of those that stay is kept."""
        self.changes += 1
        before = dict(self)
        self.clear()
        for name in names:
            self[name] = before.get(name) or Peer(linked=name in self.links, last_word_at=now)
        self.full &= self.keys()
        # What they claimed is over, or will be heard again.
        self.claims.clear()
        for peer in self.values():
            peer.claims = ()

    def note_room(self, name: str, *, has_room: bool) -> None:
        """Learn whether a peer's disk takes rows."""
        if has_room is (name in self.full):
            self.full ^= {name}

    def claim(self, name: str, claimed: Mapping[int, int]) -> None:
        """Learn which slots a peer says that it owns, and no others. claimed: slot -> epoch."""
        claims = self.claims
        self.changes += 1
        for slot in [slot for slot, claim in claims.items() if claim[1] == name]:
            if slot not in claimed:
                del claims[slot]
        for slot, epoch in claimed.items():
            if claims.get(slot, (0, "")) < (epoch, name):
                claims[slot] = (epoch, name)

    def disclaim(self, name: str, slot: int) -> None:
        """Learn that a peer does not own a slot any more."""
        claim = self.claims.get(slot)
        if claim is not None and claim[1] == name:
            del self.claims[slot]
            self.changes += 1
