"""Requests between the services of two nodes, and their answers.

Each request is a class; its type argument is the type of its answer. Requests and answers travel in
`RpcRequest` and `RpcReply` (`runtime/links/rpc.py`) as plain values, by position. A new member must
come last and have a default, so that nodes of two versions understand each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Page = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request(Generic[R_co]):
    """Request to a service of another node. R_co: the type of its answer."""

    name: ClassVar[str]

    @staticmethod
    def restored(answer: Any) -> Any:
        """Restore an answer from the plain values of a frame."""
        return answer

    def packed(self) -> Any:
        """Return the list of members as plain values; a single member is not in a list."""
        members: tuple[str, ...] = self.__match_args__
        values = tuple(getattr(self, member) for member in members)
        return values[0] if len(values) == 1 else values

    @classmethod
    def unpacked(cls, packed: Any) -> Self:
        """Return the request; values that a later version added are ignored."""
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
    """A request to each owner about its slots.

    All such requests end with three members. level: of the documents, 1 to 3. slots: bitmap of the
    wanted slots. left_s: seconds left for the answer.
    """

    @staticmethod
    def restored(answer: Any) -> Answered:
        return Answered(*answer)


@dataclass(frozen=True, slots=True)
class ListDocuments(ToOwner):
    """List live documents under a factory.

    Answer: (horizon, [(link, version, row if expanded)]).
    """

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
    """Adopt a changed declaration, then report the slots that are still owned.

    The answer has no value.

    row: of the declaration, as plain values.
    """

    name: ClassVar[str] = "declared"
    row: Sequence[Any]
    level: int
    slots: bytes
    left_s: float


# Cuts, scans and feeds (`scans/`)


class SlotEnd(NamedTuple):
    """End of a slot's log.

    epoch: of its owner's term. n: its last row. last_epoch: epoch of that row.
    """

    slot: int
    epoch: int
    last_epoch: int
    n: int
    kept: int


@dataclass(frozen=True, slots=True)
class QuiesceSlots(Request[list[SlotEnd]]):
    """Propose nothing for the given time; return the end of each slot's log once it is at rest."""

    name: ClassVar[str] = "stand-still"
    slots: bytes
    seconds: float

    @staticmethod
    def restored(answer: Any) -> list[SlotEnd]:
        return [SlotEnd(*each) for each in answer]


@dataclass(frozen=True, slots=True)
class ConfirmTerms(Request[Sequence[tuple[int, int]]]):
    """Return the (slot, epoch) that a quorum has confirmed since the request arrived.

    timeout_s: longest wait for the confirmation.
    """

    name: ClassVar[str] = "reigns"
    slots: bytes
    timeout_s: float


class SlotPosition(NamedTuple):
    """Position in a slot.

    epoch: of row n. first_us: time of the first row that is kept, 0 if there is none.
    """

    slot: int
    epoch: int
    n: int
    kept: int
    first_us: int


@dataclass(frozen=True, slots=True)
class FindPositions(Request[list[SlotPosition]]):
    """Return the positions of the owned slots, confirmed by a quorum.

    at_us: instant of the positions, None for now.
    """

    name: ClassVar[str] = "positions"
    slots: bytes
    at_us: int | None
    timeout_s: float

    @staticmethod
    def restored(answer: Any) -> list[SlotPosition]:
        return [SlotPosition(*each) for each in answer]


