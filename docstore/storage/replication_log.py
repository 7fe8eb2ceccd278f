"""The words of `store.py` for documents of levels 1 and 2, which have no log.

Their versions are kept in the order in which they came to this disk: a row's n is then the number
of its arrival, and its digest says what it came of (`documents/eventual/lineage.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from docstore.model.document import Row


class BranchStatus(IntEnum):
    """What a version of a document of level 1 or 2 is to its document."""

    PAST = 0
    """Another version came of it."""
    WINNER = 1
    LOSER = 2
    """The newest version of a branch that lost."""


@dataclass(frozen=True, slots=True)
class Arrive:
    """Add a version at level 1 or 2, under the next number of arrival."""

    row: Row
    standing: BranchStatus


@dataclass(frozen=True, slots=True)
class Stand:
    """The version that arrived as number n stands otherwise now."""

    n: int
    standing: BranchStatus


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove versions at levels 1 and 2, by the numbers of their arrival.

    Never the last one: a start goes on from its number, and peers would miss what had it again.
    """

    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class SaveCursor:
    """Whatever had arrived at another disk up to its number n is here, or was not for us.

    configuration: by which it was told whose documents are whose; another one starts anew.
    """

    disk: str
    configuration: int
    n: int


@dataclass(frozen=True, slots=True)
class Heads:
    """The versions of a link of level 1 or 2 that nothing has followed, the winner among them."""

    slot: int
    link: str


@dataclass(frozen=True, slots=True)
class Lines:
    """Up to `limit` versions of a link of level 1 or 2, of all branches, highest version first."""

    slot: int
    link: str
    limit: int


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Up to `limit` versions at levels 1 and 2 that arrived after number `after`, in order."""

    after: int
    limit: int
    bytes_max: int = 1 << 20
    slot: int = -1
    """No slot in particular."""


@dataclass(frozen=True, slots=True)
class Aged:
    """Up to `limit` versions of that standing which are older than an instant, oldest first."""

    standing: BranchStatus
    before_us: int
    limit: int
    slot: int = -1
    """No slot in particular."""
