"""Bodies in the form of OpenAPI: a schema and an example for each media type.

OpenAPI 3.1 has no schema for a sequence of values. So the schema of lines, events and msgpack
objects says that a generated client handles bytes or text, and the extension `x-itemSchema` has the
schema of each value.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from docstore.http.changes import EVENTS_TYPE
from docstore.http.openapi.schemas.shapes import BYTES, TEXT, ref
from docstore.http.representation import MSGPACK_TYPE
from docstore.http.results import NDJSON_TYPE
from docstore.http.routes.route import Body

Json = dict[str, Any]
WHOLE_IN_MSGPACK = frozenset({"StoredRows"})
"""Schemas of bodies in msgpack that are one object, not several in sequence."""


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


_SEQUENCES: Mapping[str, tuple[str, Json, Callable[[Any], Any]]] = {
    NDJSON_TYPE: ("lines", BYTES, _line),
    EVENTS_TYPE: ("events", TEXT, lambda value: f"data: {_line(value)}\n"),
    MSGPACK_TYPE: ("objects", BYTES, lambda value: [value]),
}
"""Media type -> suffix of its examples, schema of a body, and the body with one value."""


def contents(bodies: Sequence[Body]) -> Json:
    """Return the member `content` of a request or an answer."""
    return {each.media: _content(each) for each in bodies}


def _is_whole(body: Body) -> bool:
    return body.media not in _SEQUENCES or body.schema in WHOLE_IN_MSGPACK


def _content(body: Body) -> Json:
    schema = ref(body.schema)
    if _is_whole(body):
        return {"schema": schema, "examples": _examples(body.schema)}
    suffix, form, _ = _SEQUENCES[body.media]
    examples = _examples(f"{body.schema}.{suffix}")
    return {"schema": form, "x-itemSchema": schema, "examples": examples}


def _examples(name: str) -> Json:
    return {"example": {"$ref": f"#/components/examples/{name}"}}


def examples(samples: Mapping[str, Any], bodies: Iterable[Body]) -> Json:
    """Return the named examples of bodies, each in the form of its media type.

    samples: name of a schema -> a value that it describes.
    """
    found: Json = {}
    for body in bodies:
        value = samples[body.schema]
        if _is_whole(body):
            found[body.schema] = {"value": value}
        else:
            suffix, _, shown = _SEQUENCES[body.media]
            found[f"{body.schema}.{suffix}"] = {"value": shown(value)}
    return dict(sorted(found.items()))
