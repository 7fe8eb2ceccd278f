"""Messages between replicas of documents, at all levels; `wire/frames.py` packs them.

A message about a slot names the epoch. Epoch and sender (in an answer: epoch and receiver) form the
ballot, so an answer cannot be mistaken for one to another attempt. Versions at levels 1 and 2 have
no ballot: they spread from disk to disk, by arrival number.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from docstore.model.document import Ballot, Ballots, Row


class Heartbeat(NamedTuple):
    """To every member, every 200 ms: the sender is alive, and owns these slots.

    claims: (epoch, bitmap of slots) of the slots that the sender owns with an OPEN term. fit: False
    for a while after the sender had to yield without a quorum or disk space. faulty: bitmap of the
    slots whose log may be damaged, b"" for none. ready: (configuration, bitmap), the sender's slots
    that are ready for the next step of a change. wall_us: its wall clock, so that peers notice a
    wrong one; 0 if not known yet. arrived: number of versions at levels 1 and 2 that ever arrived
    on its disk. has_room: whether its disk has room for rows; after that a node may be unfit a
    while longer.
    """

    claims: Sequence[tuple[int, bytes]]
    fit: bool
    faulty: bytes
    ready: tuple[int, bytes] = (0, b"")
    wall_us: int = 0
    arrived: int = 0
    has_room: bool = True


class PreVote(NamedTuple):
    """Candidate to replicas: would you promise me these slots? It binds no replica (rule T0)."""

    round: int
    slots: bytes


class PreVoted(NamedTuple):
    """Answer: the slots for which the replica hears an owner, or a better candidate."""

    round: int
    refused: bytes


class Prepare(NamedTuple):
    """New owner to replicas: promise me these slots (rule P1)."""

    epoch: int
    slots: bytes


class Evidence(NamedTuple):
    """One slot's log as its replica holds it, sent after the promise is durable."""

    slot: int
    full: bool
    adopted: Ballot
    end: int
    decided: int
    kept: int
    ballots: Ballots


class Promised(NamedTuple):
    """Answer to Prepare: durable promises, with the evidence of each slot.

    closed_us: for each slot, the time up to which its new owner makes no more rows (rule R5).
    """

    epoch: int
    evidence: Sequence[Evidence]
    closed_us: Sequence[int]


class Refused(NamedTuple):
    """Answer to a message with a ballot below the promise: (slot, epoch, promised) per slot."""

    slots: Sequence[tuple[int, int, Ballot]]


class Fetch(NamedTuple):
    """New owner to the replica with the best log: send rows first..last of the slot."""

    slot: int
    epoch: int
    first: int
    last: int


class Fetched(NamedTuple):
    """Answer to Fetch: rows from `first` on, at least one unless the log is damaged."""

    slot: int
    epoch: int
    first: int
    rows: Sequence[Row]


class Offer(NamedTuple):
    """One slot's part of a Propose.

    base: end of the log at the start of the term; a replica adopts the ballot only when its own end
    reaches it. previous: ballot of row first - 1. rows: empty for a probe.
    """

    slot: int
    epoch: int
    base: int
    first: int
    previous: Ballot
    decided: int
    rows: Sequence[Row]


class Propose(NamedTuple):
    """Owner to replicas: append these rows (rules O2, P2).

    boot, number: the owner's start, and the number of this message in it, so that one AcceptedAll
    acknowledges the whole message. Without a number each offer is acknowledged by itself.
    """

    offers: Sequence[Offer]
    boot: int = 0
    number: int = 0


class Accepted(NamedTuple):
    """Answer to offers: (slot, epoch, end), the log durable up to `end`, for each slot."""

    slots: Sequence[tuple[int, int, int]]


class AcceptedAll(NamedTuple):
    """Answer to a numbered Propose: all its offers are durable here up to their last rows."""

    boot: int
    number: int


class Gap(NamedTuple):
    """Answer to an offer that does not join the replica's log: its log state, for Adopt or Copy.

    copying: the rows up to `end` are pages of a copy that the owner sent under this epoch.
    """

    slot: int
    epoch: int
    full: bool
    adopted: Ballot
    end: int
    decided: int
    ballots: Ballots
    copying: bool = False


class Adopt(NamedTuple):
    """Owner to a diverged replica: truncate to `common`, then append these rows (rule SL4).

    ballots: the owner's, up to the last row of this message.
    """

    slot: int
    epoch: int
    base: int
    common: int
    decided: int
    rows: Sequence[Row]
    ballots: Ballots


class Copy(NamedTuple):
    """Owner to a replica whose slot is damaged or too far behind: its kept rows, in pages.

    A page has the rows after row `after`. The first page (`after` is 0) erases the slot; `last`
    closes the copy. Rows up to `kept` that newer rows supersede are missing.
    """

    slot: int
    epoch: int
    base: int
    after: int
    kept: int
    floor: int
    decided: int
    rows: Sequence[Row]
    ballots: Ballots
    last: bool


