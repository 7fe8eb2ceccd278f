"""Templates of a service's documents: an empty one, and a description of its members. Pure.

They are made from the service's JSON Schema, in the form of Xenon's `documentDescription`. They
show the descriptive parts: types, members, required members, texts, examples, defaults. References
within the schema are followed to a limited depth, as long as the page stays small.
"""

from collections.abc import Mapping
from typing import Any

from docstore.model import json
from docstore.model.service import ServiceOptions

Schema = Mapping[str, Any]

DEPTH_MAX = 8
FOLLOWED_BYTES_MAX = 1 << 20
"""Maximum bytes of followed references, if each one refers to the whole schema."""
TYPE_NAMES = {
    "string": "STRING", "integer": "LONG", "number": "DOUBLE", "boolean": "BOOLEAN",
    "array": "ARRAY", "object": "MAP",
}  # fmt: skip
EMPTY: Mapping[str, Any] = {
    "string": "", "integer": 0, "number": 0.0, "boolean": False, "array": [], "object": {},
}  # fmt: skip


def template_of(options: ServiceOptions, *, state_bytes_max: int) -> dict[str, Any]:
    schema = options.schema or options.described_by or {}
    return {
        **_Described(schema).members(schema, DEPTH_MAX),
        "documentKind": options.kind,
        "documentDescription": {
            "name": schema.get("title", options.kind),
            "description": schema.get("description", ""),
            "serviceCapabilities": list(options.options),
            "propertyDescriptions": _Described(schema).properties(schema, DEPTH_MAX),
            "versionRetentionLimit": options.versions,
            "serializedStateSizeLimit": state_bytes_max,
        },
    }


class _Described:
    """Describes one schema, whose parts may refer to other parts."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._references_left = FOLLOWED_BYTES_MAX // len(json.dump(dict(root)))

    def members(self, schema: Schema, depth: int) -> dict[str, Any]:
        """Return the members of an object with empty values."""
        return {name: self._empty(part, depth - 1) for name, part in self._parts(schema, depth)}

    def properties(self, schema: Schema, depth: int) -> dict[str, Any]:
        """Return name -> description of an object's members."""
        required = schema.get("required", ())
        return {
            name: self._description(part, depth - 1, is_required=name in required)
            for name, part in self._parts(schema, depth)
        }

    def _parts(self, schema: Schema, depth: int) -> list[tuple[str, Schema]]:
        if depth <= 0:
            return []
        parts = schema.get("properties", {})
        return [(name, self._followed(part)) for name, part in parts.items()]

    def _followed(self, part: Any) -> Schema:
        """Return a part, or the part to which it refers; `true` and `false` describe nothing."""
        for _ in range(DEPTH_MAX):
            if not isinstance(part, Mapping):
                return {}
            reference = part.get("$ref")
            if reference is None:
                return part
            if self._references_left == 0:
                break
            self._references_left -= 1
            part = {**self._at(reference), **{k: v for k, v in part.items() if k != "$ref"}}
        return {}

    def _at(self, reference: str) -> Schema:
        """Return the part at a JSON pointer (RFC 6901), {} if nothing is there."""
        found: Any = self._root
        for name in reference.removeprefix("#").split("/")[1:]:
            found = found.get(name.replace("~1", "/").replace("~0", "~"), {}) if found else {}
            if not isinstance(found, Mapping):
                return {}
        return dict(found)

    def _empty(self, part: Schema, depth: int) -> Any:
        for keyword in ("default", "const"):
            if keyword in part:
                return part[keyword]
        kind = _type_of(part)
        if kind == "object":
            return self.members(part, depth)
        return EMPTY.get(kind)

    def _description(self, part: Schema, depth: int, *, is_required: bool) -> dict[str, Any]:
        kind = _type_of(part)
        found: dict[str, Any] = {
            "typeName": TYPE_NAMES.get(kind, "ANY"),
            "usageOptions": ["REQUIRED" if is_required else "OPTIONAL"],
        }
        if "enum" in part:
            found |= {"typeName": "ENUM", "enumValues": part["enum"]}
        if "description" in part:
            found["propertyDocumentation"] = part["description"]
        if examples := part.get("examples"):
            found["exampleValue"] = examples[0]
        if kind == "object" and part.get("properties"):
            found |= {"typeName": "PODO", "fieldDescriptions": self.properties(part, depth)}
        if kind == "array" and depth > 0 and isinstance(part.get("items"), Mapping):
            items = self._followed(part["items"])
            found["elementDescription"] = self._description(items, depth - 1, is_required=False)
        return found


def _type_of(part: Schema) -> str:
    """Return the first type that a schema allows, other than null."""
    said = part.get("type", "object" if "properties" in part else "")
    kinds = [said] if isinstance(said, str) else [each for each in said if each != "null"]
    return kinds[0] if kinds else "null"
