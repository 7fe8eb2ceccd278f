"""Parameters of URLs, and members of commands: what there is not is refused, never passed over.

Passed over, `?documentversion=3` would be answered with the newest version, as if it were the past.
"""

from collections.abc import Collection, Mapping
from typing import Any

from aiohttp import web

from docstore.errors import BadRequest

SELECTING = ("documentVersion", "at")
"""Parameters of a GET of a document: which version is wanted."""
WORDS = {"": True, "true": True, "false": False}
"""`?expand` alone says yes."""


def check_parameters(request: web.BaseRequest, known: Collection[str] = ()) -> None:
    """Refuse a parameter that is none of `known`, and one that is there twice: BadRequest."""
    if "?" not in request.raw_path:
        return
    query = request.rel_url.query
    for name in query:
        if name not in known:
            there = f", but {', '.join(sorted(known))}" if known else ""
            raise BadRequest(f"there is no parameter {name[:40]!r} here{there}")
        if len(query.getall(name)) > 1:
            raise BadRequest(f"{name} is there twice")


def check_selection(request: web.BaseRequest) -> None:
    """Refuse parameters that a request for a document does not have: BadRequest."""
    check_parameters(request, SELECTING if request.method in ("GET", "HEAD") else ())


def check_members(asked: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse a member of a command that is neither its kind nor one of `known`: BadRequest."""
    if unknown := sorted(asked.keys() - {"kind", *known}):
        raise BadRequest(f"a {asked['kind']} has no member {unknown[0][:40]!r}")


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return what is said by a parameter that is true or false. Raises BadRequest."""
    if name not in query:
        return False
    if query[name] not in WORDS:
        raise BadRequest(f"{name} is true or false")
    return WORDS[query[name]]
