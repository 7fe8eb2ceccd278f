"""Messages between replicas of documents, at all levels; `wire/frames.py` packs them.

A message about a slot names the epoch; with the sender, or with the receiver in an answer, that is
the ballot, so an answer can only be taken for its own attempt. Versions at levels 1 and 2 have no
ballot: they are spread from disk to disk, by the numbers under which they arrived.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from docstore.model.document import Ballot, Ballots, Row


class Heartbeat(NamedTuple):
    """To every member, every 200 ms: I am here, and these slots are mine.

    claims: (epoch, bitmap of slots) for the slots that the sender owns, their terms OPEN.
    fit: False while the sender had to yield for want of a quorum or of disk.
    faulty: bitmap of the slots whose log it cannot vouch for, b"" for none.
    ready: (configuration, bitmap): slots of the sender's ready for the next step of a change.
    wall_us: what its clock shows, so that one that is wrong can be noticed; 0 for not known yet.
    arrived: versions at levels 1 and 2 that ever arrived on its disk.
    has_room: whether its disk takes rows; one that has been full may be unfit for longer.
    """

    claims: Sequence[tuple[int, bytes]]
    fit: bool
    faulty: bytes
    ready: tuple[int, bytes] = (0, b"")
    wall_us: int = 0
    arrived: int = 0
    has_room: bool = True


class PreVote(NamedTuple):
    """Candidate to replicas: would you let me try? Binding for no replica (rule T0)."""

    round: int
    slots: bytes


class PreVoted(NamedTuple):
    """Answer: the slots for which I hear a better or a present owner."""

    round: int
    refused: bytes


class Prepare(NamedTuple):
    """New owner to replicas: promise me these slots (rule P1)."""

    epoch: int
    slots: bytes


class Evidence(NamedTuple):
    """One slot's log as its replica holds it, told after the promise is durable."""

    slot: int
    full: bool
    adopted: Ballot
    end: int
    decided: int
    kept: int
    ballots: Ballots


class Promised(NamedTuple):
    """Answer to Prepare: durable promises, with the evidence of each slot.

    closed_us: for each of them, up to which time its new owner makes no more rows (rule R5).
    """

    epoch: int
    evidence: Sequence[Evidence]
    closed_us: Sequence[int]


class Refused(NamedTuple):
    """Answer to anything under a ballot below the promise: (slot, epoch, promised) of each."""

    slots: Sequence[tuple[int, int, Ballot]]


class Fetch(NamedTuple):
    """New owner to the replica with the best log: give me rows first..last of the slot."""

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

    base: the end of the log that the term began with; a replica adopts the ballot only when
    its own end reaches it. previous: ballot of row first - 1. rows may be empty: a probe.
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

    boot, number: the owner's start, and this message among all of that start, so that one word
    can acknowledge it whole; without a number each offer is acknowledged by itself.
    """

    offers: Sequence[Offer]
    boot: int = 0
    number: int = 0


class Accepted(NamedTuple):
    """Answer: durable up to end under (epoch, receiver): (slot, epoch, end) of each."""

    slots: Sequence[tuple[int, int, int]]


class Took(NamedTuple):
    """Answer to a numbered Propose: every offer in it, up to its last row, is durable here."""

    boot: int
    number: int


class Gap(NamedTuple):
    """Answer to an offer that does not join my log: what I hold, for Adopt or Copy.

    copying: what I hold up to `end` are pages of a copy of yours, under this epoch.
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
    """Owner to a replica that diverged: keep rows <= common, then these (rule SL4).

    terms: the owner's, up to the last row of this message.
    """

    slot: int
    epoch: int
    base: int
    common: int
    decided: int
    rows: Sequence[Row]
    ballots: Ballots


class Copy(NamedTuple):
    """Owner to a replica whose slot is damaged or too old: all that is left of it, in pages.

    A page goes on after row `after`; the first, after 0, erases what is there, and `last` closes
    the copy. Up to `kept` rows are missing that newer ones supersede.
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
    """Owner to replicas, lazily: (slot, epoch, decided) of each."""

    slots: Sequence[tuple[int, int, int]]


class Passed(NamedTuple):
    """Owner to replicas: (slot, epoch, n): all replicas hold the slot's log up to n."""

    slots: Sequence[tuple[int, int, int]]


