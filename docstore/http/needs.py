"""What each request needs, in one table: where, and which level there. Pure.

A route is a method at a canonical path, and whatever is below that; of several that fit the longest
path counts. What stands in no line and is not a user's document needs `admin` where it is, so that
a route that somebody forgets here is closed. A line of `/core/bulk` needs what its own link does.

Four kinds need something else than a level at their path:

    OPEN      nothing, not even a token: whether this process lives, the files of the console
    ANYBODY   a token: where things are, so that clients know whom to ask
    INSIDE    what is named in the query, the body or the lines decides; whoever reads those asks
    DECLARED  the path of the factory that is declared there
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from docstore.access.grants import ROOT, Level
from docstore.model.paths import SUFFIXES, canonical_link
from docstore.services.registry import FACTORIES, FEED_KEYS, declared_path
from docstore.services.subscriptions import SUBSCRIPTIONS

READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Kind(Enum):
    """Of needs that are no level at the path itself."""

    OPEN = auto()
    ANYBODY = auto()
    INSIDE = auto()
    DECLARED = auto()


OPEN, ANYBODY, INSIDE, DECLARED = Kind
READ, WRITE, ADMIN = Level


class Need(NamedTuple):
    """A level at a path, or a kind that needs none there."""

    what: Level | Kind
    path: str


@dataclass(frozen=True, slots=True)
class Line:
    """reads: GET, HEAD and OPTIONS; changes: all other methods but those that have a need below."""

    reads: Level | Kind
    changes: Level | Kind = ADMIN
    posts: Level | None = None
    """POST below the path."""
    makes: Kind | None = None
    """POST at the very path."""
    at: str = ""
    """Where the level is needed, if not at the path of the request."""


_DOCUMENTS = Line(READ, WRITE)
_OTHERS = Line(ADMIN, ADMIN)
_INSIDE = Line(INSIDE, INSIDE)

TABLE: Mapping[str, Line] = {
    "/core": _OTHERS,
    "/mgmt": _OTHERS,
    # A node and its group.
    "/health": _OTHERS,
    "/health/live": Line(OPEN),
    "/health/ready": Line(OPEN),
    "/metrics": Line(READ),
    "/core/management": Line(READ),
    "/core/management/trace": Line(ADMIN),
    "/core/node-groups": Line(ANYBODY),
    "/core/node-selectors": Line(ANYBODY),
    "/core/node-selectors/default/forwarding": Line(INSIDE),
    "/core/node-selectors/default-1x/forwarding": Line(INSIDE),
    "/core/node-selectors/default-3x/forwarding": Line(INSIDE),
    "/core/openapi.json": Line(ANYBODY),
    # Of oneself, and of others for who runs the group.
    "/core/access": Line(ANYBODY),
    "/core/access/users": Line(INSIDE),
    # Files that say nothing of anybody, and ask for a token by themselves.
    "/core/ui": Line(OPEN),
    "/core/docs": Line(OPEN),
    # Documents, many at a time.
    "/core/examples": _DOCUMENTS,
    FACTORIES: Line(DECLARED, DECLARED, makes=INSIDE),
    FEED_KEYS: _OTHERS,
    "/core/document-index": Line(INSIDE),
    "/core/bulk": Line(ANYBODY, INSIDE),
    "/core/changes": Line(INSIDE, INSIDE),
    "/core/query-tasks": Line(INSIDE, INSIDE),
    "/core/snapshots": _DOCUMENTS,
    SUBSCRIPTIONS: _INSIDE,
    "/core/spark/plan": Line(INSIDE),
    "/core/spark/layout": Line(ANYBODY),
    "/core/spark/high": Line(INSIDE),
    "/core/spark/scan": Line(ANYBODY, INSIDE),
    "/core/spark/changes": Line(ANYBODY, INSIDE),
    "/core/backup/rows": Line(ADMIN, READ, at="/"),
    "/core/spark/staging": Line(READ, WRITE, at="/core/spark/staging"),
    "/core/spark/jobs": _DOCUMENTS,
    "/core/spark/dead": _DOCUMENTS,
    "/core/spark/quotas": Line(READ, ADMIN),
    # Streams: who writes records need not be able to delete the topic.
    "/core/streams": Line(READ, ADMIN, posts=WRITE, makes=INSIDE),
    "/core/producers": Line(READ, WRITE, makes=INSIDE),
    # What lives while somebody is heard.
    "/core/leases": _DOCUMENTS,
    "/core/leases/keep-alive": Line(READ, WRITE, at="/core/leases"),
    "/core/elections": _DOCUMENTS,
    "/core/locks": _DOCUMENTS,
    "/core/groups": _DOCUMENTS,
    "/core/roles": _DOCUMENTS,
}  # fmt: skip
NAMING = ("/core/groups", "/core/leases", "/core/spark/dead", "/core/spark/jobs")
"""Factories whose documents name documents of others: see `shown.py`."""
ENTRY = "/"
ADMINISTERED = frozenset({"config", "synchronization"})
"""Utilities that change what is declared, or have nodes work: as the pages do that they show."""
OF_A_PATH = "subscriptions"


@lru_cache(maxsize=4096)
def need_of(method: str, path: str) -> Need:
    """Return what a request needs. path: canonical."""
    if path == ENTRY:
        return Need(ANYBODY, path)
    where, line = line_of(path)
    above, _, last = path.rpartition("/")
    if method not in READS and last in ADMINISTERED:
        return Need(ADMIN, declared_at(path) if line.changes is DECLARED else above or path)
    what = line.reads if method in READS else _to_change(method, line, is_here=path == where)
    if what is DECLARED:
        return Need(READ if method in READS else ADMIN, declared_at(path))
    return Need(what, line.at or path)


def need_of_all(path: str) -> Need:
    """Return what reading all at a path and below needs. Raises BadRequest for what is no path."""
    if path.startswith(NAMING):
        return Need(READ, ROOT)
    if path not in ("", ROOT) and isinstance(need_of("GET", canonical_link(path)).what, Level):
        return need_of("GET", path)
    return Need(READ, ROOT)


def line_of(path: str) -> tuple[str, Line]:
    """Return the path in the table that another one falls under, and its line; "" for documents.

    The subscriptions of a path are its utility, and need what those in the table do.
    """
    last = path.rpartition("/")[2]
    if last == OF_A_PATH:
        return path, _INSIDE
    while path:
        if path in TABLE:
            # Whoever looks inside of a subscription does not answer for its utilities.
            is_utility = last in SUFFIXES and TABLE[path] is _INSIDE
            return path, _OTHERS if is_utility else TABLE[path]
        path = path.rpartition("/")[0]
    return "", _DOCUMENTS


def _to_change(method: str, line: Line, *, is_here: bool) -> Level | Kind:
    if method == "POST" and is_here and line.makes is not None:
        return line.makes
    if method == "POST" and not is_here and line.posts is not None:
        return line.posts
    return line.changes


def declared_at(link: str) -> str:
    """Return the path of the factory that a declaration's link stands for."""
    name = link.removeprefix(FACTORIES).partition("/")[2].partition("/")[0]
    return declared_path(name) if name else link
