"""Messages between nodes about partitions of streams, on the same links as documents.

A partition's name is `<topic>/<number>@<incarnation>`. A list carries the messages of one turn
about many partitions. A message about a partition names the epoch. Epoch and sender (in an answer:
epoch and receiver) form the ballot that fences (`ownership/ballot.py`). List elements are plain
tuples, since a frame restores no types in them: read them by `LogState(*fields)`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, get_args

from docstore.model.document import Ballot, Ballots

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # Part of typing from Python 3.13 on.


class LogState(NamedTuple):
    """Log and promise of a replica for a partition.

    As it is evidence, it is durable before it is sent. full: False while the replica's log may be
    incomplete or damaged. ballots: as in a slot, from record 1 on.
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
    """Controller to replicas: say whether you hear this node, which leads partitions of yours."""

    round: int
    node: str


class Witnessed(NamedTuple):
    """Answer to Witness. A replica that hears the node vetoes an election for a while."""

    round: int
    node: str
    heard: bool


class Fence(NamedTuple):
    """Controller to replicas: promise this epoch and send your log states. (name, epoch)."""

    partitions: Sequence[tuple[str, int]]


class Fenced(NamedTuple):
    """Answer to Fence, once the promise is durable: a `LogState` for each partition."""

    partitions: Sequence[LogState]


class Notice(NamedTuple):
    """Controller or leader to replicas: the present replica-set document.

    (link, documentEpoch, documentVersion, state as JSON). The candidate that it names acts; the
    others take the leader and the live replica set from it.
    """

    documents: Sequence[tuple[str, int, int, bytes]]


class Promoted(NamedTuple):
    """Candidate to controller: my promise is durable, I can lead. (name, epoch, base)."""

    partitions: Sequence[tuple[str, int, int]]


class Resign(NamedTuple):
    """Leader to controller: elect another one. (name, epoch, why)."""

    partitions: Sequence[tuple[str, int, str]]


class Yield(NamedTuple):
    """Controller to leader: transfer to this replica, which is in sync. (name, epoch, to)."""

    partitions: Sequence[tuple[str, int, str]]


class Attach(NamedTuple):
    """Follower to leader: my log state. Answered by Adopt, Append or Rejected."""

    partitions: Sequence[LogState]


class Adopt(NamedTuple):
    """Leader to follower: our logs are equal up to `common`; truncate there and append these.

    copy: the copy whose log state this message answers; others ignore it. base: first
    offset of this epoch. A `common` that is the leader's `start` and above the follower's end
    means: drop all and begin there. unclean: epoch of the last unclean election. producers: their
    state after the records below `common`; b"" if the follower has those records itself.
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
    """Leader to follower: (name, epoch, base, first, high, start, probe, batches) of each.

    first: offset of the first record. Without batches it carries the high watermark, or asks
    whether this epoch is still valid. probe: a number that the answer repeats.
    """

    partitions: Sequence[tuple[str, int, int, int, int, int, int, Sequence[bytes]]]


class Acked(NamedTuple):
    """Follower to leader, once the records are durable: (name, epoch, copy, end, probe)."""

    partitions: Sequence[tuple[str, int, str, int, int]]


class Rejected(NamedTuple):
    """Rejection by leader or follower: (name, rejected epoch, code, promised ballot, leader or "").

    code: "stale-epoch", "not-leader", "unknown-replica", "not-attached", "no-room", "outdated".
    """

    partitions: Sequence[tuple[str, int, str, Ballot, str]]


class Produce(NamedTuple):
    """Entry node to leader: append these records, and answer within `remaining_ms`.

    acks: "committed" or "leader". producer: (id, epoch, sequence), or () for none. body: `records`
    records, packed by `streams/records.py`. trace: as in an `Operation`.
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
    """Answer to Produce. code: "" for success, "repeated", or a reason. detail: text for people.

    base: offset of the first record. end, high: the leader's; high is -1 while unknown. epoch: of
    the records. leader: the node to ask instead, if known. appended: whether the records may be in
    a log.
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
    return type(message) in _KINDS
