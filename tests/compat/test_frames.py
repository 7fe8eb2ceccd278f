"""Frames of earlier versions are read, and the present one's cannot change unnoticed."""

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from docstore.model.document import Row
from docstore.model.operation import Operation, answer_from_wire, operation_from_wire
from docstore.wire.frames import KINDS, pack_frame, unpack_frame, unpack_hello
from docstore.wire.link_messages import PROTOCOL, Ask, Hello
from docstore.wire.messages import (
    Adopt,
    Copy,
    Fetched,
    Forward,
    Forwarded,
    Heartbeat,
    Offer,
    Propose,
    Spread,
    Supply,
    Took,
)
from docstore.wire.requests import FetchRecords, Request
from tests.compat.golden import CONFIGURATION, goldens, present, request_kinds
from tests.compat.samples import sample, samples

GOLDENS = goldens()
FRAMES = [
    pytest.param(bytes.fromhex(frame), id=f"{golden['protocol']}-{KINDS[int(tag)].__name__}")
    for golden in GOLDENS
    for tag, frame in golden["frames"].items()
]
LATER = "of a later version"


def test_what_is_said_today_is_what_this_protocol_says() -> None:
    """Whoever adds a field or a kind gives the protocol another number, and writes its file."""
    golden = next(each for each in GOLDENS if each["protocol"] == PROTOCOL)
    assert present() == golden


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_of_an_earlier_version_is_read(frame: bytes) -> None:
    configuration, [message] = unpack_frame(frame[4:])
    assert configuration == CONFIGURATION
    said = msgpack.unpackb(frame[4:])[1][0]
    understood = msgpack.unpackb(pack_frame(configuration, [message])[4:])[1][0]
    assert understood[: len(said)] == said


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: str(golden["protocol"]))
def test_to_an_earlier_version_is_said_what_it_would_say(golden: dict[str, Any]) -> None:
    for tag, message in samples():
        frame = pack_frame(CONFIGURATION, [message], golden["protocol"])
        if tag in golden["frames"]:
            assert frame.hex() == golden["frames"][tag]
        else:
            assert unpack_frame(frame[4:]) == (CONFIGURATION, [])


def test_protocol_5_knows_no_trace() -> None:
    operation = Operation(verb="GET", link="/a/b", trace="00-1-2-01")
    forward = Forward([Forwarded(1, 2, 3, 1, 100, operation.packed())])
    _, [back] = unpack_frame(pack_frame(1, [forward], 5)[4:])
    assert len(back.operations[0].operation) == 15
    assert operation_from_wire(back.operations[0].operation) == replace(operation, trace="")
    fetch = FetchRecords("/a", 1.0, ("offset", 3), "committed", 9, -1, False, "00-1-2-01")
    _, [ask] = unpack_frame(pack_frame(1, [Ask(1, fetch.name, fetch.packed())], 5)[4:])
    assert len(ask.argument) == 7
    assert FetchRecords.unpacked(ask.argument) == replace(fetch, trace="")


def test_protocol_6_knows_no_messages_that_are_taken_whole() -> None:
    offers = [Offer(1, 2, 0, 3, (2, "n1"), 2, [sample(Row)])]
    said = [Propose(offers, 5, 7), Took(5, 7)]
    assert unpack_frame(pack_frame(1, said, 6)[4:]) == (1, [Propose(offers)])
    assert unpack_frame(pack_frame(1, said, 7)[4:]) == (1, said)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_later_version_adds_to_a_message_is_ignored(kind: type[Any]) -> None:
    message = sample(kind)
    configuration, [packed] = msgpack.unpackb(pack_frame(1, [message])[4:])
    later = msgpack.packb((configuration, [[*packed, LATER, 7]]))
    assert unpack_frame(later) == unpack_frame(pack_frame(1, [message])[4:])


@pytest.mark.parametrize("kind", [Fetched, Copy, Adopt, Spread, Supply])
def test_what_a_later_version_adds_to_a_row_is_ignored(kind: type[Any]) -> None:
    message = sample(kind)
    longer = [[*row, LATER] for row in message.rows]
    assert unpack_frame(pack_frame(1, [message._replace(rows=longer)])[4:]) == unpack_frame(
        pack_frame(1, [message])[4:]
    )


def test_the_opening_frame_is_read_and_what_is_added_ignored() -> None:
    for golden in GOLDENS:
        packed = bytes.fromhex(golden["hello"])[4:]
        hello = unpack_hello(packed)
        later = msgpack.packb([*msgpack.unpackb(packed), LATER])
        assert unpack_hello(later) == hello
        assert len(hello) == len(Hello._fields)


def test_operations_and_answers_are_read_and_what_is_added_ignored() -> None:
    for golden in GOLDENS:
        for read, name in ((operation_from_wire, "operation"), (answer_from_wire, "answer")):
            packed = msgpack.unpackb(bytes.fromhex(golden[name]))
            said = read(packed)
            whole = said.packed() if isinstance(said, Operation) else said
            assert read([*whole, LATER]) == said
            assert msgpack.unpackb(msgpack.packb(whole))[: len(packed)] == packed


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: str(golden["protocol"]))
def test_requests_of_an_earlier_version_are_read(golden: dict[str, Any]) -> None:
    kinds: dict[str, type[Request[Any]]] = {each.name: each for each in request_kinds()}
    for name, packed in golden["requests"].items():
        said = msgpack.unpackb(bytes.fromhex(packed))
        understood = msgpack.unpackb(msgpack.packb(kinds[name].unpacked(said).packed()))
        assert understood == said or understood[: len(said)] == said


def test_protocol_7_knows_no_full_disks() -> None:
    """A peer of it that has no room says only that it is not fit, and counts as one with room."""
    beat = Heartbeat(((3, b"\x01"),), False, b"", (4, b""), 5, 6, has_room=False)
    assert unpack_frame(pack_frame(1, [beat], 7)[4:]) == (1, [beat._replace(has_room=True)])
    assert unpack_frame(pack_frame(1, [beat], 8)[4:]) == (1, [beat])
