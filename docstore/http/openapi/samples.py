"""An example of a document that a schema of a user's factory describes."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
DEPTH_MAX = 4
PLAIN: Mapping[str, Any] = {
    "string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": [], "null": None,
}  # fmt: skip


def sample_of(schema: Schema) -> Any:
    """Return a value for a schema: its own example, or one made of those of its members.

    It may lack what only a person can invent, such as a text for a pattern.
    """
    return _sample(schema, schema, DEPTH_MAX)


def _sample(part: Any, root: Schema, depth: int) -> Any:
    part = _followed(part, root)
    for keyword in ("examples", "enum"):
        if part.get(keyword):
            return part[keyword][0]
    for keyword in ("const", "default"):
        if keyword in part:
            return part[keyword]
    kind = part.get("type", "object" if depth == DEPTH_MAX or "properties" in part else "string")
    kind = kind if isinstance(kind, str) else kind[0]
    if kind == "object":
        inner = part.get("properties", {}) if depth else {}
        return {name: _sample(each, root, depth - 1) for name, each in inner.items()}
    if kind in ("integer", "number"):
        return part.get("minimum", PLAIN[kind])
    return PLAIN[kind]


def _followed(part: Any, root: Schema) -> Schema:
    """Return a part, or the part within the schema to which it refers."""
    for _ in range(DEPTH_MAX):
        ref = part.get("$ref") if isinstance(part, Mapping) else None
        if not isinstance(ref, str) or not ref.startswith("#"):
            break
        part = root
        for name in ref.split("/")[1:]:
            part = part.get(name.replace("~1", "/").replace("~0", "~"), {})
    return part if isinstance(part, Mapping) else {}
