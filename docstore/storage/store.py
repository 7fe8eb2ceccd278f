"""The contract of storage: rows in order, durable when told so, verified when read.

Two implementations pass the same tests: `sqlite.py` for nodes and `testing/memory.py` for
simulations and for trying things out. Storage keeps bytes in order; it knows nothing of owners or
quorums.

A commit is all or nothing and carries many writes: whatever gathered while the one before was
on its way to the disk (group commit). When it is said to be durable, a power cut loses none of it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from docstore.model.document import NO_BALLOT, Ballot, Ballots, Row
from docstore.storage.replication_log import (
    Aged,
    Arrivals,
    Arrive,
    Heads,
    Lines,
    Prune,
    SaveCursor,
    Stand,
)


class Status(StrEnum):
    """Whether a slot's log on this disk may be used as evidence by a new owner."""

    FULL = "full"
    FAULTY = "faulty"
    """A record failed its checksum, or a copy is under way: fences, but proves nothing."""


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """What a slot keeps beside its rows."""

    slot: int
    promised: Ballot = NO_BALLOT
    adopted: Ballot = NO_BALLOT
    ballots: Ballots = ()
    kept: int = 0
    """Rows are complete in (kept, end]."""
    floor: int = -1
    """The version that an absent link counts as having: its next one is floor + 1."""
    decided: int = 0
    """A lower bound, saved now and then; safety never rests on it."""
    status: Status = Status.FULL


# Writes, applied in the order in which they stand in a batch.


@dataclass(frozen=True, slots=True)
class Append:
    """Add rows at the end of their slots' logs; n goes on without a hole in each slot."""

    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class SaveSlot:
    """Replace the record of one slot."""

    record: SlotRecord


@dataclass(frozen=True, slots=True)
class Truncate:
    """Remove the rows of `slot` with n > `end`; each link's newest remaining row is current."""

    slot: int
    end: int


@dataclass(frozen=True, slots=True)
class Erase:
    """Remove every row of a slot, because a copy is about to replace them."""

    slot: int


@dataclass(frozen=True, slots=True)
class Base:
    """Begin an empty slot with rows up to what it keeps: of each link the newest, with holes."""

    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Trim:
    """Let go of old versions: rows with n <= `kept` that others with n <= `kept` supersede.

    after: what was kept before. The new `kept` comes with the slot's record in the same batch.
    versions: factory -> how many versions stay of each of its documents, the newest ones; of those
    of all other factories one does.
    """

    slot: int
    after: int
    kept: int
    versions: Mapping[str, int] = field(default_factory=dict)

    def staying(self, link: str) -> int:
        """Return how many of a document's versions stay: those of the last so many numbers."""
        return self.versions.get(link.rpartition("/")[0], 1)


@dataclass(frozen=True, slots=True)
class Purge:
    """Remove links for good: their rows up to the tombstone of this version, all of them kept.

    The floor that stands for them comes with the slot's record in the same batch.
    """

    slot: int
    tombstones: Sequence[tuple[str, int]]
    """(link, version)."""


@dataclass(frozen=True, slots=True)
class SaveConfiguration:
    """Keep the configuration (opaque bytes) and, with it, the cluster's identity."""

    configuration: bytes


Write = (
    Append
    | SaveSlot
    | Truncate
    | Erase
    | Base
    | Trim
    | Purge
    | SaveConfiguration
    | Arrive
    | Stand
    | Prune
    | SaveCursor
)


# Queries. Every row that is returned has passed its checksum.


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest row of a link with n <= `until`: a list of one row, or of none."""

    slot: int
    link: str
    until: int


@dataclass(frozen=True, slots=True)
class NewestOfMany:
    """The newest rows of many links, each asked as in `Newest`: (slot, link, until).

    In no order, and none for a link that is not known. Corrupt(-1) if one of them is: whoever is
    told so asks for each alone.
    """

    asked: Sequence[tuple[int, str, int]]
    slot: int = -1
    """No slot in particular."""


@dataclass(frozen=True, slots=True)
class Version:
    """The row of exactly this version with n <= `until`: a list of one row, or of none."""

    slot: int
    link: str
    version: int
    until: int


@dataclass(frozen=True, slots=True)
class AsOf:
    """The row that was current at a wall-clock instant, n <= `until`: one row, or none."""

    slot: int
    link: str
    at_us: int
    until: int


@dataclass(frozen=True, slots=True)
class History:
    """Rows of a link, newest first, versions < `before` (None: all), n <= `until`.

    At most `limit`, and `bytes_max` together; at least one when there is one, however large.
    """

    slot: int
    link: str
    before: int | None
    limit: int
    until: int
    bytes_max: int = 1 << 62


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows first..last of a slot in order of n; fewer when the log ends or `bytes_max` is hit.

    Up to what is kept there are holes. At least one row is returned when there is one, however
    large.
    """

    slot: int
    first: int
    last: int
    bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True)
class After:
    """Up to `limit` rows with `after` < n <= `until`, in order of n: to copy a slot in pages."""

    slot: int
    after: int
    until: int
    limit: int
    bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True)
