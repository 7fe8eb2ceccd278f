"""The permission that each request needs: a level at a path, or a weaker kind. Pure.

The route table defines the permissions at a path and below it; the longest matching path applies. A
path of the store that the table lacks needs `admin`, so that a forgotten route is closed. A line of
`/core/bulk` needs the permission of a request for its own link.
"""

from functools import lru_cache
from typing import NamedTuple

from docstore.access.grants import ROOT, AccessLevel
from docstore.http.methods import READS
from docstore.http.routes.route import (
    ADMIN,
    ANYBODY,
    DECLARED,
    INSIDE,
    READ,
    WRITE,
    Permissions,
    RouteKind,
)
from docstore.http.routes.table import PERMISSIONS
from docstore.model.paths import SUFFIXES, canonical_link
from docstore.services.registry import FACTORIES, declared_path
from docstore.services.subscriptions import SUBSCRIPTIONS


class Permission(NamedTuple):
    """A level at a path, or a kind of permission without a level."""

    what: AccessLevel | RouteKind
    path: str


_DOCUMENTS = Permissions(READ, WRITE)
_OTHERS = Permissions(ADMIN, ADMIN)
_INSIDE = Permissions(INSIDE, INSIDE)
NAMING = ("/core/groups", "/core/leases", "/core/spark/dead", "/core/spark/jobs")
"""Factories whose documents contain links of other documents: see `visible_links.py`."""
ENTRY = "/"
ADMINISTERED = frozenset({"config", "synchronization"})
"""Utilities that change a declaration, or start work on nodes."""
OF_A_PATH = "subscriptions"


@lru_cache(maxsize=4096)
def permission_for(method: str, path: str) -> Permission:
    """Return the permission that a request needs. path: canonical."""
    if path == ENTRY:
        return Permission(ANYBODY, path)
    where, table = permissions_at(path)
    above, _, last = path.rpartition("/")
    if method not in READS and last in ADMINISTERED:
        return Permission(ADMIN, declared_at(path) if table.changes is DECLARED else above or path)
    what = table.reads if method in READS else _to_change(method, table, is_here=path == where)
    if what is DECLARED:
        return Permission(READ if method in READS else ADMIN, declared_at(path))
    return Permission(what, table.at or path)


def permission_for_all(path: str) -> Permission:
    """Return the permission to read everything at a path and below. Raises BadRequest."""
    if path.startswith(NAMING):
        return Permission(READ, ROOT)
    if path in ("", ROOT):
        return Permission(READ, ROOT)
    own = permission_for("GET", canonical_link(path))
    return own if isinstance(own.what, AccessLevel) else Permission(READ, ROOT)


def permissions_at(path: str) -> tuple[str, Permissions]:
    """Return the longest path of the table above `path`, and its permissions; "" for documents.

    The subscriptions of a path are its utility; their handlers check permissions themselves.
    """
    last = path.rpartition("/")[2]
    if last == OF_A_PATH:
        return path, _INSIDE
    while path:
        if path in PERMISSIONS:
            # The handlers of a subscription check permissions themselves; those of its utilities do
            # not.
            is_utility = last in SUFFIXES and path == SUBSCRIPTIONS
            return path, _OTHERS if is_utility else PERMISSIONS[path]
        path = path.rpartition("/")[0]
    return "", _DOCUMENTS


def _to_change(method: str, table: Permissions, *, is_here: bool) -> AccessLevel | RouteKind:
    if method == "POST" and is_here and table.makes is not None:
        return table.makes
    if method == "POST" and not is_here and table.posts is not None:
        return table.posts
    return table.changes


def declared_at(link: str) -> str:
    """Return the path of the factory whose declaration or utility is at a link."""
    name = link.removeprefix(FACTORIES).partition("/")[2].partition("/")[0]
    return declared_path(name) if name else link
