"""The bytes of messages; `messages.py` has their meaning.

A datagram is one msgpack array: the version, then messages. A message is an array headed by its
number. There is no nesting and no compression, so reading takes time linear in the datagram's
length. On a stream each message is one frame: a length of four bytes, then the same array with a
single message.

Input is not trusted. Decoding never raises: a message that breaks one
limit is dropped and counted, its neighbours survive, and fields after the known ones are
ignored, so that later versions can add some.

Left out: encryption, which is put around it by `security/seal.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import msgpack  # msgpack ships no types.

from gossip.member import Address, Member, State
from gossip.messages import (
    DIGEST_BYTES,
    HASH_MAX,
    INCARNATION_MAX,
    MEMBERS_PER_SYNC_MAX,
    MESSAGES_PER_DATAGRAM_MAX,
    META_BYTES_MAX,
    NACK_AFTER_MS_MAX,
    SEQUENCE_MAX,
    UID_BYTES,
    VERSION,
    Ack,
    Alive,
    Claim,
    DatagramMessage,
    Dead,
    Digest,
    DigestAnswer,
    KeyChange,
    KeyChanged,
    KeyVerb,
    Left,
    Message,
    Nack,
    NackReason,
    Ping,
    PingReq,
    StreamMessage,
    Suspect,
    Sync,
    SyncAnswer,
    is_ip_literal,
    is_name,
)

_FIELD_BYTES_MAX = 1024
"""Length at which msgpack rejects a field. Fields have their own, smaller limits."""

_SYNC, _SYNC_ANSWER = 9, 10
_TABLES = (_SYNC, _SYNC_ANSWER)
MEMBERS_PER_TURN = 200
"""Members of a table that are encoded, decoded or merged at once: about a millisecond each."""

ENVELOPE_BYTES = 4
"""Most bytes before the messages: the array header of up to 65 535 messages, and the version."""


SEALED_HEAD = 0x51
"""First byte of an encrypted packet (`security/seal.py`): no msgpack array begins with it."""


def is_sealed(packet: bytes) -> bool:
    return packet[:1] == bytes([SEALED_HEAD])


@dataclass(frozen=True, slots=True)
class Decoded:
    """The content of a datagram: its valid messages, and how many were dropped or unknown."""

    messages: tuple[DatagramMessage, ...]
    dropped_count: int


def encode_datagram(messages: Sequence[DatagramMessage]) -> bytes:
    return _packed([VERSION, *map(_fields, messages)])


def encoded_bytes(message: Message) -> int:
    """Return how many bytes `message` adds to a datagram."""
    return len(_packed(_fields(message)))


def encode_in_turns(message: StreamMessage) -> Iterator[bytes]:
    """Yield the body of a frame piece by piece, each the work of a millisecond at most."""
    packer = msgpack.Packer()
    if not isinstance(message, Sync | SyncAnswer):
        yield _packed([VERSION, _fields(message)])
        return
    number, source, members, *rest = _table_fields(message)
    yield packer.pack_array_header(2) + packer.pack(VERSION)
    yield packer.pack_array_header(3 + len(rest)) + packer.pack(number) + packer.pack(source)
    yield packer.pack_array_header(len(members))
    for first in range(0, len(members), MEMBERS_PER_TURN):
        turn = members[first : first + MEMBERS_PER_TURN]
        yield b"".join(packer.pack(_member_fields(member)) for member in turn)
    yield b"".join(map(packer.pack, rest))


def decode_datagram(data: bytes) -> Decoded:
    """Return the messages within `data`; never raises.

    A datagram that is no array of our version counts as one dropped message.
    """
    parts = _unpacked(data)
    if parts is None or len(parts) > MESSAGES_PER_DATAGRAM_MAX + 1:
        return Decoded((), 1)
    messages: list[DatagramMessage] = []
    dropped_count = 0
    for part in parts[1:]:
        message = _message(part)
        if message is None or not isinstance(message, DatagramMessage):
            dropped_count += 1
        else:
            messages.append(message)
    return Decoded(tuple(messages), dropped_count)


def decode_in_turns(body: bytes) -> Iterator[tuple[StreamMessage, bool]]:
    """Yield the message in the body of a frame, a large table in parts, and whether more follows.

    Ends early, without a last part, at the first part that is not valid.
    """
    parts = _unpacked(body)
    if parts is None or len(parts) != 2 or not isinstance(parts[1], list):
        return
    part = parts[1]
    if len(part) > 2 and part[0] in _TABLES and isinstance(part[2], list):
        members = part[2]
        while len(members) > MEMBERS_PER_TURN:
            turn, members = members[:MEMBERS_PER_TURN], members[MEMBERS_PER_TURN:]
            message = _message([*part[:2], turn, *part[3:]])
            if not isinstance(message, Sync | SyncAnswer):
                return
            yield message, True
        part = [*part[:2], members, *part[3:]]
    message = _message(part)
    if isinstance(message, StreamMessage):
        yield message, False


class _Malformed(ValueError):
    """A field breaks its limit. Caught in this file."""


def _packed(parts: list[Any]) -> bytes:
    packed: bytes = msgpack.packb(parts)
    return packed


def _unpacked(data: bytes) -> list[Any] | None:
    try:
        parts = msgpack.unpackb(
            data,
            max_str_len=_FIELD_BYTES_MAX,
            max_bin_len=_FIELD_BYTES_MAX,
            max_array_len=MEMBERS_PER_SYNC_MAX,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, msgpack.exceptions.UnpackException):
        return None
    if not isinstance(parts, list) or not parts or parts[0] != VERSION:
        return None
    return parts


def _fields(message: Message) -> list[Any]:
    match message:
        case Ping(sequence, target, source, state_hash):
            return _with([1, sequence, target, source], state_hash)
        case Ack(sequence, source, state_hash):
            return _with([2, sequence, source], state_hash)
        case PingReq(sequence, target, (host, port), nack_after_ms, source):
            return [3, sequence, target, host, port, nack_after_ms, source]
        case Nack(sequence, source, reason):
            return [4, sequence, source, int(reason)]
        case Alive(name, uid, incarnation, (host, port), meta):
            return [5, name, uid, incarnation, host, port, meta]
        case Suspect(name, incarnation, reporter):
            return [6, name, incarnation, reporter]
        case Dead(name, incarnation, reporter):
            return [7, name, incarnation, reporter]
        case Left(name, incarnation):
            return [8, name, incarnation]
        case Sync() | SyncAnswer():
            number, source, members, *rest = _table_fields(message)
            return [number, source, list(map(_member_fields, members)), *rest]
        case Claim(name, uid, incarnation, (host, port)):
            return [14, name, uid, incarnation, host, port]
        case KeyChange(verb, key):
            return [15, int(verb), key]
        case KeyChanged(failure, ids):
            return [16, failure, ids]
        case Digest(source, sums):
            return [11, source, sums]
        case DigestAnswer(source, buckets):
            return [12, source, buckets]
        case _:
            assert_never(message)


def _with(fields: list[Any], state_hash: int | None) -> list[Any]:
    return fields if state_hash is None else [*fields, state_hash]


def _table_fields(table: Sync | SyncAnswer) -> list[Any]:
    if isinstance(table, Sync):
        return [_SYNC, table.source, table.members, list(table.news), table.buckets]
    return [_SYNC_ANSWER, table.source, table.members, list(table.news)]


def _member_fields(member: Member) -> list[Any]:
    host, port = member.address
    state = _STATES.index(member.state)
    return [member.name, member.uid, host, port, member.incarnation, state, member.meta]


_STATES = tuple(State)


def _message(part: Any) -> Message | None:
    """Return the message written in `part`; None if it is unknown, too short or unsound."""
    if not isinstance(part, list) or not part or type(part[0]) is not int:
        return None
    read = _READERS.get(part[0])
    if read is None:
        return None
    try:
        return read(part)
    except (_Malformed, IndexError):
        return None


def _read_ping_req(part: list[Any]) -> PingReq:
    address = _address(part[3], part[4])
    nack_after_ms = _whole(part[5], NACK_AFTER_MS_MAX)
    return PingReq(_sequence(part[1]), _name(part[2]), address, nack_after_ms, _name(part[6]))


def _read_alive(part: list[Any]) -> Alive:
    address = _address(part[4], part[5])
    return Alive(
        _name(part[1]),
        _uid(part[2]),
        _incarnation(part[3]),
        address,
        _bytes(part[6], most=META_BYTES_MAX),
    )


_READERS: dict[int, Callable[[list[Any]], Message]] = {
    1: lambda part: Ping(_sequence(part[1]), _name(part[2]), _name(part[3]), _hash(part, 4)),
    2: lambda part: Ack(_sequence(part[1]), _name(part[2]), _hash(part, 3)),
    3: _read_ping_req,
    4: lambda part: Nack(_sequence(part[1]), _name(part[2]), NackReason(_whole(part[3], 3))),
    5: _read_alive,
    6: lambda part: Suspect(_name(part[1]), _incarnation(part[2]), _name(part[3])),
    7: lambda part: Dead(_name(part[1]), _incarnation(part[2]), _name(part[3])),
    8: lambda part: Left(_name(part[1]), _incarnation(part[2])),
    _SYNC: lambda part: Sync(
        _name(part[1]), _members(part[2]), _names(part[3]), _whole(part[4], HASH_MAX)
    ),
    _SYNC_ANSWER: lambda part: SyncAnswer(_name(part[1]), _members(part[2]), _names(part[3])),
    11: lambda part: Digest(_name(part[1]), _bytes(part[2], DIGEST_BYTES, DIGEST_BYTES)),
    12: lambda part: DigestAnswer(_name(part[1]), _whole(part[2], HASH_MAX)),
    15: lambda part: KeyChange(KeyVerb(_whole(part[1], len(KeyVerb) - 1)), _bytes(part[2])),
    16: lambda part: KeyChanged(_text(part[1]), _names(part[2])),
    14: lambda part: Claim(
        _name(part[1]), _uid(part[2]), _incarnation(part[3]), _address(part[4], part[5])
    ),
}


def _members(value: Any) -> tuple[Member, ...]:
    if not isinstance(value, list):
        raise _Malformed
    return tuple(_member(part) for part in value)


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _Malformed
    return tuple(map(_name, value))


def _member(part: Any) -> Member:
    if not isinstance(part, list):
        raise _Malformed
    return Member(
        name=_name(part[0]),
        uid=_uid(part[1]),
        address=_address(part[2], part[3]),
        incarnation=_incarnation(part[4]),
        state=_STATES[_whole(part[5], len(_STATES) - 1)],
        meta=_bytes(part[6], most=META_BYTES_MAX),
    )


def _whole(value: Any, most: int) -> int:
    """Return `value` if it is a whole number within 0 and `most`. Booleans are not numbers."""
    if type(value) is not int or not 0 <= value <= most:
        raise _Malformed
    return value


def _sequence(value: Any) -> int:
    return _whole(value, SEQUENCE_MAX)


def _incarnation(value: Any) -> int:
    return _whole(value, INCARNATION_MAX)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise _Malformed
    return value


def _uid(value: Any) -> bytes:
    return _bytes(value, UID_BYTES, UID_BYTES)


def _hash(part: list[Any], place: int) -> int | None:
    return _whole(part[place], HASH_MAX) if len(part) > place else None


def _bytes(value: Any, least: int = 0, most: int = _FIELD_BYTES_MAX) -> bytes:
    """Return `value` if it is bytes, between `least` and `most` of them."""
    if not isinstance(value, bytes) or not least <= len(value) <= most:
        raise _Malformed
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Malformed
    return value


def _address(host: Any, port: Any) -> Address:
    if not isinstance(host, str) or not is_ip_literal(host):
        raise _Malformed
    if _whole(port, 65_535) == 0:
        raise _Malformed
    return host, port
