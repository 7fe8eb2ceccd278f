"""The contract of storage: rows in order, durable once acknowledged, verified when read.

Two implementations pass the same tests: `sqlite.py` for nodes, and `tests/memory/memory.py` for
simulations and trials. Storage keeps bytes in order and knows nothing of owners or quorums.

A commit is all or nothing. It carries all writes that gathered during the commit before it (group
commit). Once it is acknowledged as durable, a power cut loses none of it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from docstore.model.document import NO_BALLOT, Ballot, Ballots, Row
from docstore.storage.replication_log import Aged, Arrivals, BranchQuery, BranchWrite


class Status(StrEnum):
    """Whether a new owner may use a slot's log on this disk as evidence."""

    FULL = "full"
    FAULTY = "faulty"
    """A record failed its checksum, or a copy is under way. The slot's promises count, its rows do
    not."""


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """The state of a slot besides its rows."""

    slot: int
    promised: Ballot = NO_BALLOT
    adopted: Ballot = NO_BALLOT
    ballots: Ballots = ()
    kept: int = 0
    """The log has all rows in (kept, end]."""
    floor: int = -1
    """Version that counts for a link without rows: its next version is floor + 1."""
    decided: int = 0
    """Lower bound of the decided n, saved now and then. Safety never depends on it."""
    status: Status = Status.FULL


# Writes, applied in their order in a batch.


@dataclass(frozen=True, slots=True)
class Append:
    """Append rows to the logs of their slots; n continues without a hole in each slot."""

    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class SaveSlot:
    """Replace the record of one slot."""

    record: SlotRecord


@dataclass(frozen=True, slots=True)
class Truncate:
    """Remove the rows of `slot` with n > `end`; the newest row left of each link is current."""

    slot: int
    end: int


@dataclass(frozen=True, slots=True)
class Erase:
    """Remove all rows of a slot, before a copy replaces them."""

    slot: int


@dataclass(frozen=True, slots=True)
class Base:
    """Start an empty slot with the rows up to `kept`: the newest of each link, with holes."""

    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Trim:
    """Remove old versions: rows with n <= `kept` that newer rows with n <= `kept` supersede.

    after: the previous `kept`. The slot's record with the new `kept` is in the same batch.
    versions: factory -> number of newest versions to keep of each of its documents; 1 for other
    factories.
    """

    slot: int
    after: int
    kept: int
    versions: Mapping[str, int] = field(default_factory=dict)

    def staying(self, link: str) -> int:
        """Return the number of versions to keep of a document: those with the highest numbers."""
        return self.versions.get(link.rpartition("/")[0], 1)


@dataclass(frozen=True, slots=True)
class Purge:
    """Remove links for good: all rows of each up to a tombstone within `kept`.

    The slot's record with the floor that replaces the tombstones is in the same batch.
    """

    slot: int
    tombstones: Sequence[tuple[str, int]]
    """(link, version)."""


@dataclass(frozen=True, slots=True)
class SaveConfiguration:
    """Save the configuration (opaque bytes), which holds the cluster's identity."""

    configuration: bytes


Write = Append | SaveSlot | Truncate | Erase | Base | Trim | Purge | SaveConfiguration | BranchWrite


# Queries. Every row that is returned has passed its checksum.


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest among the rows of a link that have n <= `until`: one row or none."""

    slot: int
    link: str
    until: int


@dataclass(frozen=True, slots=True)
class NewestOfMany:
    """The newest rows of many (slot, link, until), each as in `Newest`.

    The rows are in no order; a link without rows has none. The result is Corrupt(-1) if one of the
    rows is damaged: the caller must then ask for each alone.
    """

    asked: Sequence[tuple[int, str, int]]
    slot: int = -1
    """The query is not about one slot."""


@dataclass(frozen=True, slots=True)
class Version:
    """The row of exactly this version, if its n <= `until`: one row or none."""

    slot: int
    link: str
    version: int
    until: int


@dataclass(frozen=True, slots=True)
class AsOf:
    """The row with n <= `until` that was current at a wall-clock instant: one row or none."""

    slot: int
    link: str
    at_us: int
    until: int


@dataclass(frozen=True, slots=True)
class History:
    """Rows of a link, newest first, with versions < `before` (None: all) and n <= `until`.

    At most `limit` rows, and at most `bytes_max` bytes; at least one row if there is one.
    """

    slot: int
    link: str
    before: int | None
    limit: int
    until: int
    bytes_max: int = 1 << 62


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows first..last of a slot in order of n; fewer at the end of the log or at `bytes_max`.

    There are holes up to `kept`. At least one row is returned if there is one.
    """

    slot: int
    first: int
    last: int
    bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True)
class After:
    """Up to `limit` rows with `after` < n <= `until`, in order of n: a page of a slot's copy."""

    slot: int
    after: int
    until: int
    limit: int
    bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True)
