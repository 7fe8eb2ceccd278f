"""Short forms in which the schemas are written."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer"}
MAYBE: Json = {"type": ["integer", "null"]}
MAYBE_TEXT: Json = {"type": ["string", "null"]}
REAL: Json = {"type": "number"}
FLAG: Json = {"type": "boolean"}
ANY: Json = {}
THING: Json = {"type": "object", "additionalProperties": True}
"""An object with any members: generated types allow them only where the schema says so."""
BYTES: Json = {"type": "string", "format": "binary"}
LARGEST = (1 << 63) - 1
"""Greatest whole number in JSON that a node accepts."""


def of(told: str = "", needs: str = "", /, **members: Any) -> Json:
    """Return the schema of an object. needs: its required members, separated by blanks."""
    schema: Json = {"type": "object"}
    if told:
        schema["description"] = told
    if members:
        schema["properties"] = members
    if needs:
        schema["required"] = needs.split()
    return schema


def only(told: str = "", needs: str = "", /, **members: Any) -> Json:
    """Return the schema of an object of a request: a member that it does not name is refused."""
    return {**of(told, needs, **members), "additionalProperties": False}


def many(items: Json, most: int | None = None, least: int = 0) -> Json:
    """Return the schema of an array."""
    bounds = ({"minItems": least} if least else {}) | ({} if most is None else {"maxItems": most})
    return {"type": "array", "items": items, **bounds}


def one(*values: str) -> Json:
    """Return the schema of a choice of strings."""
    return {"type": "string", "enum": list(values)}


def text(pattern: str = "", least: int = 0, most: int | None = None, form: str = "") -> Json:
    """Return the schema of a string. form: a format, for strings that no pattern describes."""
    rules: Json = {"pattern": pattern} if pattern else {}
    rules |= {"format": form} if form else {}
    rules |= {"minLength": least} if least else {}
    return {**TEXT, **rules, **({} if most is None else {"maxLength": most})}


def whole(least: int, most: int | None = None) -> Json:
    """Return the schema of a whole number within bounds."""
    return {**WHOLE, "minimum": least, **({} if most is None else {"maximum": most})}


def told(schema: Json, description: str) -> Json:
    return {**schema, "description": description}


def either(*schemas: Json) -> Json:
    """Return the schema of a value of exactly one of these schemas."""
    return {"oneOf": list(schemas)}


def asked(kind: str, needs: str = "", /, **members: Any) -> Json:
    """Return the schema of a request of a kind."""
    return only("", f"kind {needs}".strip(), kind={"type": "string", "const": kind}, **members)


def shown(schema: Json, example: Any) -> Json:
    return {**schema, "examples": [example]}


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


Schemas = Mapping[str, Json]
"""Name -> schema, which has `examples`."""
Texts = Sequence[str]
SEGMENT = r"^[A-Za-z0-9_~@!$&'()*+,;=:-][A-Za-z0-9._~@!$&'()*+,;=:-]*$"
"""Pattern of a segment of a path that needs no percent-encoding. Others are accepted as well."""
NAME = text(SEGMENT, 1, 200)
PATH = text(r"^(/[A-Za-z0-9_~@!$&'()*+,;=:-][A-Za-z0-9._~@!$&'()*+,;=:-]*){1,32}$", most=1024)
INSTANT_US = told(whole(0, LARGEST), "Microseconds since 1970")