class HandOver(NamedTuple):
    """Owner to heir: I own these slots no more, take them. Answered by a Prepare, if at all."""

    slots: bytes


class Release(NamedTuple):
    """Owner to replicas: these (slot, epoch) are not mine any more, and no lease of mine holds."""

    slots: Sequence[tuple[int, int]]


class Confirm(NamedTuple):
    """Owner to replicas, asking if they promised any of these (slot, epoch) away (rule R1).

    at_us: the latest instant that the owner is about to answer for (rule R5); 0 for none.
    """

    round: int
    slots: Sequence[tuple[int, int]]
    at_us: int = 0


class Confirmed(NamedTuple):
    """Answer: no, but for these (slot, epoch, promised)."""

    round: int
    refused: Sequence[tuple[int, int, Ballot]]


class Forwarded(NamedTuple):
    """One operation on its way to the owner: its identity, its time left, itself.

    boot, seq: with the sender, the operation's identity. oldest: the sender's oldest operation
    that is not answered yet; smaller ones will never be asked for again. attempt: 1 at first.
    """

    boot: int
    seq: int
    oldest: int
    attempt: int
    remaining_ms: int
    operation: Sequence[Any]


class Forward(NamedTuple):
    """Entry node to the owner it believes in (rule E1)."""

    operations: Sequence[Forwarded]


class Answered(NamedTuple):
    """Owner to entry node: (seq, attempt, answer, proposed) of each.

    answer None: not mine (any more), ask again under the same identity; `proposed` says whether
    this attempt may take effect all the same.
    """

    boot: int
    answers: Sequence[tuple[int, int, Sequence[Any] | None, bool]]


class Canvass(NamedTuple):
    """Candidate to voters: vote for me in this generation (pre: would you?).

    adopted, id: how recent the candidate's copy of the register is.
    """

    generation: int
    adopted: int
    id: int
    pre: bool


class Vote(NamedTuple):
    """Answer: asked is the generation of the question, generation the voter's own."""

    asked: int
    generation: int
    granted: bool
    pre: bool


class Lead(NamedTuple):
    """Leader to voters, as heartbeat and offer: store this configuration under my generation.

    packed: b"" when the voter has said that it holds it. decided: id of the one in use.
    """

    generation: int
    id: int
    decided: int
    packed: bytes


class Follow(NamedTuple):
    """Answer: the id that I hold durably under your generation, -1 for none; or my own."""

    generation: int
    id: int


class Succeed(NamedTuple):
    """Leader that leaves to a voter that holds all it does: begin the next generation, now."""

    generation: int


class Configured(NamedTuple):
    """To a node that counts by an older configuration: this one is decided."""

    packed: bytes


class Offering(NamedTuple):
    """To a peer, on a new link: my disk's name, and the number of its last arrival."""

    disk: str
    n: int


class Following(NamedTuple):
    """Answer: of your disk `of` I have everything up to n, durably, on my own `disk`.

    asks: for an Offering, because I want to know whether that is all.
    """

    of: str
    n: int
    disk: str
    asks: bool = False


class Spread(NamedTuple):
    """Versions at levels 1 and 2 that arrived at `disk` after number `after`, up to n.

    rows: those that this disk wrote. names: (link, hand, stamp) of the others. end: how far there
    is more to come.
    """

    disk: str
    after: int
    n: int
    end: int
    rows: Sequence[Row]
    names: Sequence[tuple[str, str, int]]


class Lack(NamedTuple):
    """Answer to page n of disk `of`: I know nothing like these links' versions, send them."""

    of: str
    n: int
    links: Sequence[str]


class Supply(NamedTuple):
    """Answer to Lack: what those versions have become by now."""

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
    | Took
    | Gap
    | Adopt
    | Copy
    | Decide
    | HandOver
    | Passed
    | Release
    | Confirm
    | Confirmed
    | Forward
    | Answered
)
Electing = Canvass | Vote | Lead | Follow | Succeed | Configured
Spreading = Offering | Following | Spread | Lack | Supply

ReplicaMessage = Replicating | Electing | Spreading
"""Messages between replicas; all others are between other machines and services."""
