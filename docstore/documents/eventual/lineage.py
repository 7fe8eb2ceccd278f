"""Lineage: a version vector for each version of a document.

Two versions of a document of level 1 or 2 are in conflict if neither is an ancestor of the other:
their writers did not know of each other. A vector maps each *hand* that wrote to the stamp of its
last version among the ancestors. A hand is a disk on one branch: a node that continues a branch
without its own latest version takes a new hand, because a vector cannot say "my third version, but
not my second".

A stamp is the wall clock in microseconds, raised where needed so that it grows along a branch. It
is also the version's update time.

Source: Parker et al. (1983), "Detection of mutual inconsistency in distributed systems"; why a
vector entry must not skip: Preguica et al. (2012), "Dotted version vectors".
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgpack

from docstore.model.document import Row
from docstore.model.service import Level


class Lineage(NamedTuple):
    """The ancestry of a version.

    level: of its document. hand: the writer. ancestors: hand -> stamp of its last version at or
    before this one.
    """

    level: Level
    hand: str
    ancestors: dict[str, int]

    def pack(self) -> bytes:
        """Return the lineage as bytes, for the field `digest` of a row."""
        packed: bytes = msgpack.packb(self)
        return packed


def lineage_of(row: Row) -> Lineage:
    return Lineage(*msgpack.unpackb(row.digest))


def covers(newer: Lineage, older: Lineage) -> bool:
    return newer.ancestors.get(older.hand, -1) >= older.ancestors[older.hand]


def begotten(  # Tests replace this.
    level: Level, parents: Iterable[Lineage], others: Iterable[Lineage], disk: str, stamp: int
) -> Lineage:
    """Return the lineage of a version that `disk` makes of `parents`, at `stamp`.

    others: the branches that it does not continue: the version must not take one of their hands.
    """
    ancestors: dict[str, int] = {}
    for parent in parents:
        for hand, at in parent.ancestors.items():
            ancestors[hand] = max(at, ancestors.get(hand, at))
    elsewhere = [other.ancestors for other in others]
    own = (
        hand
        for hand, at in ancestors.items()
        if hand.partition("@")[0] == disk and all(each.get(hand, -1) <= at for each in elsewhere)
    )
    hand = max(own, default=f"{disk}@{stamp:x}")
    ancestors[hand] = stamp
    return Lineage(level, hand, ancestors)


def stamp_after(wall_us: int, parents: Iterable[Lineage], disk: str) -> int:
    """Return a stamp for a new version: the clock, but later than this disk's stamps in `parents`.

    Stamps of other disks are not followed: a clock that runs ahead must not drag all others along.
    """
    own = [
        at
        for parent in parents
        for hand, at in parent.ancestors.items()
        if hand.partition("@")[0] == disk
    ]
    return max([wall_us, *(at + 1 for at in own)])
