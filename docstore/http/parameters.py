"""Parameters of URLs, and members of commands: an unknown one is refused, never ignored.

If it were ignored, `?documentversion=3` would return the newest version as if it were version 3.
"""

from collections.abc import Collection, Mapping
from typing import Any

from aiohttp import web

from docstore.errors import BadRequest
from docstore.model.settings import quoted

SELECTING = ("documentVersion", "at")
"""Parameters of a GET of a document that select a version."""
WORDS = {"": True, "true": True, "false": False}
"""Value of a flag -> its meaning; `?expand` alone means true."""


def check_parameters(
    request: web.BaseRequest, known: Collection[str] = (), repeatable: Collection[str] = ()
) -> None:
    """Refuse a parameter outside of `known`, and one repeated that must not be: BadRequest."""
    if "?" not in request.raw_path:
        return
    query = request.rel_url.query
    for name in query:
        if name not in known:
            there = f", but {', '.join(sorted(known))}" if known else ""
            raise BadRequest(f"there is no parameter {quoted(name)} here{there}")
        if name not in repeatable and len(query.getall(name)) > 1:
            raise BadRequest(f"parameter {name} must be given once; got it twice")


def check_selection(request: web.BaseRequest) -> None:
    """Refuse parameters that a GET of a document does not have: BadRequest."""
    check_parameters(request, SELECTING if request.method in ("GET", "HEAD") else ())


def check_members(asked: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse a member of a command other than its kind and those in `known`: BadRequest."""
    if unknown := sorted(asked.keys() - {"kind", *known}):
        raise BadRequest(f"a {asked['kind']} has no member {quoted(unknown[0])}")


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return the value of a parameter that is true or false. Raises BadRequest."""
    if name not in query:
        return False
    if query[name] not in WORDS:
        raise BadRequest(f"{name} must be true or false; got {quoted(query[name])}")
    return WORDS[query[name]]