class LastBefore:
    """The last row with kept < n <= `until` that is older than an instant: one row or none."""

    slot: int
    before_us: int
    until: int


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Up to `limit` tombstones older than an instant, each the newest row of its link.

    Rows with n > `until` do not count.
    """

    slot: int
    until: int
    before_us: int
    limit: int


@dataclass(frozen=True, slots=True)
class Expired:
    """Up to `limit` newest rows of live documents whose expiry time has passed, earliest first."""

    before_us: int
    limit: int
    level: int = 3
    after: tuple[int, int, int] = (0, -1, -1)
    """Expiry time, slot and n of the last row of the previous page."""
    slot: int = -1
    """The query is not about one slot."""


OfLog = Newest | Version | AsOf | History | Rows | After | LastBefore | Tombstones
Query = OfLog | NewestOfMany | Expired | BranchQuery

LONG = (Rows, After, LastBefore, Tombstones, Expired, Arrivals, Aged)
"""Queries that may read many rows. Reads of single documents must not wait for them."""


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A result of a query that met a damaged or unreadable record of this slot.

    slot: -1 when the query was not about one slot.
    """

    slot: int


Result = list[Row] | Corrupt


@dataclass(frozen=True, slots=True)
class SlotRecovered:
    """A slot found on disk: its record, and the n and time of its last row.

    The n is `kept` if the slot has no row.
    """

    record: SlotRecord
    end: int
    updated_us: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The content of a disk, as a starting node needs it.

    store_id: random, created at the first use of the disk. boot: 1 at the first start, incremented
    durably at each later one before `open` returns. configuration: None on a disk that no group has
    used. arrived: number of versions at levels 1 and 2 that ever arrived here. in_conflict: links
    of these levels with losing branches. cursors: disk -> (configuration, n), see SaveCursor.
    """

    store_id: str
    boot: int
    configuration: bytes | None
    slots: dict[int, SlotRecovered] = field(default_factory=dict)
    arrived: int = 0
    in_conflict: int = 0
    cursors: dict[str, tuple[int, int]] = field(default_factory=dict)


Bounds = Mapping[int, int]
"""Slot -> n: a read looks at the rows of these slots up to n."""

UNBOUNDED = 1 << 62
"""An n that includes all rows."""


Then = Callable[[Exception | None], None]
"""Callback with the result of a batch: None once it is durable, else DiskFull or StoreBroken."""


class Tables(Protocol):
    """The reads of a store: readers see all that is durable and nothing else."""

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer queries in their order, each from one snapshot of the durable rows."""

    async def recover(self) -> Recovered:
        """Read again, after DiskFull, the content that `open` returned, without counting a boot."""

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """Return up to `limit` (slot, link, version) of live documents, by link.

        Lists the direct children of `prefix` (which ends in "/") that sort after `after` ("" for
        all), in the given slots, in their state after the row at each slot's bound: a document
        created beyond the bound is missing, one deleted beyond it is included. A document may be
        missing if the store has already removed the version that was current at the bound.
        Documents of levels 1 and 2 are stored apart and returned in their present state.
        """

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Return slot -> number of documents that `links` would return; only slots with some."""

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """Return the newest rows of live documents (level 3) at any depth below `prefix`, by link.

        Reads the given slots in their present state, undecided rows included. Damaged rows are left
        out: a read of the document itself reports them.
        """

    async def with_agenda(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """Return the newest rows of links below `prefix` that have an agenda, by slot and link.

        Reads the given slots in their present state, undecided rows and tombstones included. Raises
        no error for damaged rows, as in `below`.
        """

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return slot -> (end, number of live links, digest in hex) from one snapshot.

        The digest is the sum mod 2^128 of keyed BLAKE2b-128(link, version, chain digest) over the
        newest row of every live link. Deleted links are left out, since each replica removes old
        tombstones at its own time.
        """


class Store(Tables, Protocol):
    """Rows in order, for one node, with one writer."""

    broken: Callable[[BaseException], None]
    """Callback in the loop with StoreBroken, when the disk fails outside of a commit. Set it before
    `open`. After the callback the store answers nothing."""

    @property
    def is_full(self) -> bool:
        """Whether the disk is full: a batch may still be submitted, and may find no room."""

    async def open(self) -> Recovered:
        """Open or create the store, count the boot, and return its content.

        Raises StoreBroken when the file belongs to another program or cannot be read.
        """

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        """Begin to make `writes` durable; `then` is called once, in the loop, and never at once.

        Calls `then` with None once all of the writes would survive a power cut. Calls it with
        DiskFull when there is no room: the store keeps nothing of the batch. Calls it with
        StoreBroken on any other failure: the state of the disk is then unknown, and the process
        must end. Submit one batch at a time: the next one from `then` or later.
        """

    async def commit(self, writes: Sequence[Write]) -> None:
        """Return once `writes` are durable. Raises the errors that `submit` passes to `then`."""

    def behind(self, slots: Iterable[int]) -> dict[int, int]:
        """Return slot -> n of the first row that the file lacks, where it lacks any.

        n is 0 while the file has rows that are to be removed. It serves readers that open the
        file themselves, as scanning processes do; `read` also returns the rows that the file lacks.
        """

    def hurry(self) -> None:
        """Have the file follow soon, because a caller waits for `behind` to grow."""

    def measures(self) -> Mapping[str, float]:
        """Return the metrics of the store (docs/metrics.md)."""

    async def close(self) -> None:
        """Finish the operations under way and release everything. Safe to call twice."""
