"""Declared services: harmless schemas, and the registry that follows decided rows."""

import asyncio
import time
from typing import Any

import pytest

from docstore.maintenance.declaring import Declaring
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.model.service import Refusal
from docstore.services.registry import Registry, declaration_link
from docstore.services.schemas import Schema, degree, length_max
from docstore.services.unsupported_options import unkept
from docstore.streams.replica_set import PartitionService
from docstore.streams.topic import TopicService


def declaration(path: str, version: int = 0, link: str = "", **members: Any) -> Row:
    state = json.dump({"path": path, **members})
    link = link or declaration_link(path)
    return Row(0, 1, 1, "n1", link, version, "POST", 1, False, b"", b"", b"", state)


def test_the_registry_follows_decided_rows_in_any_order() -> None:
    registry = Registry()
    registry.publish(declaration("/notes", 1, kind="new"))
    registry.publish(declaration("/notes", 0, kind="old"))
    service = registry.service_at("/notes")
    assert service is not None
    assert service.options.kind == "new"
    assert registry.service_for("/notes/a") is service
    assert registry.service_for("/notes/a/b") is None
    registry.publish(declaration("/notes", 2)._replace(deleted=True))
    assert registry.service_at("/notes") is None
    registry.publish(declaration("/notes", 1, kind="new"))
    assert registry.service_at("/notes") is None, "an echo of what was retired"
    registry.publish(declaration("/notes", 3, kind="again"))
    assert registry.service_at("/notes") is not None


def test_partitions_are_known_under_every_topic_and_for_ever() -> None:
    registry = Registry()
    partitions = registry.service_at("/core/streams/flights/partitions")
    assert isinstance(partitions, PartitionService)
    assert registry.service_at("/core/streams/others/partitions") is partitions
    assert registry.service_for("/core/streams/flights/partitions/0") is partitions
    assert isinstance(registry.service_for("/core/streams/flights"), TopicService)
    assert isinstance(registry.service_for("/core/streams/partitions"), TopicService)
    for path in ("/core/streams/flights", "/core/streams/a/b/partitions", "/core/streams/a/other",
                 "/core/stream/a/partitions", "/core/streams/a/partitions/0"):  # fmt: skip
        assert registry.service_at(path) is None
    asked: list[Operation] = []

    def submit(operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        asked.append(operation)
        raise AssertionError

    declaring = Declaring(registry, submit)
    assert declaring.service_for("/core/streams/flights/partitions/0", 1 << 40) is partitions
    assert declaring.service_for("/core/streams/flights", 1 << 40) is not None
    assert not asked


def test_topics_that_are_made_and_deleted_declare_nothing() -> None:
    registry = Registry()
    row = declaration("/notes", 3, link="/core/streams/notes")
    registry.publish(row)
    registry.publish(row._replace(deleted=True))
    assert registry.service_at("/notes") is None
    assert registry.version_of("/core/streams/notes") == -1


def test_a_decided_declaration_replaces_an_undecided_one_of_its_version() -> None:
    registry = Registry()
    registry.publish(declaration("/notes", 1, kind="undecided"))
    registry.publish(declaration("/notes", 1, kind="decided"))
    service = registry.service_at("/notes")
    assert service is not None
    assert service.options.kind == "decided"
    registry.publish(declaration("/notes", 1)._replace(deleted=True))
    assert registry.service_at("/notes") is None


def test_a_declaration_counts_only_at_its_own_link() -> None:
    registry = Registry()
    registry.publish(declaration("/core/examples"))
    registry.publish(declaration("/notes", link="/core/factories/other"))
    registry.publish(declaration("/a", options=[]))
    paths = [each.options.path for each in registry.services()]
    assert paths == [each.options.path for each in Registry().services()]
    assert "/core/factories" in paths


ENFORCED = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "a note",
    "description": "x",
    "$defs": {"format": {"type": "string", "examples": ["a"], "x-shown": True}},
    "properties": {"format": {"$ref": "#/$defs/format"}, "default": {"maxLength": 3}},
    "if": {"required": ["a"]},
    "then": {"contains": {}, "minContains": 2},
    "else": True,
}


@pytest.mark.parametrize(
    ("members", "warned"),
    [
        ({"kind": "x", "schema": ENFORCED, "documentExpirationTimeMicros": 9}, []),
        ({"indexes": [], "retention": {}, "options": ["ON_DEMAND_LOAD"]}, []),
        ({"indexes": ["$.a"]}, []),
        (
            {"indexes": ["a"], "options": ["PERSISTENCE", "REPLICATION"]},
            [("indexes", "level 3")],
        ),
        ({"retention": {"versions": 3}}, []),
        (
            {"retention": {"versions": 3}, "options": ["PERSISTENCE", "REPLICATION"]},
            [("retention", "level 3")],
        ),
        ({"options": ["INSTRUMENTATION"]}, []),
        ({"documentExpirySeconds": 9}, [("documentExpirySeconds", "no member")]),
        (
            {"schema": {"properties": {"a": {"format": "date"}, "b": {"format": "email"}}}},
            [("schema", "'format'")],
        ),
        ({"schema": {"allOf": [{"requierd": ["a"]}]}}, [("schema", "'requierd'")]),
        ({"schema": {"default": {}, "items": {"nullable": 1}}},
         [("schema", "'default'"), ("schema", "'nullable'")]),
        ({"schema": {"$schema": "http://json-schema.org/draft-07/schema#"}},
         [("schema", "2020-12")]),
    ],
)  # fmt: skip
def test_ineffective_members_of_a_declaration_are_named(
    members: dict[str, Any], warned: list[tuple[str, str]]
) -> None:
    found = unkept({"path": "/x", **members})
    assert [each["member"] for each in found] == [member for member, _ in warned]
    assert all(word in each["detail"] for each, (_, word) in zip(found, warned, strict=True))