class ChangeLines(NamedTuple):
    """Lines of changes, their number, and the positions (slot, epoch, n) after them."""

    lines: bytes
    rows: int
    reached: Sequence[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class ReadChanges(Request[ChangeLines | str]):
    """Read about `rows` changes after (slot, n) from a copy.

    If they are gone, the answer is a text.
    """

    name: ClassVar[str] = "changes"
    prefix: str
    where: str
    after: Sequence[tuple[int, int]]
    rows: int

    @staticmethod
    def restored(answer: Any) -> ChangeLines | str:
        return answer if isinstance(answer, str) else ChangeLines(*answer)


@dataclass(frozen=True, slots=True)
class ReadEvents(Request[ChangeLines | str]):
    """Read changes as `ReadChanges` does, below several prefixes, with events of a condition.

    It is not a new member of `ReadChanges`: an older node would ignore that, and leave out the
    changes that end a match. It rejects this request. before: include the body before each change.
    """

    name: ClassVar[str] = "events"
    prefixes: Sequence[str]
    where: str
    before: bool
    after: Sequence[tuple[int, int]]
    rows: int

    @staticmethod
    def restored(answer: Any) -> ChangeLines | str:
        return ReadChanges.restored(answer)


# To a replica of some slots (`reads/scans/queries.py`)


class FromCopy(NamedTuple):
    """Answer of a copy. problem: code of the refusal, explained in `answer`; "" for none."""

    problem: str
    answer: Any


@dataclass(frozen=True, slots=True)
class ToCopy(Request[FromCopy]):
    """A request to a copy.

    spans: (slot, n): the wanted slots, each up to row n. left_s: seconds left for the answer.
    """

    @staticmethod
    def restored(answer: Any) -> FromCopy:
        return FromCopy(*answer)


@dataclass(frozen=True, slots=True)
class FindDocuments(ToCopy):
    """Find the next documents of a scan.

    Answer: (rows, place up to which they are complete, or None). asked: members of a scan. after:
    place after which to begin, None for the first documents. explains: 1 for an answer that also
    says how they were found; 2 for one with all numbers.
    """

    name: ClassVar[str] = "find"
    asked: Mapping[str, Any]
    after: Sequence[Any] | None
    limit: int
    spans: Sequence[tuple[int, int]]
    left_s: float
    explains: int = 0


class FoundLatest(NamedTuple):
    """Answer to FindLatest: the slots that were searched (a bitmap), each up to its row (ns).

    epochs: of these rows.
    """

    slots: bytes
    epochs: Sequence[int]
    ns: Sequence[int]
    found: FromCopy


@dataclass(frozen=True, slots=True)
class FindLatest(Request[FoundLatest]):
    """Find the first documents of a scan in all rows of the owned slots, confirmed by a quorum.

    It spares the round of `FindPositions`. The other members are those of `FindDocuments`.
    """

    name: ClassVar[str] = "find-latest"
    asked: Mapping[str, Any]
    limit: int
    slots: bytes
    left_s: float
    explains: int

    @staticmethod
    def restored(answer: Any) -> FoundLatest:
        slots, epochs, ns, found = answer
        return FoundLatest(slots, epochs, ns, FromCopy(*found))


@dataclass(frozen=True, slots=True)
class TotalDocuments(ToCopy):
    """Compute aggregates. Answer: (number of documents, [(keys of a group, its aggregates)])."""

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
    """Progress of a node in a resynchronisation.

    done: number of slots. compared: of documents. copied: of rows. settled: of replicas that
    differed and are refilled.
    """

    done: int
    compared: int
    copied: int
    settled: int
    errors: Sequence[str]


@dataclass(frozen=True, slots=True)
class ResyncShare(Request[Share]):
    """Bring the replicas of the owned slots up to date with the owner's logs, and compare them."""

    name: ClassVar[str] = "resync"
    slots: Sequence[int]

    @staticmethod
    def restored(answer: Any) -> Share:
        return Share(*answer)


@dataclass(frozen=True, slots=True)
class ReadResync(Request[Page | None]):
    """Return the page of a run, None if it is unknown. run_id: None for the latest."""

    name: ClassVar[str] = "synch"
    run_id: str | None


@dataclass(frozen=True, slots=True)
class ControlResync(Request[Page | None]):
    """Pause, resume or cancel a run. Return its page, None if it is unknown."""

    name: ClassVar[str] = "synch-control"
    run_id: str
    action: str


@dataclass(frozen=True, slots=True)
class DigestSlots(Request[Sequence[tuple[int, int, int, str]]]):
    """Return (slot, end, number of links, digest) of the slots that the node holds."""

    name: ClassVar[str] = "digests"
    slots: Sequence[int]


@dataclass(frozen=True, slots=True)
class RefillSlot(Request[None]):
    """Refill the node's copy of a slot, which differs from the copies of a majority."""

    name: ClassVar[str] = "refill"
    slot: int


@dataclass(frozen=True, slots=True)
class DescribeCopy(Request[Page]):
    """Describe the node's copy of a document, and of its slot."""

    name: ClassVar[str] = "holds"
    slot: int
    link: str


@dataclass(frozen=True, slots=True)
class ReadPage(Request[Page | None]):
    """Return the node's own page at this path, None if there is none."""

    name: ClassVar[str] = "page"
    path: str


@dataclass(frozen=True, slots=True)
class ChangeGroup(Request[tuple[int, str, str]]):
    """Begin a change of the group for a client. Answer: (HTTP status, code, detail)."""

    name: ClassVar[str] = "change"
    asked: Mapping[str, Any]

    @staticmethod
    def restored(answer: Any) -> tuple[int, str, str]:
        status, code, detail = answer
        return status, code, detail


# Streams (`runtime/streams_backend.py`)


@dataclass(frozen=True, slots=True)
class FetchRecords(Request[Sequence[Any]]):
    """Return records of a partition that the node leads: an outcome, as plain values.

    wait_s: longest wait for records. `streams/requests.py` explains the other members.
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
    """Return link -> live figures of the partitions that the node leads."""

    name: ClassVar[str] = "figures"
    links: Sequence[str]


@dataclass(frozen=True, slots=True)
class DeleteRecords(Request[Sequence[Any]]):
    """Delete the records below an offset of a partition that the node leads: an outcome.

    before: -1 for all that are committed. wait_s: longest wait until the deletion is durable.
    """

    name: ClassVar[str] = "delete-records"
    link: str
    before: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class CommandPartition(Request[Sequence[Any]]):
    """Begin an operator's command on a partition whose document the node owns.

    Answer: an outcome.
    """

    name: ClassVar[str] = "command"
    link: str
    command: Sequence[Any]