class Decide(NamedTuple):
    """Owner to replicas, now and then: (slot, epoch, last decided row) of each slot."""

    slots: Sequence[tuple[int, int, int]]


class ReplicatedTo(NamedTuple):
    """Owner to replicas: (slot, epoch, n): all replicas have the slot's log up to n."""

    slots: Sequence[tuple[int, int, int]]


class HandOver(NamedTuple):
    """Owner to its chosen successor: I gave up these slots, take them. Answered by a Prepare."""

    slots: bytes


class Release(NamedTuple):
    """Owner to replicas: I gave up these slots, (slot, epoch) each, and hold no lease on them."""

    slots: Sequence[tuple[int, int]]


class Confirm(NamedTuple):
    """Owner to replicas: report which of these slots are promised to a higher ballot (R1).

    at_us: the latest instant that the owner is about to answer for (rule R5); 0 for none.
    """

    round: int
    slots: Sequence[tuple[int, int]]
    at_us: int = 0


class Confirmed(NamedTuple):
    """Answer to Confirm: (slot, epoch, promised) of the slots promised to higher ballots."""

    round: int
    refused: Sequence[tuple[int, int, Ballot]]


class Forwarded(NamedTuple):
    """An operation on its way to the owner, with its identity and the time that is left for it.

    boot, seq: with the sender, the operation's identity. oldest: the sender's oldest unanswered
    operation; smaller ones will never be asked for again. attempt: 1 at first.
    """

    boot: int
    seq: int
    oldest: int
    attempt: int
    remaining_ms: int
    operation: Sequence[Any]


class Forward(NamedTuple):
    """Entry node to the presumed owner: execute these operations (rule E1)."""

    operations: Sequence[Forwarded]


class Answered(NamedTuple):
    """Owner to entry node: (seq, attempt, answer, proposed) of each.

    answer: None if the slot is not owned (any more): ask again under the same identity. proposed:
    whether this attempt may take effect all the same.
    """

    boot: int
    answers: Sequence[tuple[int, int, Sequence[Any] | None, bool]]


class RequestVote(NamedTuple):
    """Candidate to voters: vote for me in this generation (pre: would you?).

    adopted, id: how recent the candidate's copy of the register is.
    """

    generation: int
    adopted: int
    id: int
    pre: bool


class Vote(NamedTuple):
    """Answer to RequestVote. asked: the generation of the question; generation: the voter's own."""

    asked: int
    generation: int
    granted: bool
    pre: bool


class Lead(NamedTuple):
    """Leader to voters, as heartbeat and proposal: store this configuration for my generation.

    packed: b"" once the voter has acknowledged the configuration. decided: id of the configuration
    in use.
    """

    generation: int
    id: int
    decided: int
    packed: bytes


class Follow(NamedTuple):
    """Answer to Lead: the generation, and the id stored under it; -1 if nothing is stored."""

    generation: int
    id: int


class Succeed(NamedTuple):
    """Leaving leader to an up-to-date voter: begin the next generation at once."""

    generation: int


class Configured(NamedTuple):
    """To a node that counts quorums by an older configuration: this one is decided."""

    packed: bytes


class Offering(NamedTuple):
    """To a peer, on a new link: the sender's disk, and the number of its last arrival."""

    disk: str
    n: int


class Following(NamedTuple):
    """Answer to a peer: all arrivals of its disk `of` up to n are durable on `disk`.

    asks: whether the receiver must send an Offering.
    """

    of: str
    n: int
    disk: str
    asks: bool = False


class Spread(NamedTuple):
    """Versions at levels 1 and 2 that arrived at `disk` after number `after`, up to n.

    rows: versions that this disk wrote. names: (link, hand, stamp) of the other versions. end: the
    last number of `disk`.
    """

    disk: str
    after: int
    n: int
    end: int
    rows: Sequence[Row]
    names: Sequence[tuple[str, str, int]]


class RequestVersions(NamedTuple):
    """Answer to page n of disk `of`: these links' versions are unknown here, send them."""

    of: str
    n: int
    links: Sequence[str]


class SendVersions(NamedTuple):
    """Answer to RequestVersions: the present state of those versions."""

    disk: str
    n: int
    rows: Sequence[Row]


Replicating = (
    Heartbeat
    | PreVote
    | PreVoted
    | Prepare
    | Promised
    | Refused
    | Fetch
    | Fetched
    | Propose
    | Accepted
    | AcceptedAll
    | Gap
    | Adopt
    | Copy
    | Decide
    | HandOver
    | ReplicatedTo
    | Release
    | Confirm
    | Confirmed
    | Forward
    | Answered
)
Electing = RequestVote | Vote | Lead | Follow | Succeed | Configured
Spreading = Offering | Following | Spread | RequestVersions | SendVersions

ReplicaMessage = Replicating | Electing | Spreading
"""Messages between the replicas of documents."""
