"""Frames: messages packed by msgpack after a length.

Unpacking restores named tuples such as rows.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any, TypeVar

import msgpack

from docstore.model.document import Row
from docstore.wire import messages as documents
from docstore.wire import sessions_messages as sessions
from docstore.wire import streams_messages as streams
from docstore.wire.link_messages import (
    Greeting,
    Hello,
    Message,
    OfLinks,
    Relayed,
    RpcReply,
    RpcRequest,
)

FRAME_BYTES_MAX = 64 << 20
T = TypeVar("T")
_ROW_FIELDS = len(Row._fields)
_new = tuple.__new__

KINDS: tuple[type[Any], ...] = (
    documents.Heartbeat, documents.PreVote, documents.PreVoted, documents.Prepare,
    documents.Promised, documents.Refused, documents.Fetch, documents.Fetched,
    documents.Propose, documents.Accepted, documents.Gap, documents.Adopt, documents.Copy,
    documents.Decide, documents.Confirm, documents.Confirmed, documents.Forward,
    documents.Answered, RpcRequest, RpcReply, documents.HandOver, documents.RequestVote,
    documents.Vote, documents.Lead, documents.Follow, documents.Configured,
    documents.ReplicatedTo, documents.Offering, documents.Following, documents.Spread,
    documents.RequestVersions, documents.SendVersions, documents.Release, documents.Succeed,
    streams.Witness, streams.Witnessed, streams.Fence, streams.Fenced, streams.Notice,
    streams.Promoted, streams.Resign, streams.Yield, streams.Attach, streams.Adopt,
    streams.Append, streams.Acked, streams.Rejected, streams.Produce, streams.Produced,
    sessions.Call, sessions.Reply, documents.AcceptedAll, Greeting, Relayed,
)  # fmt: skip
_TAGS = {kind: tag for tag, kind in enumerate(KINDS)}


def pack_frame(configuration: int, messages: Iterable[Message | OfLinks]) -> bytes:
    """Return one frame, with its length (4 bytes, big endian) in front.

    configuration: id of the configuration by which the sender counts quorums.
    """
    packed = [(_TAGS[type(message)], *message) for message in messages]
    body: bytes = msgpack.packb((configuration, packed))
    return len(body).to_bytes(4, "big") + body


class Packed:
    """The frames of one turn: equal messages to several peers are packed once."""

    def __init__(self) -> None:
        self._packed: Sequence[Message] = ()
        self._frame = b""

    def frame(self, configuration: int, messages: Sequence[Message]) -> bytes:
        if not _are_same(messages, self._packed):
            self._packed = messages
            self._frame = pack_frame(configuration, messages)
        return self._frame


def _are_same(messages: Sequence[Message], others: Sequence[Message]) -> bool:
    """Compare by identity: comparing the contents would cost more than packing."""
    return len(messages) == len(others) and all(map(is_, messages, others))


def unpack_frame(body: bytes | bytearray | memoryview) -> tuple[int, list[Message | OfLinks]]:
    """Return the sender's configuration and the messages of a frame without its length.

    It ignores message kinds, and trailing fields of a message or row, that a later protocol has
    added.

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
    made: T = kind(*fields[: len(kind._fields)])  # type: ignore[attr-defined]
    return made


def _restored_propose(offers: Sequence[Any], boot: int, number: int) -> documents.Propose:
    return documents.Propose([_restored_offer(*offer) for offer in offers], boot, number)


def _restored_offer(
    slot: int, epoch: int, base: int, first: int, previous: Any, decided: int, rows: Any, *_: Any
) -> documents.Offer:
    return documents.Offer(slot, epoch, base, first, previous, decided, _rows(rows))


def _with_rows(kind: type[Any]) -> Callable[..., Any]:
    """Return the reader of a kind of messages whose field `rows` holds rows."""

    def restored(*fields: Any) -> Any:
        message = kind(*fields)
        return message._replace(rows=_rows(message.rows))

    return restored


def _restored_promised(
    epoch: int, evidence: Sequence[Any], closed_us: Sequence[int]
) -> documents.Promised:
    return documents.Promised(
        epoch, [known(documents.Evidence, entry) for entry in evidence], closed_us
    )


def _restored_forward(operations: Sequence[Any]) -> documents.Forward:
    return documents.Forward([known(documents.Forwarded, each) for each in operations])


def _rows(rows: Sequence[Any]) -> list[Row]:
    return [
        # Faster than `Row._make`, which checks the length of each row again.
        _new(Row, row) if len(row) == _ROW_FIELDS else Row._make(row[:_ROW_FIELDS])
        for row in rows
    ]


_RESTORE: dict[type[Any], Callable[..., Message | OfLinks]] = {
    documents.Propose: _restored_propose,
    documents.Promised: _restored_promised,
    documents.Forward: _restored_forward,
    **{kind: _with_rows(kind) for kind in KINDS if "rows" in kind._fields},
}
_READ = [(_RESTORE.get(kind, kind), len(kind._fields)) for kind in KINDS]
"""By tag: the function that restores a message from its fields, and the number of fields."""


def pack_hello(hello: Hello) -> bytes:
    """Return the opening frame of a connection, with its length in front."""
    body: bytes = msgpack.packb(tuple(hello))
    return len(body).to_bytes(4, "big") + body


def unpack_hello(body: bytes | bytearray | memoryview) -> Hello:
    """Return the opening message. Raises ValueError or TypeError on anything malformed."""
    return known(Hello, msgpack.unpackb(body))
