"""Requests between the nodes' services: they unpack to equal ones, also in another version."""

import dataclasses
from typing import Any

import msgpack
import pytest

from docstore.wire.requests import Request
from tests.compat.golden import request_kinds
from tests.compat.samples import filled

KINDS = request_kinds()


def test_every_request_has_a_unique_name() -> None:
    names = [each.name for each in KINDS]
    assert len(names) == len(set(names)) >= 15


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_request_unpacks_to_an_equal_one(kind: type[Request[Any]]) -> None:
    request = filled(kind)
    packed = msgpack.unpackb(msgpack.packb(request.packed()))
    again = kind.unpacked(packed)
    assert msgpack.packb(again.packed()) == msgpack.packb(request.packed())


@pytest.mark.parametrize(
    "kind",
    [each for each in KINDS if len(dataclasses.fields(each)) > 1],
    ids=lambda kind: kind.name,
)
def test_additions_of_a_later_version_to_a_request_are_ignored(kind: type[Request[Any]]) -> None:
    request = filled(kind)
    assert kind.unpacked([*request.packed(), "of a later version"]) == request
