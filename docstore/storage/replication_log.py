"""The writes and queries of `store.py` for documents of levels 1 and 2, which have no log.

A disk keeps their versions in the order of arrival. The n of such a row is its arrival number, and
its digest names the versions it descends from (`documents/eventual/lineage.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from docstore.model.document import Row


class BranchStatus(IntEnum):
    """The role of a version of a document of level 1 or 2 in its document."""

    PAST = 0
    """A version from which a newer one descends."""
    WINNER = 1
    LOSER = 2
    """The newest version of a losing branch."""


@dataclass(frozen=True, slots=True)
class Arrive:
    """Append a version at level 1 or 2, with the next arrival number."""

    row: Row
    standing: BranchStatus


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Change the status of the version with arrival number n."""

    n: int
    standing: BranchStatus


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove versions at levels 1 and 2, by arrival number.

    The version with the greatest number must stay: a restarted node counts on from it. If it
    counted from a smaller number, peers would miss versions.
    """

    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class SaveCursor:
    """Note that this disk has everything it needs of another disk's arrivals up to n.

    configuration: number of the configuration that assigned the documents to the disks. A cursor of
    another configuration does not count.
    """

    disk: str
    configuration: int
    n: int


@dataclass(frozen=True, slots=True)
class Heads:
    """The versions of a link of level 1 or 2 without descendants, the winner among them."""

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
    """Up to `limit` versions at levels 1 and 2 with an arrival number > `after`, in order."""

    after: int
    limit: int
    bytes_max: int = 1 << 20
    slot: int = -1
    """The query is not about one slot."""


@dataclass(frozen=True, slots=True)
class Aged:
    """Up to `limit` versions of a status that are older than an instant, oldest first."""

    standing: BranchStatus
    before_us: int
    limit: int
    slot: int = -1
    """The query is not about one slot."""


BranchWrite = Arrive | SetStatus | Prune | SaveCursor
BranchQuery = Heads | Lines | Arrivals | Aged
