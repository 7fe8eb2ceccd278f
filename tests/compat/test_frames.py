"""Frames of every version are read, and those of the present one cannot change unnoticed."""

from typing import Any

import msgpack
import pytest

from docstore.model.operation import Operation, answer_from_wire, operation_from_wire
from docstore.wire.frames import KINDS, pack_frame, unpack_frame, unpack_hello
from docstore.wire.link_messages import PROTOCOL, Hello
from docstore.wire.messages import Adopt, Copy, Fetched, SendVersions, Spread
from docstore.wire.requests import Request
from tests.compat.golden import CONFIGURATION, goldens, present, request_kinds
from tests.compat.samples import sample

GOLDENS = goldens()
LATER = "of a later version"
each_version = pytest.mark.parametrize("golden", GOLDENS, ids=lambda each: str(each["protocol"]))


def test_frames_of_this_version_match_the_file_of_its_protocol() -> None:
    """A new field or kind needs a new protocol number and its own file."""
    golden = next(each for each in GOLDENS if each["protocol"] == PROTOCOL)
    assert present() == golden


@each_version
def test_frames_are_read(golden: dict[str, Any]) -> None:
    for frame in map(bytes.fromhex, golden["frames"].values()):
        configuration, [message] = unpack_frame(frame[4:])
        assert configuration == CONFIGURATION
        said = msgpack.unpackb(frame[4:])[1][0]
        understood = msgpack.unpackb(pack_frame(configuration, [message])[4:])[1][0]
        assert understood[: len(said)] == said


def test_fields_that_a_later_version_adds_to_a_message_are_ignored() -> None:
    for kind in KINDS:
        frame = pack_frame(1, [sample(kind)])
        configuration, [packed] = msgpack.unpackb(frame[4:])
        later = msgpack.packb((configuration, [[*packed, LATER, 7]]))
        assert unpack_frame(later) == unpack_frame(frame[4:])


def test_kinds_of_messages_that_a_later_version_adds_are_ignored() -> None:
    known = sample(KINDS[0])
    _, [packed] = msgpack.unpackb(pack_frame(1, [known])[4:])
    later = msgpack.packb((1, [[len(KINDS), LATER], packed, [len(KINDS) + 1]]))
    assert unpack_frame(later) == unpack_frame(pack_frame(1, [known])[4:])


@pytest.mark.parametrize("kind", [Fetched, Copy, Adopt, Spread, SendVersions])
def test_fields_that_a_later_version_adds_to_a_row_are_ignored(kind: type[Any]) -> None:
    message = sample(kind)
    longer = [[*row, LATER] for row in message.rows]
    assert unpack_frame(pack_frame(1, [message._replace(rows=longer)])[4:]) == unpack_frame(
        pack_frame(1, [message])[4:]
    )


@each_version
def test_an_opening_frame_with_an_added_field_is_read(golden: dict[str, Any]) -> None:
    packed = bytes.fromhex(golden["hello"])[4:]
    hello = unpack_hello(packed)
    later = msgpack.packb([*msgpack.unpackb(packed), LATER])
    assert unpack_hello(later) == hello
    assert len(hello) == len(Hello._fields)


@each_version
def test_operations_and_answers_with_added_fields_are_read(golden: dict[str, Any]) -> None:
    for read, name in ((operation_from_wire, "operation"), (answer_from_wire, "answer")):
        packed = msgpack.unpackb(bytes.fromhex(golden[name]))
        said = read(packed)
        whole = said.packed() if isinstance(said, Operation) else said
        assert read([*whole, LATER]) == said
        assert msgpack.unpackb(msgpack.packb(whole))[: len(packed)] == packed


@each_version
def test_requests_with_added_fields_are_read(golden: dict[str, Any]) -> None:
    kinds: dict[str, type[Request[Any]]] = {each.name: each for each in request_kinds()}
    for name, packed in golden["requests"].items():
        said = msgpack.unpackb(bytes.fromhex(packed))
        request = kinds[name].unpacked(said)
        understood = msgpack.unpackb(msgpack.packb(request.packed()))
        assert understood == said or understood[: len(said)] == said
        if len(kinds[name].__match_args__) > 1:
            assert kinds[name].unpacked([*said, LATER]) == request
