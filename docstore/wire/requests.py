"""Requests between the services of two nodes, and their answers.

One class for each request; what it is answered is its type argument. They travel in `Ask` and
`Told` (`runtime/links/rpc.py`) as plain values, by position: what is added to several members goes
to the end, and has a default, so that nodes of two versions understand each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Page = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request(Generic[R_co]):
    """Something that a service of another node is asked. R_co: what it answers."""

    name: ClassVar[str]

    @staticmethod
    def restored(answer: Any) -> Any:
        """Return the answer, out of what has come of it in a frame."""
        return answer

    def packed(self) -> Any:
        """Return the members as plain values; one that is alone as it is."""
        members: tuple[str, ...] = self.__match_args__
        values = tuple(getattr(self, member) for member in members)
        return values[0] if len(values) == 1 else values

    @classmethod
    def unpacked(cls, packed: Any) -> Self:
        """Return the request, out of what has come of it; what a later version adds is ignored."""
        members: tuple[str, ...] = cls.__match_args__
        values = [packed] if len(members) == 1 else packed
        return cls(**dict(zip(members, values, strict=False)))


# To the owners of slots (`reads/owners.py`)


class Answered(NamedTuple):
    """Answer of an owner that has confirmed its ownership. slots: bitmap of the slots."""

    slots: bytes
    answer: Any


@dataclass(frozen=True, slots=True)
class ToOwner(Request[Answered]):
    """Request to every owner, for its slots. The last three members are those of each.

    level: of the documents, 1 to 3. slots: bitmap of those that are asked for. left_s: time left.
    """

    @staticmethod
    def restored(answer: Any) -> Answered:
        """Return the answer, out of what has come of it in a frame."""
        return Answered(*answer)


@dataclass(frozen=True, slots=True)
class ListDocuments(ToOwner):
    """List live documents under a factory: (horizon, [(link, version, row if expanded)])."""

    name: ClassVar[str] = "listing"
    factory: str
    after: str
    limit: int
    expand: bool
    level: int
    slots: bytes
    left_s: float


@dataclass(frozen=True, slots=True)
class CountDocuments(ToOwner):
    """Count live documents under a factory: a number."""

    name: ClassVar[str] = "counting"
    factory: str
    level: int
    slots: bytes
    left_s: float


@dataclass(frozen=True, slots=True)
class FollowDeclaration(ToOwner):
    """Take a changed declaration over, then say which slots are still yours: None.

    row: of the declaration, as plain values.
    """

    name: ClassVar[str] = "declared"
    row: Sequence[Any]
    level: int
    slots: bytes
    left_s: float


# Cuts, scans and feeds (`scans/`)


class SlotStanding(NamedTuple):
    """Where a slot stands. epoch: of its owner's term; last_epoch: of its last row, n."""

    slot: int
    epoch: int
    last_epoch: int
    n: int
    kept: int


@dataclass(frozen=True, slots=True)
class StandStill(Request[list[SlotStanding]]):
    """Propose nothing for the given time; return the end of each slot's log once it is at rest."""

    name: ClassVar[str] = "stand-still"
    slots: bytes
    seconds: float

    @staticmethod
    def restored(answer: Any) -> list[SlotStanding]:
        """Return the answer, out of what has come of it in a frame."""
        return [SlotStanding(*each) for each in answer]


@dataclass(frozen=True, slots=True)
class ConfirmTerms(Request[Sequence[tuple[int, int]]]):
    """Say of which slots a quorum has confirmed after this came that they are yours: (slot, epoch).

    timeout_s: time for that.
    """

    name: ClassVar[str] = "reigns"
    slots: bytes
    timeout_s: float


class SlotPosition(NamedTuple):
    """Where a slot stands. epoch: of row n. first_us: when the first row left was written, or 0."""

    slot: int
    epoch: int
    n: int
    kept: int
    first_us: int


@dataclass(frozen=True, slots=True)
class FindPositions(Request[list[SlotPosition]]):
    """Say where your slots stand, as a quorum confirms. at_us: where they stood then, or None."""

    name: ClassVar[str] = "positions"
    slots: bytes
    at_us: int | None
    timeout_s: float

    @staticmethod
    def restored(answer: Any) -> list[SlotPosition]:
        """Return the answer, out of what has come of it in a frame."""
        return [SlotPosition(*each) for each in answer]


