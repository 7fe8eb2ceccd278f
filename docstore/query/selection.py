"""Selection of members of a document, in the language of OData's `$select`. Pure.

    name,address/city,documentVersion

A nested member stays nested in the answer. A member that a document lacks is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from docstore.query.tokens import Tokens

MEMBERS_MAX = 64

Path = tuple[str, ...]
Selection = Sequence[Path]


def parse_selection(text: str) -> Selection:
    """Parse a selection: the paths, [] for all members. Raises BadRequest with the position."""
    tokens = Tokens(text, "$select")
    if tokens.sign("*"):
        tokens.expect_end("nothing")
    return tokens.listed(_path, MEMBERS_MAX, "a comma")


def _path(tokens: Tokens) -> Path:
    path = [tokens.name()]
    while tokens.sign("/") or tokens.sign("."):
        path.append(tokens.name())
    return tuple(path)


def selected(document: Mapping[str, Any], selection: Selection) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in selection:
        value: Any = document
        for name in path:
            if not isinstance(value, Mapping) or name not in value:
                break
            value = value[name]
        else:
            _put(found, path, value)
    return found


def _put(found: dict[str, Any], path: Path, value: Any) -> None:
    *outer, name = path
    for each in outer:
        found = found.setdefault(each, {})
    found[name] = value
