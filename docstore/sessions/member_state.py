"""State of a process as one member of a group: its list, and what it has given up."""

from dataclasses import dataclass, field
from typing import NamedTuple


class SentPulse(NamedTuple):
    """A pulse that is under way: its number, that of its list, and what its list had."""

    number: int
    listing: int
    owned: dict[str, int]


@dataclass(slots=True)
class MemberState:
    """One member; a new id begins with a new one. Partitions are by name, with their tokens."""

    id: str
    former: str = ""
    generation: int = -1
    """The newest that is known; -1 until it has joined."""
    listing: int = 1
    answered: int = 0
    """The newest pulse whose reply was taken."""
    is_listed: bool = False
    """Whether a coordinator has said that it knows the list."""
    claims: dict[str, int] = field(default_factory=dict)
    revoking: dict[str, int] = field(default_factory=dict)
    """Partitions in the list but not led any more: the work on them has not finished."""
    released: dict[str, int] = field(default_factory=dict)
    """partition -> number of the first pulse that may have been without it."""
    sent: dict[int, SentPulse] = field(default_factory=dict)

    @property
    def owned(self) -> dict[str, int]:
        """Return partition -> token of the list."""
        return self.claims | self.revoking

    def has(self, partition: str, token: int) -> bool:  # Tests replace this.
        """Say whether a tenure is still in the list."""
        return self.owned.get(partition) == token

    def is_past(self, partition: str, number: int) -> bool:  # Tests replace this.
        """Say whether a reply to this pulse speaks of a tenure that was given up (GM3)."""
        return number < self.released.get(partition, -1)

    def relist(self) -> None:
        """Number the list anew: it has changed."""
        self.listing += 1
        self.is_listed = False
