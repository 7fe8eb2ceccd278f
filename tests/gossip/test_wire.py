"""Every message survives the wire, and nothing that comes over it raises."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossip import wire
from gossip.member import Member, State
from gossip.wire import (
    Ack,
    Alive,
    Claim,
    Dead,
    Digest,
    DigestAnswer,
    Left,
    Nack,
    NackReason,
    Ping,
    PingReq,
    Suspect,
    Sync,
    SyncAnswer,
    decode_datagram,
    encode_datagram,
)
from tests.gossip.frames import decode_frame, encode_frame
from tests.gossip.rig import peer

UID = b"12345678"
V4 = ("10.0.0.1", 7946)
V6 = ("2001:db8::1", 1)
MEMBERS = tuple(Member(f"n{i}", UID, V4, i, state, b"m") for i, state in enumerate(State))
DATAGRAM_MESSAGES = (
    Ping(1, "b", "a"),
    Ack(wire.SEQUENCE_MAX, "b"),
    PingReq(2, "c", V6, 80, "a"),
    Nack(2, "d"),
    Alive("a", UID, wire.INCARNATION_MAX, V4, b"meta"),
    Suspect("b", 1, "a"),
    Dead("b", 1, "a"),
    Left("b", 0),
    Nack(2, "d", NackReason.WRONG_NODE),
    Claim("a", UID, 7, V6),
)
STREAM_MESSAGES = (
    Ping(1, "b", "a"),
    Ack(1, "b"),
    Sync("a", MEMBERS, ("n1",), 5),
    SyncAnswer("b", ()),
    Digest("a", bytes(256)),
    DigestAnswer("b", 2**64 - 1),
)


def raw(*parts: Any) -> bytes:
    packed: bytes = msgpack.packb([wire.VERSION, *parts])
    return packed


def test_a_datagram_comes_back_as_it_went() -> None:
    decoded = decode_datagram(encode_datagram(DATAGRAM_MESSAGES))
    assert decoded == wire.Decoded(DATAGRAM_MESSAGES, 0)


@pytest.mark.parametrize("message", STREAM_MESSAGES)
def test_a_frame_comes_back_as_it_went(message: wire.StreamMessage) -> None:
    frame = encode_frame(message)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode_frame(frame[4:]) == message


def test_a_datagram_is_as_long_as_its_parts_say() -> None:
    bytes_count = wire.ENVELOPE_BYTES + sum(map(wire.encoded_bytes, DATAGRAM_MESSAGES))
    assert len(encode_datagram(DATAGRAM_MESSAGES)) <= bytes_count


def test_the_longest_announcement_fits_the_smallest_datagram_of_ipv6() -> None:
    host = "2001:0db8:85a3:0000:0000:8a2e:0370:7334"
    alive = Alive("n" * 128, UID, wire.INCARNATION_MAX, (host, 65535), bytes(512))
    assert len(encode_datagram([alive])) <= 1232


@pytest.mark.parametrize(
    "part",
    [
        [5, "a", b"short", 1, "10.0.0.1", 1, b""],
        [5, "a", UID, -1, "10.0.0.1", 1, b""],
        [5, "a", UID, wire.INCARNATION_MAX + 1, "10.0.0.1", 1, b""],
        [5, "a", UID, True, "10.0.0.1", 1, b""],
        [5, "a", UID, 1, "example.org", 1, b""],
        [5, "a", UID, 1, "10.0.0.1", 0, b""],
        [5, "a", UID, 1, "10.0.0.1", 65536, b""],
        [5, "a", UID, 1, "10.0.0.1", 1, "text"],
        [5, "", UID, 1, "10.0.0.1", 1, b""],
        [5, "a\nb", UID, 1, "10.0.0.1", 1, b""],
        [5, "ü" * 65, UID, 1, "10.0.0.1", 1, b""],
        [5, b"a", UID, 1, "10.0.0.1", 1, b""],
        [5, "a", UID, 1],
        [1, 2**32, "b", "a"],
        [1, 1.0, "b", "a"],
        [3, 1, "c", "10.0.0.1", 1, wire.NACK_AFTER_MS_MAX + 1, "a"],
        [99, "of a later version"],
        [9, "a", [], []],
        [],
        ["1"],
        7,
    ],
)
def test_an_unsound_message_is_dropped_and_its_neighbours_stay(part: Any) -> None:
    sound = [2, 1, "b"]
    assert decode_datagram(raw(sound, part, sound)) == wire.Decoded((Ack(1, "b"), Ack(1, "b")), 1)


def test_fields_of_a_later_version_are_ignored() -> None:
    assert decode_datagram(raw([2, 1, "b", 7, "more"])) == wire.Decoded((Ack(1, "b"),), 0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgpack.packb([2, [2, 1, "b"]]),
        msgpack.packb({}),
        msgpack.packb([]),
        raw(["x" * 129]),
        raw([b"x" * 513]),
        raw({"a": 1}),
        raw([2, 1, "b"]) + b"more",
        raw([2, 1, "b"])[:-1],
        b"\x91" * 2000,
        b"\xdd\xff\xff\xff\xff",
        b"\xc7\x08\x05" + bytes(8),
        b"\x92\x01\xa1\xff",
        raw(*([[2, 1, "b"]] * (wire.MESSAGES_PER_DATAGRAM_MAX + 1))),
    ],
)
def test_a_malformed_datagram_counts_as_one_dropped_message(data: bytes) -> None:
    assert decode_datagram(data) == wire.Decoded((), 1)
    assert decode_frame(data) is None


def test_a_member_with_one_bad_field_spoils_the_table_it_came_in() -> None:
    bad = ["n", UID, "10.0.0.1", 1, 1, 4, b""]
    assert decode_frame(raw([9, "a", [bad], []])) is None
    assert decode_frame(raw([9, "a", 3, []])) is None
    assert decode_frame(raw([9, "a", [3], []])) is None
    assert decode_frame(raw([6, "a", 1, "b"])) is None


@given(st.binary(max_size=200))
def test_random_bytes_never_raise(data: bytes) -> None:
    decode_datagram(data)
    decode_frame(data)


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**63) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=8),
    max_leaves=16,
)


@given(st.lists(st.tuples(st.integers(0, 11), st.lists(anything, max_size=8)), max_size=4))
def test_well_packed_nonsense_never_raises(parts: list[tuple[int, list[Any]]]) -> None:
    data = raw(*([number, *fields] for number, fields in parts))
    decode_datagram(data)
    decode_frame(data)


def test_mutated_messages_never_raise() -> None:
    rng = random.Random(1)
    sound = [encode_datagram(DATAGRAM_MESSAGES), *(encode_frame(m)[4:] for m in STREAM_MESSAGES)]
    for _ in range(4000):
        data = bytearray(rng.choice(sound))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        cut = rng.randrange(len(data) + 1) if rng.random() < 0.2 else len(data)
        decoded = decode_datagram(bytes(data[:cut]))
        decode_frame(bytes(data[:cut]))
        # Decoded messages are sound: they can be encoded again.
        encode_datagram(decoded.messages)


def test_39_a_large_table_is_packed_read_and_merged_in_turns() -> None:
    members = tuple(peer(f"m{number}") for number in range(2 * wire.MEMBERS_PER_TURN + 3))
    table = Sync("a", members, ("m1",))
    body = b"".join(wire.encode_in_turns(table))
    assert decode_frame(body) == table
    parts = list(wire.decode_in_turns(body))
    assert [more for _, more in parts] == [True, True, False]
    assert max(len(part.members) for part, _ in parts) == wire.MEMBERS_PER_TURN  # type: ignore[union-attr]
    assert tuple(member for part, _ in parts for member in part.members) == members  # type: ignore[union-attr]


def test_a_large_table_that_is_unsound_ends_early() -> None:
    members = [["m", b"12345678", "10.0.0.1", 1, 1, 0, b""]] * (2 * wire.MEMBERS_PER_TURN)
    body = raw([9, "a", [*members, ["torn"]], [], 0])
    assert [more for _, more in wire.decode_in_turns(body)] == [True, True]
    assert decode_frame(body) is None
    assert list(wire.decode_in_turns(raw([9, "a", [["torn"], *members], [], 0]))) == []
    assert list(wire.decode_in_turns(b"\xc1")) == []


def test_53_a_later_version_is_understood_as_far_as_we_know_it() -> None:
    """The next version may add fields and messages, and removes none."""
    later = raw(
        [1, 7, "b", "a", 99, "more"],
        [5, "a", UID, 3, "10.0.0.1", 1, b"", "feature"],
        [6, "b", 3, "a", 1.5],
        [77, ["new", "kind"]],
    )
    decoded = decode_datagram(later)
    assert decoded.messages == (
        Ping(7, "b", "a"),
        Alive("a", UID, 3, ("10.0.0.1", 1), b""),
        Suspect("b", 3, "a"),
    )
    assert decoded.dropped_count == 1
    earlier = raw([1, 7, "b", "a"], [2, 7, "b"])
    assert decode_datagram(earlier).messages == (Ping(7, "b", "a"), Ack(7, "b"))
