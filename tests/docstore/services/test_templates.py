"""An empty document and the description of its members, out of a schema."""

from typing import Any

import orjson

from docstore.model.service import LEVEL_3, ServiceOptions
from docstore.services.example import ExampleService
from docstore.services.registry import EXAMPLES
from docstore.services.schemas import check_schema
from docstore.services.templates import DEPTH_MAX, FOLLOWED_BYTES_MAX, template_of

SCHEMA = {
    "title": "Order",
    "description": "what somebody has ordered",
    "required": ["total", "lines"],
    "properties": {
        "total": {"type": "number", "description": "with taxes", "examples": [9.5]},
        "status": {"enum": ["new", "paid"], "default": "new"},
        "note": {"type": ["null", "string"]},
        "count": {"type": "integer"},
        "paid": {"type": "boolean"},
        "by": {"$ref": "#/$defs/person", "description": "who"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "tags": {"type": "object"},
        "anything": True,
    },
    "$defs": {
        "person": {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        "line": {"type": "object", "properties": {"sku": {"type": "string"}}},
    },
}


def template(schema: dict[str, Any] | None, **members: Any) -> dict[str, Any]:
    if schema is not None:
        check_schema(schema)
    options = ServiceOptions(path="/orders", kind="shop:Order", schema=schema, **members)
    return template_of(options, state_bytes_max=1 << 20)


def properties(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = template(schema)["documentDescription"]["propertyDescriptions"]
    return found


def test_a_template_is_an_empty_state() -> None:
    page = template(SCHEMA)
    own = {name: value for name, value in page.items() if not name.startswith("document")}
    assert own == {
        "total": 0.0, "status": "new", "note": "", "count": 0, "paid": False,
        "by": {"name": ""}, "lines": [], "tags": {}, "anything": None,
    }  # fmt: skip
    assert page["documentKind"] == "shop:Order"


def test_each_member_is_described() -> None:
    found = properties(SCHEMA)
    assert {name: each["typeName"] for name, each in found.items()} == {
        "total": "DOUBLE", "status": "ENUM", "note": "STRING", "count": "LONG", "paid": "BOOLEAN",
        "by": "PODO", "lines": "ARRAY", "tags": "MAP", "anything": "ANY",
    }  # fmt: skip
    assert found["total"] == {
        "typeName": "DOUBLE", "usageOptions": ["REQUIRED"],
        "propertyDocumentation": "with taxes", "exampleValue": 9.5,
    }  # fmt: skip
    assert found["status"]["enumValues"] == ["new", "paid"]
    assert found["by"]["propertyDocumentation"] == "who"
    assert found["by"]["fieldDescriptions"]["name"]["usageOptions"] == ["REQUIRED"]
    assert found["lines"]["elementDescription"]["fieldDescriptions"]["sku"]["typeName"] == "STRING"


def test_the_service_itself_is_described() -> None:
    options = (*LEVEL_3, "INSTRUMENTATION")
    said = template(SCHEMA, options=options, versions=7)["documentDescription"]
    assert (said["name"], said["description"]) == ("Order", "what somebody has ordered")
    assert said["serviceCapabilities"] == list(options)
    assert (said["versionRetentionLimit"], said["serializedStateSizeLimit"]) == (7, 1 << 20)
    bare = template(None)
    assert bare["documentDescription"]["propertyDescriptions"] == {}
    assert bare["documentDescription"]["name"] == "shop:Order"


def test_the_sample_service_has_a_template_that_it_would_describe() -> None:
    page = template_of(EXAMPLES, state_bytes_max=1)
    assert (page["name"], page["counter"], page["keyValues"]) == ("", 0, {})
    ExampleService().check({**page, "name": "a"})


def test_the_template_of_a_recursive_schema_has_a_limited_depth() -> None:
    page = template({"properties": {"a": {"$ref": "#"}, "b": {"type": "string"}}})
    assert page["b"] == ""
    depth, inside = 0, page
    while inside:
        depth, inside = depth + 1, inside.get("a") or {}
    assert depth <= DEPTH_MAX + 1


def test_references_do_not_make_a_large_page_of_a_small_schema() -> None:
    """Each of 60 members has all 60 as members: 60 to the eighth."""
    schema = {"properties": {f"m{n}": {"$ref": "#", "description": "x" * 90} for n in range(60)}}
    assert len(orjson.dumps(template(schema))) < 8 * FOLLOWED_BYTES_MAX
