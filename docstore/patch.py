"""Two ways to say a change: RFC 7396 merge patch, and RFC 6902 JSON patch. Pure.

Both return a new value and leave the old one as it was, as far as it changes.
"""

import copy
from typing import Any

from docstore.errors import BadRequest, Conflict

State = dict[str, Any]


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
    that fails.
    """
    if not isinstance(operations, list):
        raise BadRequest("a JSON patch is an array of operations")
    result = copy.deepcopy(state)
    for operation in operations:
        result = _apply_one(result, operation)
    return result


def _apply_one(state: Any, operation: Any) -> Any:
    if not isinstance(operation, dict) or not isinstance(operation.get("op"), str):
        raise BadRequest("an operation of a JSON patch needs an op")
    name, path = operation["op"], _pointer(operation, "path")
    if name in ("add", "replace", "test") and "value" not in operation:
        raise BadRequest(f"the operation {name} needs a value")
    match name:
        case "add":
            return _add(state, path, copy.deepcopy(operation["value"]))
        case "remove":
            return _remove(state, path)
        case "replace":
            _find(state, path)
            return _put(state, path, copy.deepcopy(operation["value"]))
        case "move":
            return _move(state, _pointer(operation, "from"), path)
        case "copy":
            return _add(state, path, copy.deepcopy(_find(state, _pointer(operation, "from"))))
        case "test":
            _test(state, path, operation["value"])
            return state
        case _:
            raise BadRequest(f"there is no operation {name[:40]!r} in a JSON patch")


def _pointer(operation: State, member: str) -> list[str]:
    """Return the parts of an RFC 6901 pointer."""
    text = operation.get(member)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise BadRequest(f"{member} must be a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find(state: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(state, dict) and part in state:
            state = state[part]
        elif isinstance(state, list):
            state = state[_index(part, len(state) - 1)]
        else:
            raise Conflict(f"the patch speaks of {'/'.join(path)}, which is not there")
    return state


def _index(part: str, last: int) -> int:
    if not part.isdecimal() or (len(part) > 1 and part[0] == "0"):
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
    # In Python True == 1; in JSON it is not.
    if found != value or isinstance(found, bool) != isinstance(value, bool):
        raise Conflict(f"the test of {'/'.join(path) or 'the whole'} failed")
