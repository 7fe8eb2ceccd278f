"""The OpenAPI form of one method at one path of the route table."""

import re
from collections.abc import Iterator
from typing import Any

from docstore.http.openapi.media import contents
from docstore.http.openapi.parameters import IN_PATHS, key_of
from docstore.http.permissions import Permission, permission_for
from docstore.http.routes.route import ANYBODY, INSIDE, OPEN, Bodies, Body, Op, Ops, forms

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
        told["parameters"] = [{"$ref": f"#/components/parameters/{key_of(each)}"} for each in named]
    if op.takes:
        told["requestBody"] = {"required": True, "content": contents(forms(op.takes))}
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


def bodies_of(ops: Ops) -> Iterator[Body]:
    """Yield the bodies of requests and answers."""
    for op in ops.values():
        yield from forms(op.takes)
        for bodies in op.answers.values():
            yield from forms(bodies)


def _answer(status: int, bodies: Bodies) -> Json:
    told: Json = {"description": _SAID.get(status, "Done")}
    if bodies:
        told["content"] = contents(forms(bodies))
    named = (*OF_DOCUMENTS, *(("Location",) if status in (201, 202) else ()))
    if bodies == "Document":
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
    schema, told = IN_PATHS[name]
    return {
        "name": name, "in": "path", "required": True, "description": told, "schema": schema,
    }  # fmt: skip
