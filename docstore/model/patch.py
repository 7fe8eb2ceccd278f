"""RFC 7396 merge patches, and RFC 6902 JSON patches. Pure.

Both return a new value and do not change the old one. A JSON patch of a few bytes can double a
document with each `copy`, move all elements of an array with each `add`, and nest without end. So
its work and the depth of the result are limited.
"""

import re
from typing import Any

from docstore.errors import BadRequest, Conflict, TooLarge
from docstore.model import json
from docstore.model.settings import quoted

State = dict[str, Any]

WORK_MAX = 1 << 20
"""Most bytes that a patch copies; 64 moved elements of arrays count as one byte."""
_MOVED_SHIFT = 6

_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_BAD_ESCAPE = re.compile(r"~(?![01])")


def merge(state: Any, patch: Any) -> Any:
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
    """Apply an RFC 6902 patch as a whole.

    Raises BadRequest for a malformed patch, Conflict for a missing path or a failed `test`,
    TooLarge for too much work.
    """
    if not isinstance(operations, list):
        raise BadRequest(f"a JSON patch must be an array of operations; got {quoted(operations)}")
    result, left = json.load(json.dump(state)), WORK_MAX
    try:
        for operation in operations:
            if not isinstance(operation, dict) or not isinstance(operation.get("op"), str):
                raise BadRequest("each operation of a JSON patch must have `op`: a string")
            result, work = _apply_one(result, operation, left)
            left = _spent(left, work)
        levels = json.depth(json.dump(result))
    except (RecursionError, json.NotWritable):
        raise BadRequest(f"the patched document must nest at most {json.DEPTH_MAX} deep") from None
    if levels > json.DEPTH_MAX:
        raise BadRequest(
            f"the patched document must nest at most {json.DEPTH_MAX} deep; got {levels}"
        )
    return result


def _spent(left: int, work: int) -> int:
    if work > left:
        raise TooLarge(f"a patch must copy or move at most {WORK_MAX} bytes of the document")
    return left - work


def _apply_one(state: Any, operation: State, left: int) -> tuple[Any, int]:
    name, path = operation["op"], _pointer(operation, "path")
    if name in ("add", "replace", "test") and "value" not in operation:
        raise BadRequest(f"the operation {name} must have a member `value`")
    match name:
        case "add":
            return _add(state, path, json.load(json.dump(operation["value"])))
        case "remove":
            return _remove(state, path)
        case "replace":
            _find(state, path)
            return _put(state, path, json.load(json.dump(operation["value"]))), 0
        case "move":
            return _move(state, _pointer(operation, "from"), path)
        case "copy":
            packed = json.dump(_find(state, _pointer(operation, "from")))
            _spent(left, len(packed))
            state, work = _add(state, path, json.load(packed))
            return state, work + len(packed)
        case "test":
            _test(state, path, operation["value"])
            return state, 0
        case _:
            raise BadRequest(
                f"`op` must be add, remove, replace, move, copy or test; got {quoted(name)}"
            )


def _pointer(operation: State, member: str) -> list[str]:
    text = operation.get(member)
    if not isinstance(text, str) or (text and not text.startswith("/")) or _BAD_ESCAPE.search(text):
        raise BadRequest(f"`{member}` must be a JSON pointer, such as /a/0; got {quoted(text)}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find(state: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(state, dict) and part in state:
            state = state[part]
        elif isinstance(state, list):
            state = state[_index(part, len(state) - 1)]
        else:
            raise Conflict(f"the patch names {_shown(path)}, which does not exist")
    return state


def _index(part: str, last: int) -> int:
    if _INDEX.match(part) is None:
        raise Conflict(f"the index of an array must be a whole number from 0; got {quoted(part)}")
    if int(part) > last:
        raise Conflict(f"the index of the array must be at most {last}; got {part[:20]}")
    return int(part)


def _add(state: Any, path: list[str], value: Any) -> tuple[Any, int]:
    if not path:
        return value, 0
    parent, moved = _find(state, path[:-1]), 0
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else _index(path[-1], len(parent))
        moved = len(parent) - at
        parent.insert(at, value)
    else:
        raise Conflict(f"`add` needs an object or array as parent; got {_shown(path)}")
    return state, moved >> _MOVED_SHIFT


def _put(state: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _find(state, path[:-1])
    if isinstance(parent, list):
        parent[_index(path[-1], len(parent) - 1)] = value
    else:
        parent[path[-1]] = value
    return state


def _remove(state: Any, path: list[str]) -> tuple[Any, int]:
    if not path:
        raise Conflict(
            "`remove` must name a part of the document; got the whole document: use DELETE"
        )
    _find(state, path)
    parent, moved = _find(state, path[:-1]), 0
    if isinstance(parent, list):
        at = _index(path[-1], len(parent) - 1)
        moved = len(parent) - at
        del parent[at]
    else:
        del parent[path[-1]]
    return state, moved >> _MOVED_SHIFT


def _move(state: Any, source: list[str], path: list[str]) -> tuple[Any, int]:
    if path[: len(source)] == source and path != source:
        raise Conflict(
            f"`move` must not move a value into itself; got {_shown(path)} inside {_shown(source)}"
        )
    value, removed = _find(state, source), 0
    if source:
        state, removed = _remove(state, source)
    state, added = _add(state, path, value)
    return state, removed + added


def _test(state: Any, path: list[str], value: Any) -> None:
    if not _is_same(_find(state, path), value):
        raise Conflict(f"`test` failed: the document has another value at {_shown(path)}")


def _is_same(one: Any, other: Any) -> bool:
    """Compare two values as JSON: 1.0 equals 1, and True does not, unlike in Python."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _shown(path: list[str]) -> str:
    return repr("/" + "/".join(path))[:200] if path else "the whole document"
