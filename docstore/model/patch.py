"""Two ways to say a change: RFC 7396 merge patch, and RFC 6902 JSON patch. Pure.

Both return a new value and leave the old one as it was. A JSON patch can double a document with
each `copy` and nest it with each `add`, so what is copied is weighed and what results is measured.
"""

import re
from typing import Any

from docstore.errors import BadRequest, Conflict, TooLarge
from docstore.model import json

State = dict[str, Any]

COPIED_BYTES_MAX = 4 << 20

_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_BAD_ESCAPE = re.compile(r"~(?![01])")


def merge(state: Any, patch: Any) -> Any:
    """Return `state` with an RFC 7396 patch applied: null removes, objects merge, else replace."""
    if not isinstance(patch, dict):
        return patch
    result = dict(state) if isinstance(state, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), change)
    return result


def apply(state: Any, operations: Any) -> Any:
    """Return `state` with an RFC 6902 patch applied, all of it or (raising) nothing.

    Raises BadRequest for a malformed patch, Conflict for a path that is not there or a `test`
    that fails, TooLarge when the patch would blow the document up.
    """
    if not isinstance(operations, list):
        raise BadRequest("a JSON patch is an array of operations")
    result, copied = _copy(state)
    try:
        for operation in operations:
            if not isinstance(operation, dict) or not isinstance(operation.get("op"), str):
                raise BadRequest("an operation of a JSON patch needs an op")
            result, size = _apply_one(result, operation)
            copied += size
            if copied > COPIED_BYTES_MAX:
                raise TooLarge("the patch copies more than a document may hold")
        levels = json.depth(json.dump(result))
    except (RecursionError, json.NotWritable):
        raise BadRequest("the patch nests too deep") from None
    if levels > json.DEPTH_MAX:
        raise BadRequest(f"the patch nests deeper than {json.DEPTH_MAX}")
    return result


def _copy(value: Any) -> tuple[Any, int]:
    """Return a copy that shares nothing, and its size in bytes."""
    packed = json.dump(value)
    return json.load(packed), len(packed)


def _apply_one(state: Any, operation: State) -> tuple[Any, int]:
    """Return the state after one operation, and how many bytes it copied."""
    name, path = operation["op"], _pointer(operation, "path")
    if name in ("add", "replace", "test") and "value" not in operation:
        raise BadRequest(f"the operation {name} needs a value")
    match name:
        case "add":
            value, size = _copy(operation["value"])
            return _add(state, path, value), size
        case "remove":
            return _remove(state, path), 0
        case "replace":
            _find(state, path)
            value, size = _copy(operation["value"])
            return _put(state, path, value), size
        case "move":
            return _move(state, _pointer(operation, "from"), path), 0
        case "copy":
            value, size = _copy(_find(state, _pointer(operation, "from")))
            return _add(state, path, value), size
        case "test":
            _test(state, path, operation["value"])
            return state, 0
        case _:
            raise BadRequest(f"there is no operation {name[:40]!r} in a JSON patch")


def _pointer(operation: State, member: str) -> list[str]:
    """Return the parts of an RFC 6901 pointer."""
    text = operation.get(member)
    if not isinstance(text, str) or (text and not text.startswith("/")) or _BAD_ESCAPE.search(text):
        raise BadRequest(f"{member} must be a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find(state: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(state, dict) and part in state:
            state = state[part]
        elif isinstance(state, list):
            state = state[_index(part, len(state) - 1)]
        else:
            raise Conflict(f"the patch speaks of {_shown(path)}, which is not there")
    return state


def _index(part: str, last: int) -> int:
    if _INDEX.match(part) is None:
        raise Conflict(f"{part[:40]!r} is not an index of an array")
    if int(part) > last:
        raise Conflict(f"the array has no index {part[:20]}")
    return int(part)


def _add(state: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _find(state, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else _index(path[-1], len(parent))
        parent.insert(at, value)
    else:
        raise Conflict("a patch cannot add to what is neither object nor array")
    return state


def _put(state: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _find(state, path[:-1])
    if isinstance(parent, list):
        parent[_index(path[-1], len(parent) - 1)] = value
    else:
        parent[path[-1]] = value
    return state


def _remove(state: Any, path: list[str]) -> Any:
    if not path:
        raise Conflict("a patch cannot remove the whole document")
    _find(state, path)
    parent = _find(state, path[:-1])
    if isinstance(parent, list):
        del parent[_index(path[-1], len(parent) - 1)]
    else:
        del parent[path[-1]]
    return state


def _move(state: Any, source: list[str], path: list[str]) -> Any:
    if path[: len(source)] == source and path != source:
        raise Conflict("a patch cannot move a value into itself")
    value = _find(state, source)
    return _add(_remove(state, source) if source else state, path, value)


def _test(state: Any, path: list[str], value: Any) -> None:
    found = _find(state, path)
    # Not `==`: in Python True is 1; in JSON it is not, but 1.0 is.
    if json.canonical(found) != json.canonical(value):
        raise Conflict(f"the test of {_shown(path)} failed")


def _shown(path: list[str]) -> str:
    return repr("/" + "/".join(path))[:200] if path else "the whole document"
