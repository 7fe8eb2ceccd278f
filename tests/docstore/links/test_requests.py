"""Requests between the nodes' services: what is packed comes out equal, also in another version."""

import dataclasses
from typing import Any, get_type_hints

import msgpack
import pytest

from docstore.links import requests
from docstore.links.requests import Request


def kinds() -> list[type[Request[Any]]]:
    """Return every request that has a name."""
    classes = [each for each in vars(requests).values() if isinstance(each, type)]
    return [each for each in classes if issubclass(each, Request) and "name" in vars(each)]


def value_of(hint: Any) -> Any:
    """Return something that fits a member, as it comes out of a frame."""
    simple = {int: 7, str: "x", bytes: b"\x05", float: 0.5, bool: True}
    if hint in simple:
        return simple[hint]
    return {"kind": "x"} if "Mapping" in str(hint) else [1, "x"]


def filled(kind: type[Request[Any]]) -> Request[Any]:
    hints = get_type_hints(kind)
    return kind(**{each.name: value_of(hints[each.name]) for each in dataclasses.fields(kind)})


def test_every_request_has_a_name_of_its_own() -> None:
    names = [each.name for each in kinds()]
    assert len(names) == len(set(names)) >= 15


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_a_request_comes_out_of_a_frame_as_it_went_in(kind: type[Request[Any]]) -> None:
    request = filled(kind)
    packed = msgpack.unpackb(msgpack.packb(request.packed()))
    assert kind.unpacked(packed) == request


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_what_a_later_version_adds_is_ignored(kind: type[Request[Any]]) -> None:
    request = filled(kind)
    if len(dataclasses.fields(kind)) == 1:
        return  # Travels bare: another member would be another request.
    assert kind.unpacked([*request.packed(), "of a later version"]) == request