@pytest.mark.parametrize(
    ("pattern", "power"),
    [
        ("^abc$", 0), ("abc", 1), ("^a+$", 1), (r"^[A-Z]{2}-\d{4}$", 0), ("a+b", 2),
        (r"^[^@]+@[^@]+\.[a-z]+$", 3), ("^(ab)?c*$", 1), (r"^\(\)*$", 1), ("^[)*]+$", 1),
        ("^a{2,}$", 1), ("^a|b$", 1),
    ],
)  # fmt: skip
def test_patterns_have_a_power(pattern: str, power: int) -> None:
    assert degree(pattern) == power
    assert length_max(pattern) > 200


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*b", "(a*)*", r"(a)\1", "(?P<x>a)(?P=x)", "a*a*a*a*b", "(", "(a){2,}",
     "(?:a+){50}", "[", "a{99999999999}"],
)  # fmt: skip
def test_patterns_that_could_take_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(Refusal):
        degree(pattern)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"}, {"$ref": "http://evil/x"}, {"$ref": "other.json"},
        {"allOf": [{"$ref": "file:///x"}]}, {"$dynamicRef": "x#y"}, {"$id": "http://evil/"},
        {"properties": {"a": {"pattern": "(a+)+"}}}, {"patternProperties": {"a+": {}}},
        {"items": {"required": "x"}}, {"$ref": 7}, {"$ref": "#"}, {"$ref": "#/nowhere"},
        {"properties": {"a": {"$dynamicRef": "#nowhere"}}}, {"allOf": [{"not": {"$ref": "#"}}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        {"allOf": [True], "$ref": "#/allOf/x"}, {"allOf": [True], "$ref": "#/allOf/5"},
        {"type": "object", "$ref": "#/type/x"},
    ],
)  # fmt: skip
def test_schemas_that_are_refused(schema: Any) -> None:
    with pytest.raises(Refusal) as refused:
        Schema(schema)
    assert refused.value.status == 400


@pytest.mark.parametrize("named", [True, {"type": "string"}, {"minLength": 1}])
def test_members_may_have_the_names_of_keywords(named: Any) -> None:
    Schema({"properties": {"dependentSchemas": named, "allOf": named}}).check({})
    Schema({"const": {"dependentSchemas": [named]}})


DEEP: dict[str, Any] = {}
for _ in range(60):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize(
    ("schema", "state"),
    [
        ({"$ref": "#"}, {}),
        ({"$ref": "#/nowhere"}, {}),
        ({"properties": {"a": {"pattern": "a+b"}}}, {"a": "a" * 1_000_000}),
        ({"properties": {"a": {"pattern": "^a+a+a+$"}}}, {"a": "a" * 256 + "b"}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [*range(100_000), "x", {}, {}]}),
        ({"properties": {"a": {"multipleOf": 1e-308}}}, {"a": 1e308}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [1, 1.0]}),
        ({"additionalProperties": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}, DEEP),
        ({"properties": {"a": {"items": {"pattern": "a+b+c$"}}}}, {"a": ["a" * 200 + "c"] * 4_000}),
    ],
)
def test_a_schema_never_holds_the_owner_up(schema: Any, state: Any) -> None:
    began = time.process_time()
    with pytest.raises(Refusal):
        Schema(schema).check(state)
    assert time.process_time() - began < 2


def test_a_schema_may_refer_to_itself() -> None:
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "n": {"type": "integer"}}}
    Schema(tree).check({"left": {"right": {"n": 1}}})
    with pytest.raises(Refusal, match=r"\$\.left\.right\.n"):
        Schema(tree).check({"left": {"right": {"n": "x"}}})


def test_a_schema_that_fits_is_silent() -> None:
    schema = {
        "$defs": {"name": {"type": "string", "pattern": "^[A-Z][a-z]*$"}},
        "properties": {"name": {"$ref": "#/$defs/name"}, "tags": {"uniqueItems": True}},
        "patternProperties": {"^x-": {"type": "integer"}},
    }
    applied = Schema(schema)
    applied.check({"name": "Ada", "tags": [1, "1", True], "x-1": 1})
    for wrong in ({"name": "ada"}, {"tags": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]}, {"x-1": "1"}):
        with pytest.raises(Refusal) as refused:
            applied.check(wrong)
        assert refused.value.detail.startswith("$")
