"""What each request needs: a level at a path, or less. Pure; the route table has the lines.

A line holds for its path and whatever is below; of several the longest path counts. What has no
line and is not a user's document needs `admin` where it is, so that a route without one is closed.
A line of `/core/bulk` needs what its own link does.
"""

from functools import lru_cache
from typing import NamedTuple

from docstore.access.grants import ROOT, Level
from docstore.http.methods import READS
from docstore.http.routes.route import (
    ADMIN,
    ANYBODY,
    DECLARED,
    INSIDE,
    READ,
    WRITE,
    Kind,
    Line,
)
from docstore.http.routes.table import LINES
from docstore.model.paths import SUFFIXES, canonical_link
from docstore.services.registry import FACTORIES, declared_path
from docstore.services.subscriptions import SUBSCRIPTIONS


class Need(NamedTuple):
    """A level at a path, or a kind that needs none there."""

    what: Level | Kind
    path: str


_DOCUMENTS = Line(READ, WRITE)
_OTHERS = Line(ADMIN, ADMIN)
_INSIDE = Line(INSIDE, INSIDE)
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
        if path in LINES:
            # The handlers of a subscription check it; those of its utilities do not.
            is_utility = last in SUFFIXES and path == SUBSCRIPTIONS
            return path, _OTHERS if is_utility else LINES[path]
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
