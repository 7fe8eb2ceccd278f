"""State of a process as a member of a group: its partitions, and those that it has released."""

from dataclasses import dataclass, field
from typing import NamedTuple


class SentPulse(NamedTuple):
    """A pulse under way: its number, and the number and content of its list of partitions."""

    number: int
    listing: int
    owned: dict[str, int]


@dataclass(slots=True)
class MemberState:
    """State of one member under one id. Partitions are by name, with their tokens."""

    id: str
    former: str = ""
    generation: int = -1
    """Newest known generation; -1 until it has joined."""
    listing: int = 1
    answered: int = 0
    """Number of the newest pulse whose reply was received."""
    is_listed: bool = False
    """Whether the coordinator has confirmed that it knows the present list."""
    claims: dict[str, int] = field(default_factory=dict)
    revoking: dict[str, int] = field(default_factory=dict)
    """Partitions in the list that are no longer led, but whose work has not finished."""
    released: dict[str, int] = field(default_factory=dict)
    """partition -> number of the first pulse that may have been sent without it."""
    sent: dict[int, SentPulse] = field(default_factory=dict)

    @property
    def owned(self) -> dict[str, int]:
        """Return the member's list of partitions: name -> token."""
        return self.claims | self.revoking

    def has(self, partition: str, token: int) -> bool:  # Tests replace this.
        """Say whether a tenure is still in the list."""
        return self.owned.get(partition) == token

    def is_past(self, partition: str, number: int) -> bool:  # Tests replace this.
        """Say whether a reply to this pulse is about a tenure released since (GM3)."""
        return number < self.released.get(partition, -1)

    def relist(self) -> None:
        """Give the changed list a new number."""
        self.listing += 1
        self.is_listed = False