class ChangeLines(NamedTuple):
    """Lines of changes, how many they are, and (slot, epoch, n) up to where they go."""

    lines: bytes
    rows: int
    reached: Sequence[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class ReadChanges(Request[ChangeLines | str]):
    """Read what your copy has beyond (slot, n): some `rows`. Or a text: why that is gone."""

    name: ClassVar[str] = "changes"
    prefix: str
    where: str
    after: Sequence[tuple[int, int]]
    rows: int

    @staticmethod
    def restored(answer: Any) -> ChangeLines | str:
        """Return the answer, out of what has come of it in a frame."""
        return answer if isinstance(answer, str) else ChangeLines(*answer)


# To a replica of some slots (`reads/scans/queries.py`)


class FromCopy(NamedTuple):
    """Answer of a copy. problem: code of the refusal, explained in `answer`; "" for none."""

    problem: str
    answer: Any


@dataclass(frozen=True, slots=True)
class ToCopy(Request[FromCopy]):
    """Request to a copy. The last two members are those of each.

    spans: (slot, n) of the slots that are asked for, up to row n. left_s: time left.
    """

    @staticmethod
    def restored(answer: Any) -> FromCopy:
        """Return the answer, out of what has come of it in a frame."""
        return FromCopy(*answer)


@dataclass(frozen=True, slots=True)
class FindDocuments(ToCopy):
    """Find the next documents in an order: (rows, up to which place these are all, or None).

    asked: members of a scan. after: the place behind which they stand, None: from the beginning.
    """

    name: ClassVar[str] = "find"
    asked: Mapping[str, Any]
    after: Sequence[Any] | None
    limit: int
    spans: Sequence[tuple[int, int]]
    left_s: float


@dataclass(frozen=True, slots=True)
class TotalDocuments(ToCopy):
    """Work out aggregates: (how many documents, [(keys, functions of them)])."""

    name: ClassVar[str] = "totals"
    asked: Mapping[str, Any]
    spans: Sequence[tuple[int, int]]
    left_s: float


@dataclass(frozen=True, slots=True)
class ReadVersions(ToCopy):
    """Read versions of documents: their rows, as plain values. wanted: (slot, link, version)."""

    name: ClassVar[str] = "versions"
    wanted: Sequence[tuple[int, str, int]]
    spans: Sequence[tuple[int, int]]
    left_s: float


# Upkeep and pages (`maintenance/upkeep/resync.py`, `node/`, `node/members/group.py`)


class Share(NamedTuple):
    """Progress of a node with a resynchronisation.

    done: slots. compared: documents. copied: rows. settled: replicas that differed, and are filled
    anew.
    """

    done: int
    compared: int
    copied: int
    settled: int
    errors: Sequence[str]


@dataclass(frozen=True, slots=True)
class ResyncShare(Request[Share]):
    """Bring the replicas of slots that you own to your logs, and compare."""

    name: ClassVar[str] = "resync"
    slots: Sequence[int]

    @staticmethod
    def restored(answer: Any) -> Share:
        """Return the answer, out of what has come of it in a frame."""
        return Share(*answer)


@dataclass(frozen=True, slots=True)
class ReadResync(Request[Page | None]):
    """Return the page of a run, None if it is not known. run_id: None for the latest."""

    name: ClassVar[str] = "synch"
    run_id: str | None


@dataclass(frozen=True, slots=True)
class ControlResync(Request[Page | None]):
    """Pause, resume or cancel a run; return its page, None if it is not known."""

    name: ClassVar[str] = "synch-control"
    run_id: str
    action: str


@dataclass(frozen=True, slots=True)
class DigestSlots(Request[Sequence[tuple[int, int, int, str]]]):
    """Return (slot, end, links, digest) of those that you hold."""

    name: ClassVar[str] = "digests"
    slots: Sequence[int]


@dataclass(frozen=True, slots=True)
class RefillSlot(Request[None]):
    """Your copy of a slot differs from a majority's: fill it anew."""

    name: ClassVar[str] = "refill"
    slot: int


@dataclass(frozen=True, slots=True)
class DescribeCopy(Request[Page]):
    """Say what you hold of a document, and of its slot."""

    name: ClassVar[str] = "holds"
    slot: int
    link: str


@dataclass(frozen=True, slots=True)
class ReadPage(Request[Page | None]):
    """Return a page that you show of yourself; None if you have none at this path."""

    name: ClassVar[str] = "page"
    path: str


@dataclass(frozen=True, slots=True)
class ChangeGroup(Request[tuple[int, str, str]]):
    """Begin a change of the group, as a client asked for it: (HTTP status, code, detail)."""

    name: ClassVar[str] = "change"
    asked: Mapping[str, Any]

    @staticmethod
    def restored(answer: Any) -> tuple[int, str, str]:
        """Return the answer, out of what has come of it in a frame."""
        status, code, detail = answer
        return status, code, detail


# Streams (`runtime/streams_backend.py`)


@dataclass(frozen=True, slots=True)
class FetchRecords(Request[Sequence[Any]]):
    """Return records of a partition that you lead: an outcome, as plain values.

    wait_s: how long to wait for some; the others: see `streams/requests.py`.
    """

    name: ClassVar[str] = "fetch"
    link: str
    wait_s: float
    origin: tuple[str, int]
    isolation: str
    bytes_max: int
    token: int
    stale: bool
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ReadFigures(Request[Mapping[str, Mapping[str, Any]]]):
    """Return link -> live figures, of the partitions that you lead."""

    name: ClassVar[str] = "figures"
    links: Sequence[str]


@dataclass(frozen=True, slots=True)
class CommandPartition(Request[Sequence[Any]]):
    """Begin what an operator wants of a partition whose document you own: an outcome."""

    name: ClassVar[str] = "command"
    link: str
    command: Sequence[Any]
