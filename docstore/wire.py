"""What nodes say to each other on their links, and how it is packed.

A link is one ordered TCP connection per direction. A frame is a msgpack array of messages, each
`[tag, *fields]`; everything that one loop turn had to say to a peer goes into one frame. The
connection is opened by Hello, so sender, store, boot and cluster are said once and hold for
every frame that follows. A message about a slot names the epoch; with the sender, or with the
receiver in an answer, that is the ballot, so an answer can only be taken for its own attempt.

Unknown tags and malformed frames close the link: a peer of another version is not guessed at.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgpack

from docstore.document import Ballot, Reigns, Row


class Heartbeat(NamedTuple):
    """To every member, every 200 ms: I am here, and these slots are mine.

    claims: (epoch, bitmap of slots) for the slots that the sender holds OPEN.
    fit: False while the sender had to yield for want of a quorum or of disk.
    faulty: bitmap of the slots whose log it cannot vouch for, b"" for none.
    """

    claims: Sequence[tuple[int, bytes]]
    fit: bool
    faulty: bytes


class PreVote(NamedTuple):
    """Candidate to replicas: would you let me try? Binds nobody (rule T0)."""

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
    reigns: Reigns


class Promised(NamedTuple):
    """Answer to Prepare: durable promises, with the evidence of each slot."""

    epoch: int
    evidence: Sequence[Evidence]


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

    base: the end of the log that the reign began with; a replica adopts the ballot only when
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
    """Owner to replicas: append these rows (rules O2, P2)."""

    offers: Sequence[Offer]


class Accepted(NamedTuple):
    """Answer: durable up to end under (epoch, receiver): (slot, epoch, end) of each."""

    slots: Sequence[tuple[int, int, int]]


class Gap(NamedTuple):
    """Answer to an offer that does not join my log: what I hold, for Adopt or Copy."""

    slot: int
    epoch: int
    full: bool
    adopted: Ballot
    end: int
    decided: int
    reigns: Reigns


class Adopt(NamedTuple):
    """Owner to a replica that diverged: keep rows <= common, then these (rule SL4).

    reigns: the owner's, up to the last row of this message.
    """

    slot: int
    epoch: int
    base: int
    common: int
    decided: int
    rows: Sequence[Row]
    reigns: Reigns


class Copy(NamedTuple):
    """Owner to a replica whose slot is damaged or too old: the whole log, in pages.

    The first page (rows from kept + 1) erases what is there; `last` closes the copy.
    """

    slot: int
    epoch: int
    base: int
    kept: int
    floor: int
    decided: int
    rows: Sequence[Row]
    reigns: Reigns
    last: bool


class Decide(NamedTuple):
    """Owner to replicas, lazily: (slot, epoch, decided) of each."""

    slots: Sequence[tuple[int, int, int]]


class HandOver(NamedTuple):
    """Owner to heir: I hold these slots no more, take them. Answered by a Prepare, if at all."""

    slots: bytes


class Confirm(NamedTuple):
    """Owner to replicas, asking if they promised any of these (slot, epoch) away (rule R1)."""

    round: int
    slots: Sequence[tuple[int, int]]


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


class Ask(NamedTuple):
    """One node's services to another's, beside the protocol: listings, digests, resync."""

    id: int
    question: str
    argument: Any


class Told(NamedTuple):
    """Answer to Ask: (True, result), or (False, why not)."""

    id: int
    ok: bool
    result: Any


Message = (
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
    | Gap
    | Adopt
    | Copy
    | Decide
    | HandOver
    | Confirm
    | Confirmed
    | Forward
    | Answered
    | Ask
    | Told
)


class Hello(NamedTuple):
    """First frame of a connection, both ways: from the one who dialled, then from the other.

    receiver: whom the sender means to speak to, "" if it does not know yet.
    zone: the sender's; founders need each other's. configuration: b"" if it has none yet.
    """

    protocol: int
    cluster_id: str
    sender: str
    store_id: str
    boot: int
    receiver: str
    zone: str
    configuration: bytes


PROTOCOL = 1
FRAME_BYTES_MAX = 64 << 20

_KINDS: tuple[type[Any], ...] = (
    Heartbeat, PreVote, PreVoted, Prepare, Promised, Refused, Fetch, Fetched, Propose, Accepted,
    Gap, Adopt, Copy, Decide, Confirm, Confirmed, Forward, Answered, Ask, Told, HandOver,
)  # fmt: skip
_TAGS = {kind: tag for tag, kind in enumerate(_KINDS)}


def pack_frame(messages: Iterable[Message]) -> bytes:
    """Return one frame, with its length (4 bytes, big endian) in front."""
    body: bytes = msgpack.packb([(_TAGS[type(message)], *message) for message in messages])
    return len(body).to_bytes(4, "big") + body


def unpack_frame(body: bytes | memoryview) -> list[Message]:
    """Return the messages of a frame without its length.

    Raises ValueError (or a subclass) or TypeError on anything malformed.
    """
    messages: list[Message] = []
    for tag, *fields in msgpack.unpackb(body, use_list=False):
        kind = _KINDS[tag]
        restore = _RESTORE.get(kind)
        messages.append(restore(*fields) if restore else kind(*fields))
    return messages


def _restored_propose(offers: Sequence[Any]) -> Propose:
    return Propose([Offer._make([*offer[:6], _rows(offer[6])]) for offer in offers])


def _restored_fetched(slot: int, epoch: int, first: int, rows: Sequence[Any]) -> Fetched:
    return Fetched(slot, epoch, first, _rows(rows))


def _restored_adopt(*fields: Any) -> Adopt:
    return Adopt._make([*fields[:5], _rows(fields[5]), *fields[6:]])


def _restored_copy(*fields: Any) -> Copy:
    return Copy._make([*fields[:6], _rows(fields[6]), *fields[7:]])


def _restored_promised(epoch: int, evidence: Sequence[Any]) -> Promised:
    return Promised(epoch, [Evidence(*entry) for entry in evidence])


def _restored_forward(operations: Sequence[Any]) -> Forward:
    return Forward([Forwarded(*operation) for operation in operations])


def _rows(rows: Sequence[Any]) -> list[Row]:
    return [Row._make(row) for row in rows]


_RESTORE: dict[type[Any], Callable[..., Message]] = {
    Propose: _restored_propose,
    Fetched: _restored_fetched,
    Adopt: _restored_adopt,
    Copy: _restored_copy,
    Promised: _restored_promised,
    Forward: _restored_forward,
}


def pack_hello(hello: Hello) -> bytes:
    """Return the opening frame of a connection, with its length in front."""
    body: bytes = msgpack.packb(tuple(hello))
    return len(body).to_bytes(4, "big") + body


def unpack_hello(body: bytes | memoryview) -> Hello:
    """Return the opening frame; raises ValueError or TypeError on anything malformed."""
    return Hello(*msgpack.unpackb(body))