class LastBefore:
    """The last row that is older than an instant, kept < n <= `until`: one row, or none."""

    slot: int
    before_us: int
    until: int


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Up to `limit` links of a slot whose newest row, n <= `until`, is an old tombstone."""

    slot: int
    until: int
    before_us: int
    limit: int


@dataclass(frozen=True, slots=True)
class Expired:
    """Up to `limit` live documents whose time is over, the earliest first: their newest rows."""

    before_us: int
    limit: int
    level: int = 3
    after: tuple[int, int, int] = (0, -1, -1)
    """When it was over, slot and n of the last that was seen, to go on from there."""
    slot: int = -1
    """No slot in particular."""


OfLog = Newest | Version | AsOf | History | Rows | After | LastBefore | Tombstones
Query = OfLog | NewestOfMany | Expired | Heads | Lines | Arrivals | Aged

LONG = (Rows, After, LastBefore, Tombstones, Expired, Arrivals, Aged)
"""Queries that may read many rows: whoever waits for a document must not wait for one of them."""


@dataclass(frozen=True, slots=True)
class Corrupt:
    """In the place of a result: a record of this slot failed its checksum or could not be read.

    slot: -1 when the query was not about one slot.
    """

    slot: int


Result = list[Row] | Corrupt


@dataclass(frozen=True, slots=True)
class SlotRecovered:
    """A slot as found on disk: its record, its last row's n (or kept) and that row's time."""

    record: SlotRecord
    end: int
    updated_us: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """All that a node knows when it starts on this disk.

    store_id: random, made when the disk was first used; another disk has another one.
    boot: 1 at the first start, +1 durably at each later one, before `open` returns.
    configuration: as saved, or None on a disk that no group has used.
    arrived: how many versions at levels 1 and 2 ever arrived here. in_conflict: links of these
    levels with branches that lost. cursors: disk -> (configuration, n), see SaveCursor.
    """

    store_id: str
    boot: int
    configuration: bytes | None
    slots: dict[int, SlotRecovered] = field(default_factory=dict)
    arrived: int = 0
    in_conflict: int = 0
    cursors: dict[str, tuple[int, int]] = field(default_factory=dict)


Bounds = Mapping[int, int]
"""slot -> n: what is looked at are its rows up to that one, and no other slots."""

UNBOUNDED = 1 << 62
"""In the place of n: all rows."""


Then = Callable[[Exception | None], None]
"""Told what became of a batch: None once it is durable, DiskFull or StoreBroken if it is not."""


class Store(Protocol):
    """Rows in order, for one node. One writer; readers see only what is durable, and all of it."""

    broken: Callable[[BaseException], None]
    """Called in the loop with StoreBroken when the disk has failed otherwise than in a commit.

    Nobody may wait there, and nothing may be answered after it. To be set before `open`.
    """

    @property
    def is_full(self) -> bool:
        """Whether the disk is full: what is submitted all the same may find no room."""

    async def open(self) -> Recovered:
        """Open or create, count the boot, and return what is there.

        Raises StoreBroken when the file is not ours or cannot be read.
        """

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        """Begin to make `writes` durable; `then` is called once, in the loop, and never at once.

        With None once all of them would survive a power cut. With DiskFull when there is no room:
        nothing of the batch is kept. With StoreBroken on any other failure: what is on disk is
        then not known, and the process must end. One batch at a time: the next comes from `then`
        or later.
        """

    async def commit(self, writes: Sequence[Write]) -> None:
        """Return once `writes` are durable; raises what `submit` would tell."""

    def behind(self, slot: int) -> int:
        """Return the n of the first row of a slot that the file lacks, UNBOUNDED if it has all.

        For whoever opens the file himself, as scanning processes do; `read` and its like know the
        rest. 0 while the file has rows that are no longer there.
        """

    def hurry(self) -> None:
        """Have the file follow soon: somebody waits for `behind` to move."""

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer queries in their order, each from one snapshot of what is durable."""

    async def recover(self) -> Recovered:
        """Read again what `open` found, without counting a boot: after DiskFull."""

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """Return up to `limit` (slot, link, version) of live documents, by link.

        Direct children of `prefix` (which ends in "/") that sort after `after` ("" for all), in the
        given slots, as the rows up to each slot's bound leave them: one whose birth lies beyond is
        not there, one whose deletion does still is. A version between may be gone if history is
        kept from beyond the bound. Those of levels 1 and 2 are kept apart, and are as they are now.
        """

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Return slot -> how many documents `links` would find there; only slots with some."""

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """Return the newest rows of live documents (level 3) at any depth below `prefix`, by link.

        In the given slots, and as they are now, undecided ones among them. A row that is damaged
        is left out: whoever reads its document meets it.
        """

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return slot -> (end, number of live links, digest in hex) from one snapshot.

        The digest is the sum mod 2^128 of keyed BLAKE2b-128(link, version, chain digest) over
        the newest row of every live link. Deleted ones are left out: each replica lets go of old
        tombstones in its own time.
        """

    def measures(self) -> Mapping[str, float]:
        """Return the metrics of the store (docs/metrics.md)."""

    async def size_bytes(self) -> int:
        """Return the bytes that the store takes on disk, its log included."""

    async def close(self) -> None:
        """Finish what is under way and give everything back. Safe to call twice."""
