"""Stored values: links, ballots, versions and the rows of a slot's log.

A *link* is a document's canonical path. Links fall into *slots*; a slot is one log of rows,
numbered n = 1, 2, 3, ... without holes and without restarting. A row is one complete version
of one document, so a log is a history of snapshots and nothing has to be replayed.

A *ballot* (epoch, owner) names one term over one slot. Ballots are compared as tuples. They
are plain tuples on purpose: they are compared for every row of every batch.
"""

import hashlib
from typing import NamedTuple

from docstore.model import json

Ballot = tuple[int, str]
"""(epoch, node id of the owner), ordered lexicographically: rule B1."""

NO_BALLOT: Ballot = (0, "")
"""Smaller than every ballot that a node can prepare."""

Ballots = tuple[tuple[Ballot, int], ...]
"""(ballot, first n written under it), ascending in both: the ballot of each row."""


EXPIRY = "documentExpirationTimeMicros"
"""Member with the time at which a document expires."""
EXPIRY_NAME = b'"%b"' % EXPIRY.encode()
EXPIRY_US_MAX = (1 << 63) - 1

LARGE_OPERATION_BYTES = 1024

LEASE = "documentLeaseLink"
"""Member with the link of the lease to which a document is attached."""


class Row(NamedTuple):
    """One version of one document, in the order of the columns on disk and on the wire.

    `(epoch, owner)` is the ballot under which the row was proposed; it never changes, so it is
    also `documentEpoch` and `documentOwner`. `state` holds the author's JSON object as bytes,
    without the fields that the store sets. `operation` is the packed identity of the request
    (see `documents/operations.py`), so that a retried request is recognised by any later owner.

    Documents of levels 1 and 2 have no log: there, n is the number under which the row arrived on
    a disk, and the digest is its lineage (`documents/eventual/lineage.py`).
    """

    slot: int
    n: int
    epoch: int
    owner: str
    link: str
    version: int
    action: str
    updated_us: int
    deleted: bool
    signature: bytes
    operation: bytes
    digest: bytes
    state: bytes

    @property
    def ballot(self) -> Ballot:
        return (self.epoch, self.owner)

    @property
    def weight(self) -> int:
        """Return the bytes of a row that count in a page: its state, and a large operation.

        An operation is large if it carries the effects of its document (see `model/agenda.py`).
        """
        operation = len(self.operation)
        return len(self.state) + (operation if operation > LARGE_OPERATION_BYTES else 0)


def expiry_us(state: bytes) -> int:
    """Return when a document expires, in microseconds since 1970; 0 for never."""
    if state.find(EXPIRY_NAME) < 0:  # Runs for every row; `in` takes twice as long.
        return 0
    found = json.load(state).get(EXPIRY, 0)
    return min(found, EXPIRY_US_MAX) if type(found) is int and found > 0 else 0


def tag_of(row: Row, level: int) -> tuple[int, int]:
    """Return the two numbers of a version's entity tag.

    At level 3 an epoch has one owner, which writes a version once. At levels 1 and 2 two branches
    may have the same epoch and version, so the update time replaces the epoch.
    """
    return (row.epoch if level == 3 else row.updated_us, row.version)


_EMPTY_DIGEST = hashlib.blake2b(digest_size=16)


def chain_digest(previous: bytes, link: str, version: int, deleted: bool, state: bytes) -> bytes:
    """Return the digest (BLAKE2b-128) of a version and its history.

    previous: the digest of the version before, b"" for the first. Replicas with equal digests for a
    link have equal histories of it.
    """
    digest = _EMPTY_DIGEST.copy()
    digest.update(b"%b\0%b\0%d\0%d\0%b" % (previous, link.encode(), version, deleted, state))
    return digest.digest()


def ballot_at(ballots: Ballots, n: int) -> Ballot:
    for ballot, first in reversed(ballots):
        if first <= n:
            return ballot
    return NO_BALLOT


def ballot_added(ballots: Ballots, ballot: Ballot, first: int) -> Ballots:
    """Return the table with `ballot` for the rows from `first` on.

    Ballots that would begin at or after `first` wrote nothing below it and are left out.
    """
    kept = tuple(entry for entry in ballots if entry[1] < first)
    return (*kept, (ballot, first))


def ballots_until(ballots: Ballots, end: int) -> Ballots:
    """Return the part of the table for the rows up to `end`."""
    return tuple(entry for entry in ballots if entry[1] <= end)


def common_end(mine: Ballots, my_end: int, theirs: Ballots, their_end: int) -> int:
    """Return the greatest n up to which two logs are certainly equal, 0 if no term is shared.

    Two logs whose row n has the same ballot are equal up to n (invariant I4). So the logs are equal
    up to the last row that both have under their newest shared ballot (rule SL4).
    """
    ends = _ends_of(theirs, their_end)
    for ballot, end in reversed(_ends_of(mine, my_end).items()):
        if ballot in ends:
            return min(end, ends[ballot])
    return 0


def _ends_of(ballots: Ballots, end: int) -> dict[Ballot, int]:
    """Return for each ballot the n of its last row; without rows, the n before its first row."""
    firsts = [first for _, first in ballots] + [end + 1]
    return {
        ballot: max(first, min(firsts[index + 1], end + 1)) - 1
        for index, (ballot, first) in enumerate(ballots)
    }
