"""Merge patch and JSON patch, by the examples of their RFCs and by attacks."""

import copy
from typing import Any

import pytest
from hypothesis import given

from docstore.errors import BadRequest, Conflict, DocstoreError, TooLarge
from docstore.model import json, patch
from tests.docstore.model.test_json import VALUES

# RFC 7396, appendix A.
MERGES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("state", "change", "after"), MERGES)
def test_merge_patch_conforms_to_the_rfc(state: Any, change: Any, after: Any) -> None:
    before = copy.deepcopy(state)
    assert patch.merge(state, change) == after
    assert state == before


def op(name: str, path: str, **members: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **members}


APPLIED: list[tuple[Any, list[Any], Any]] = [
    ({"foo": "bar"}, [op("add", "/baz", value="qux")], {"foo": "bar", "baz": "qux"}),
    ({"foo": ["a", "b"]}, [op("add", "/foo/1", value="x")], {"foo": ["a", "x", "b"]}),
    ({"foo": ["a"]}, [op("add", "/foo/-", value=["x"])], {"foo": ["a", ["x"]]}),
    ({"foo": ["a"]}, [op("add", "/foo/1", value="x")], {"foo": ["a", "x"]}),
    ({"a": 1, "b": 2}, [op("remove", "/a")], {"b": 2}),
    ({"a": [1, 2, 3]}, [op("remove", "/a/1")], {"a": [1, 3]}),
    ({"a": 1}, [op("replace", "/a", value=None)], {"a": None}),
    ({"a": [1, 2]}, [op("replace", "/a/0", value={})], {"a": [{}, 2]}),
    ({"a": 1}, [op("replace", "", value={"b": 1})], {"b": 1}),
    ({"a": 1}, [op("add", "", value={"b": 1})], {"b": 1}),
    ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
    ({"a": [1, 2, 3]}, [{"op": "move", "from": "/a/0", "path": "/a/2"}], {"a": [2, 3, 1]}),
    ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
    ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
    ({"a/b": 1, "m~n": 2}, [op("remove", "/a~1b"), op("remove", "/m~0n")], {}),
    ({"~1": 1}, [op("test", "/~01", value=1)], {"~1": 1}),
    ({"": 1}, [op("remove", "/")], {}),
    ({"a": 1}, [op("test", "/a", value=1.0)], {"a": 1}),
    ({"a": {"x": 1, "y": 2}}, [op("test", "/a", value={"y": 2, "x": 1})], {"a": {"x": 1, "y": 2}}),
    ({"a": 1}, [], {"a": 1}),
    ({"0": 1}, [op("replace", "/0", value=2)], {"0": 2}),
    ({"a": 1}, [op("add", "/b", value=1, unknown="ignored")], {"a": 1, "b": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("state", "operations", "after"), APPLIED)
def test_json_patch_conforms_to_the_rfc(state: Any, operations: Any, after: Any) -> None:
    before = copy.deepcopy(state)
    assert patch.apply(state, operations) == after
    assert state == before


CONFLICTS: list[tuple[Any, Any]] = [
    ({"a": 1}, op("test", "/a", value=2)),
    ({"a": 1}, op("test", "/a", value=True)),
    ({"a": [1]}, op("test", "/a", value=[True])),
    ({"a": 1}, op("test", "/b", value=None)),
    ({"a": "1"}, op("test", "/a", value=1)),
    ({}, op("remove", "/a")),
    ({}, op("replace", "/a", value=1)),
    ({}, op("add", "/a/b", value=1)),
    ({"a": 1}, op("add", "/a/b", value=1)),
    ({"a": []}, op("add", "/a/1", value=1)),
    ({"a": [1]}, op("add", "/a/00", value=1)),
    ({"a": [1]}, op("remove", "/a/-")),
    ({"a": [1]}, op("remove", "/a/-1")),
    ({"a": [1]}, op("remove", "/a/" + "1" * 5000)),
    ({"a": [1]}, op("remove", "/a/\u0661")),
    ({"a": {"b": 1}}, {"op": "move", "from": "/a", "path": "/a/b"}),
    ({"a": 1}, {"op": "copy", "from": "/b", "path": "/c"}),
    ({"a": 1}, op("remove", "")),
]


@pytest.mark.parametrize(("state", "operation"), CONFLICTS)
def test_an_operation_that_does_not_fit_the_document_is_a_conflict(
    state: Any, operation: Any
) -> None:
    with pytest.raises(Conflict):
        patch.apply(state, [operation])


@pytest.mark.parametrize(
    "operations",
    [
        {}, "x", None, ["x"], [{}], [{"op": "add"}], [{"op": 1, "path": "/a"}],
        [{"op": "add", "path": "/a"}], [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": 1, "value": 1}], [{"op": "burn", "path": "/a"}],
        [{"op": "move", "path": "/a"}], [{"op": "add", "path": "/~2", "value": 1}],
    ],
)  # fmt: skip
def test_malformed_patches_are_refused(operations: Any) -> None:
    with pytest.raises(BadRequest):
        patch.apply({"a": 1}, operations)


def test_a_patch_is_all_or_nothing() -> None:
    state = {"a": [1]}
    with pytest.raises(Conflict):
        patch.apply(state, [op("add", "/a/-", value=2), op("test", "/a/0", value=9)])
    assert state == {"a": [1]}


def test_doubling_by_copy_is_stopped() -> None:
    doubling = [{"op": "copy", "from": "", "path": f"/x{number}"} for number in range(60)]
    with pytest.raises(TooLarge):
        patch.apply({"a": "x" * 1000}, doubling)


def test_copying_one_large_text_often_is_stopped() -> None:
    often = [{"op": "copy", "from": "/a", "path": f"/x{number}"} for number in range(1000)]
    with pytest.raises(TooLarge):
        patch.apply({"a": "x" * 500_000}, often)


@pytest.mark.parametrize(
    "often", [op("add", "/a/0", value=1), {"op": "move", "from": "/a/0", "path": "/a/0"}]
)
def test_moving_a_long_array_often_is_stopped(often: dict[str, Any]) -> None:
    with pytest.raises(TooLarge):
        patch.apply({"a": [1] * 500_000}, [often] * 1_000)
    patch.apply({"a": [1] * 1_000}, [often] * 1_000)


def test_no_more_is_copied_than_a_document_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []
    load = json.load

    def counted(packed: bytes) -> Any:
        copied.append(len(packed))
        return load(packed)

    monkeypatch.setattr(json, "load", counted)
    doubling = [{"op": "copy", "from": "", "path": f"/x{number}"} for number in range(60)]
    with pytest.raises(TooLarge):
        patch.apply({f"{n}": {} for n in range(10)}, doubling)
    assert sum(copied) <= 2 * patch.WORK_MAX


@given(VALUES, VALUES)
def test_a_test_compares_as_json_does(one: Any, other: Any) -> None:
    is_same = json.canonical(one) == json.canonical(other)
    for value, wanted in ((one, other), ([one], [other]), ({"a": one}, {"a": other})):
        if is_same:
            patch.apply({"v": value}, [op("test", "/v", value=wanted)])
        else:
            with pytest.raises(Conflict):
                patch.apply({"v": value}, [op("test", "/v", value=wanted)])


@pytest.mark.parametrize("name", ["copy", "move", "add"])
def test_nesting_by_patch_is_stopped(name: str) -> None:
    deeper: dict[str, list[Any]] = {
        "copy": [{"op": "copy", "from": "", "path": "/a"}] * 5000,
        "add": [op("add", "/a" * number, value={}) for number in range(1, 1000)],
        "move": [
            step
            for number in range(600)
            for step in (
                op("add", f"/{number + 1}", value={}),
                {"op": "move", "from": f"/{number}", "path": f"/{number + 1}/x"},
            )
        ],
    }
    with pytest.raises(DocstoreError):
        patch.apply({"0": {}, "a": {}}, deeper[name])
