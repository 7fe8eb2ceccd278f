"""Messages between nodes about partitions of streams, on the same links as documents.

A partition is named `<topic>/<number>@<incarnation>`. Every list carries what one turn had to say
of many partitions. A message about a partition names the epoch; with its sender, or receiver, that
is the ballot that fences (`ownership/ballot.py`). Elements of lists are plain tuples, since a
frame restores no types in it: `LogState(*fields)` is how they are read.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, get_args

from docstore.model.document import Ballot, Ballots

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # In typing from Python 3.13 on.


class LogState(NamedTuple):
    """Log and promise of a replica for a partition: evidence, so durable before it is sent.

    full: False while it cannot vouch for its log. ballots: as a slot has them, from record 1 on.
    """

    name: str
    epoch: int
    copy: str
    full: bool
    adopted: Ballot
    end: int
    high: int
    start: int
    ballots: Ballots


class Witness(NamedTuple):
    """Controller to replicas: say whether you hear this node, which leads partitions of ours."""

    round: int
    node: str


class Witnessed(NamedTuple):
    """Answer: whether it is heard. One that hears it vetoes an election, for a while."""

    round: int
    node: str
    heard: bool


class Fence(NamedTuple):
    """Controller to replicas: promise this epoch and say what you have. (name, epoch)."""

    partitions: Sequence[tuple[str, int]]


class Fenced(NamedTuple):
    """Answer, once the promise is on the disk: a `LogState` for each partition."""

    partitions: Sequence[LogState]


class Notice(NamedTuple):
    """Controller or leader to replicas: the replica-set document says this now.

    (link, documentEpoch, documentVersion, state as JSON). The candidate that it names acts; the
    others take the leader and the live replica set from it.
    """

    documents: Sequence[tuple[str, int, int, bytes]]


class Promoted(NamedTuple):
    """Candidate to controller: my promise is on the disk, I can lead. (name, epoch, base)."""

    partitions: Sequence[tuple[str, int, int]]


class Resign(NamedTuple):
    """Leader to controller: elect another one. (name, epoch, why)."""

    partitions: Sequence[tuple[str, int, str]]


class Yield(NamedTuple):
    """Controller to leader: make way for this replica, which is in step. (name, epoch, to)."""

    partitions: Sequence[tuple[str, int, str]]


class Attach(NamedTuple):
    """Follower to leader: this is what I have. Answered by Adopt, Append or Rejected."""

    partitions: Sequence[LogState]


class Adopt(NamedTuple):
    """Leader to follower: our logs are equal up to `common`; cut there, and go on with these.

    copy: whose evidence this answers; other data have nothing in common yet. base: first offset of
    this epoch. A `common` that is the leader's `start` and lies above what the follower has means:
    drop all and begin there. unclean: epoch of the last unclean election. producers: what is known
    of them from the records below `common`, b"" where the follower has those records itself.
    """

    name: str
    epoch: int
    copy: str
    base: int
    common: int
    start: int
    high: int
    unclean: int
    ballots: Ballots
    producers: bytes
    batches: Sequence[bytes]


class Append(NamedTuple):
    """Leader to follower, (name, epoch, base, first, high, start, probe, batches) for each.

    first: offset of the first record. No batches: news of the high watermark, or a question whether
    this epoch still stands. probe: a number that the answer repeats.
    """

    partitions: Sequence[tuple[str, int, int, int, int, int, int, Sequence[bytes]]]


class Acked(NamedTuple):
    """Follower to leader, once it is on the disk: (name, epoch, copy, end, probe)."""

    partitions: Sequence[tuple[str, int, str, int, int]]


class Rejected(NamedTuple):
    """Either way: no. (name, epoch that was asked for, code, what is promised, leader or "").

    code: "stale-epoch", "not-leader", "unknown-replica", "not-attached", "no-room".
    """

    partitions: Sequence[tuple[str, int, str, Ballot, str]]


class Produce(NamedTuple):
    """Entry node to leader: append these records, to be answered within `remaining_ms`.

    acks: "committed" or "leader". producer: (id, epoch, sequence), or () for none.
    body: `records` records, as `streams/records.py` packs them. trace: as in an `Operation`.
    """

    id: int
    name: str
    acks: str
    remaining_ms: int
    producer: Sequence[str | int]
    flags: int
    records: int
    body: bytes
    trace: str = ""


class Produced(NamedTuple):
    """Answer. code: "" for success, "repeated", or why not; detail: for people.

    base: offset of the first record. end, high: the leader's; high is -1 while it is not known.
    epoch: of the records.
    leader: whom to ask instead, if known. appended: whether the records may be in a log.
    """

    id: int
    code: str
    detail: str
    base: int
    records: int
    end: int
    high: int
    epoch: int
    leader: str
    appended: bool


Streaming = (
    Witness
    | Witnessed
    | Fence
    | Fenced
    | Notice
    | Promoted
    | Resign
    | Yield
    | Attach
    | Adopt
    | Append
    | Acked
    | Rejected
    | Produce
    | Produced
)

_KINDS = frozenset(get_args(Streaming))


def is_streaming(message: object) -> "TypeIs[Streaming]":
    """Say whether a message is one of these; asked of all that come from other nodes."""
    return type(message) in _KINDS
