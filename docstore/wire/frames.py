"""How messages are packed into frames: msgpack behind a length, rows and evidence restored."""

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any, TypeVar

import msgpack

from docstore.model.document import Row
from docstore.wire import sessions_messages as sessions
from docstore.wire import streams_messages as streams
from docstore.wire.link_messages import (
    Ask,
    Greeting,
    Hello,
    Message,
    OfLinks,
    Relayed,
    Told,
)
from docstore.wire.messages import (
    Accepted,
    Adopt,
    Answered,
    Canvass,
    Configured,
    Confirm,
    Confirmed,
    Copy,
    Decide,
    Evidence,
    Fetch,
    Fetched,
    Follow,
    Following,
    Forward,
    Forwarded,
    Gap,
    HandOver,
    Heartbeat,
    Lack,
    Lead,
    Offer,
    Offering,
    Passed,
    Prepare,
    PreVote,
    PreVoted,
    Promised,
    Propose,
    Refused,
    Release,
    Spread,
    Succeed,
    Supply,
    Took,
    Vote,
)

FRAME_BYTES_MAX = 64 << 20
T = TypeVar("T")
_ROW_FIELDS = len(Row._fields)
_new = tuple.__new__

KINDS: tuple[type[Any], ...] = (
    Heartbeat, PreVote, PreVoted, Prepare, Promised, Refused, Fetch, Fetched, Propose, Accepted,
    Gap, Adopt, Copy, Decide, Confirm, Confirmed, Forward, Answered, Ask, Told, HandOver,
    Canvass, Vote, Lead, Follow, Configured, Passed,
    Offering, Following, Spread, Lack, Supply, Release, Succeed,
    streams.Witness, streams.Witnessed, streams.Fence, streams.Fenced, streams.Notice,
    streams.Promoted, streams.Resign, streams.Yield, streams.Attach, streams.Adopt,
    streams.Append, streams.Acked, streams.Rejected, streams.Produce, streams.Produced,
    sessions.Call, sessions.Reply,
    Took, Greeting, Relayed,
)  # fmt: skip
_TAGS = {kind: tag for tag, kind in enumerate(KINDS)}


def pack_frame(configuration: int, messages: Iterable[Message | OfLinks]) -> bytes:
    """Return one frame, with its length (4 bytes, big endian) in front.

    configuration: id of the one that the sender counts by.
    """
    packed = [(_TAGS[type(message)], *message) for message in messages]
    body: bytes = msgpack.packb((configuration, packed))
    return len(body).to_bytes(4, "big") + body


class Packed:
    """The frames of one turn: what is said alike to several peers is packed once."""

    def __init__(self) -> None:
        self._said: Sequence[Message] = ()
        self._frame = b""

    def frame(self, configuration: int, messages: Sequence[Message]) -> bytes:
        """Return the frame of these messages, with its length in front; see `pack_frame`."""
        if not _are_same(messages, self._said):
            self._said = messages
            self._frame = pack_frame(configuration, messages)
        return self._frame


def _are_same(messages: Sequence[Message], others: Sequence[Message]) -> bool:
    """Say whether these are the very same messages: to compare what is in them would cost more."""
    return len(messages) == len(others) and all(map(is_, messages, others))


def unpack_frame(body: bytes | bytearray | memoryview) -> tuple[int, list[Message | OfLinks]]:
    """Return the sender's configuration and the messages of a frame without its length.

    It ignores the kinds of messages, and the fields behind those of a message or of a row, that a
    later protocol has added.

    Raises ValueError (or a subclass) or TypeError on anything malformed.
    """
    messages: list[Message | OfLinks] = []
    configuration, packed = msgpack.unpackb(body, use_list=False)
    for tag, *fields in packed:
        if tag >= len(_READ):
            continue
        restore, count = _READ[tag]
        if len(fields) > count:
            del fields[count:]
        messages.append(restore(*fields))
    return int(configuration), messages


def known(kind: type[T], fields: Sequence[Any]) -> T:
    """Return a named tuple of as many fields as this version knows."""
    made: T = kind(*fields[: len(kind._fields)])  # type: ignore[attr-defined]
    return made


def _restored_propose(offers: Sequence[Any], boot: int, number: int) -> Propose:
    return Propose([_restored_offer(*offer) for offer in offers], boot, number)


def _restored_offer(
    slot: int, epoch: int, base: int, first: int, previous: Any, decided: int, rows: Any, *_: Any
) -> Offer:
    return Offer(slot, epoch, base, first, previous, decided, _rows(rows))


def _restored_fetched(slot: int, epoch: int, first: int, rows: Sequence[Any]) -> Fetched:
    return Fetched(slot, epoch, first, _rows(rows))


def _restored_adopt(*fields: Any) -> Adopt:
    return Adopt._make([*fields[:5], _rows(fields[5]), *fields[6:]])


def _restored_copy(*fields: Any) -> Copy:
    return Copy._make([*fields[:7], _rows(fields[7]), *fields[8:]])


def _restored_spread(*fields: Any) -> Spread:
    return Spread._make([*fields[:4], _rows(fields[4]), fields[5]])


def _restored_supply(disk: str, n: int, rows: Sequence[Any]) -> Supply:
    return Supply(disk, n, _rows(rows))


def _restored_promised(epoch: int, evidence: Sequence[Any], closed_us: Sequence[int]) -> Promised:
    return Promised(epoch, [known(Evidence, entry) for entry in evidence], closed_us)


def _restored_forward(operations: Sequence[Any]) -> Forward:
    return Forward([known(Forwarded, each) for each in operations])


def _rows(rows: Sequence[Any]) -> list[Row]:
    return [
        # `Row._make` without the check of each row's length.
        _new(Row, row) if len(row) == _ROW_FIELDS else Row._make(row[:_ROW_FIELDS])
        for row in rows
    ]


_RESTORE: dict[type[Any], Callable[..., Message | OfLinks]] = {
    Propose: _restored_propose,
    Fetched: _restored_fetched,
    Adopt: _restored_adopt,
    Copy: _restored_copy,
    Promised: _restored_promised,
    Forward: _restored_forward,
    Spread: _restored_spread,
    Supply: _restored_supply,
}
_READ = [(_RESTORE.get(kind, kind), len(kind._fields)) for kind in KINDS]
"""By tag: what makes a message of its fields, and how many it has."""


def pack_hello(hello: Hello) -> bytes:
    """Return the opening frame of a connection, with its length in front."""
    body: bytes = msgpack.packb(tuple(hello))
    return len(body).to_bytes(4, "big") + body


def unpack_hello(body: bytes | bytearray | memoryview) -> Hello:
    """Return the opening frame; raises ValueError or TypeError on anything malformed."""
    return known(Hello, msgpack.unpackb(body))
