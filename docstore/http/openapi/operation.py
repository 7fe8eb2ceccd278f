"""The OpenAPI form of one method at one path of the route table."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from docstore.http.openapi.parameters import IN_PATHS
from docstore.http.permissions import Permission, permission_for
from docstore.http.representation import JSON_TYPE
from docstore.http.routes.route import ANYBODY, INSIDE, OPEN, Op, Ops

Json = dict[str, Any]
OF_DOCUMENTS = (
    "ETag", "Docstore-Version", "Docstore-Owner", "Docstore-Epoch", "Docstore-Replicas",
)  # fmt: skip
"""Headers of an answer with a document."""
_PLACE = re.compile(r"\{(\w+)\}")


def path_item(path: str, operations: Ops, tag: str, called: str = "") -> Json:
    """Return the OpenAPI form of all operations at a path. called: prefix of their names."""
    item: Json = {}
    if places := [_in_path(name) for name in _PLACE.findall(path)]:
        item["parameters"] = places
    for method, op in operations.items():
        item[method.lower()] = _operation(path, method, op, tag, called or path)
        if method == "GET" and op.has_head:
            head = Op("As GET, without the body", dict.fromkeys(op.answers, ""))
            item["head"] = _operation(path, "HEAD", head, tag, called or path)
    return item


def _operation(path: str, method: str, op: Op, tag: str, called: str) -> Json:
    need = permission_for(method, path)
    told: Json = {
        "operationId": ".".join([method.lower(), *re.findall(r"\w+", called)]),
        "summary": op.does,
        "description": " ".join(filter(None, [op.tells, _needed(need, path)])),
        "tags": [tag],
        "responses": {str(status): _answer(status, what) for status, what in op.answers.items()},
    }
    told["responses"]["default"] = {"$ref": "#/components/responses/Problem"}
    named = [*op.query, *op.headers]
    if named:
        told["parameters"] = [{"$ref": f"#/components/parameters/{_key(each)}"} for each in named]
    if op.takes:
        told["requestBody"] = {"required": True, "content": dict(_contents(op.takes))}
    if need.what is OPEN:
        told["security"] = []
    return told


def _needed(need: Permission, path: str) -> str:
    """Return the permission that a caller needs, as a sentence."""
    if need.what is OPEN:
        return "Needs no token."
    if need.what is ANYBODY:
        return "Needs any token."
    if need.what is INSIDE:
        return "Needs what the things need that are named in it."
    at = "its path" if need.path == path else f"`{need.path}`"
    return f"Needs `{need.what.name.lower()}` at {at}."


def _contents(takes: str | Sequence[str]) -> Iterator[tuple[str, Json]]:
    if isinstance(takes, str):
        yield JSON_TYPE, {"schema": schema_of(takes)}
    else:
        yield from ((media, {}) for media in takes)


def schema_of(name: str) -> Json:
    """Return a reference to a named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(status: int, what: str) -> Json:
    told: Json = {"description": _SAID.get(status, "Done")}
    if what:
        is_media = "/" in what
        schema = {"type": "string"} if is_media else schema_of(what)
        told["content"] = {what if is_media else JSON_TYPE: {"schema": schema}}
    named = (*OF_DOCUMENTS, *(("Location",) if status in (201, 202) else ()))
    if what == "Document":
        told["headers"] = {each: {"$ref": f"#/components/headers/{each}"} for each in named}
    return told


_SAID = {
    200: "Done, or found",
    201: "Made; `Location` says where",
    202: "Begun",
    204: "Done",
    304: "It is what `If-None-Match` names",
}


def _in_path(name: str) -> Json:
    return {
        "name": name, "in": "path", "required": True, "description": IN_PATHS[name],
        "schema": {"type": "string"},
    }  # fmt: skip


def _key(name: str) -> str:
    """Return a component name for a parameter: `$` is not allowed there."""
    return name.replace("$", "_").replace("@", ".")
