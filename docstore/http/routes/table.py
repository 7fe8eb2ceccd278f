"""All routes of a node, and the search for the route of a path."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from docstore.errors import DocstoreError, NotFound
from docstore.http.console.files import NAMES as CONSOLE_FILES
from docstore.http.headers import RequestHead
from docstore.http.routes.documents import FACTORIES_OF_THE_STORE, MANY, UTILITIES
from docstore.http.routes.nodes import AREAS, CHANGES, NODES, SCANS
from docstore.http.routes.owners import OWNERS
from docstore.http.routes.route import About, Op, Ops, Permissions, Route
from docstore.http.routes.streams import STREAMS
from docstore.http.selectors import NAMES as SELECTORS
from docstore.http.staging import STAGING
from docstore.http.used_headers import OF_DOCUMENTS, RELIED_ON, refuse_all
from docstore.model.paths import RESERVED, SUFFIXES
from docstore.model.principals import USERS
from docstore.streams import replica_set
from docstore.streams.topic import check_name

PARTS: Sequence[About] = (NODES, MANY, CHANGES, STREAMS, OWNERS, SCANS)
ROUTES: Sequence[Route] = (
    *AREAS,
    *FACTORIES_OF_THE_STORE,
    *(route for part in PARTS for route in part.routes),
)
PLACES: Mapping[str, Sequence[str]] = {"file": CONSOLE_FILES, "selector": SELECTORS}
"""Placeholders that stand for a fixed set of values only."""
_OWN = ("/core/", *(f"/{name}" for name in RESERVED if name != "core"))


def _paths_of(path: str) -> Sequence[str]:
    """Return a path with each value of a placeholder that has a fixed set of values."""
    for name, values in PLACES.items():
        if f"{{{name}}}" in path:
            return [path.replace(f"{{{name}}}", value) for value in values]
    return [path]


BY_PATH: Mapping[str, Route] = {
    path: route for route in ROUTES if route.pages for path in _paths_of(route.path)
}
PERMISSIONS: Mapping[str, Permissions] = {
    path.partition("/{")[0]: route.permissions
    for route in ROUTES
    if route.permissions
    for path in _paths_of(route.path)
}
"""Path -> permissions at that path and below it."""
_FACTORIES = {route.path for route in ROUTES if not route.pages}
"""Paths of the store's own factories."""
_WITH_PLACES: Sequence[tuple[Sequence[str], Route]] = [
    (path.split("/"), BY_PATH[path])
    for path in sorted(BY_PATH, key=lambda path: path.count("{"))
    if "{" in path and not BY_PATH[path].is_literal
]


def find(path: str) -> Route | None:
    """Return the route at a canonical path; None where documents of any factory are served.

    Raises BadRequest or NotFound for a path below the topics that cannot exist.
    """
    return _find(path) if path.startswith(_OWN) else BY_PATH.get(path)


@lru_cache(maxsize=4096)
def _find(path: str) -> Route | None:
    if path in BY_PATH:
        return BY_PATH[path]
    segments = path.split("/")
    if segments[-1] in SUFFIXES and not path.startswith(f"{USERS}/"):
        return None
    is_of_a_topic = path.startswith(f"{replica_set.STREAMS}/")
    if is_of_a_topic:
        check_name(segments[3])
    for pattern, route in _WITH_PLACES:
        if len(pattern) == len(segments) and all(
            each == segment or each.startswith("{")
            for each, segment in zip(pattern, segments, strict=True)
        ):
            return route
    if is_of_a_topic:
        raise NotFound(f"there is nothing at {path}")
    return None


def template_of(path: str) -> str:
    """Return the path of a route, or `{factory}/{document}`, with the name of a utility.

    Paths of one template have the same operations; their number is bounded.
    """
    above, _, last = path.rpartition("/")
    if last in SUFFIXES and not path.startswith(f"{USERS}/"):
        return f"{template_of(above)}/{last}"
    try:
        route = find(path)
    except DocstoreError:
        return ""
    if route is not None or path in _FACTORIES:
        return route.path if route is not None else path
    if above in _FACTORIES:
        return f"{above}/{{document}}"
    return "{factory}" if path.count("/") < 2 else "{factory}/{document}"


def refuse_what_has_no_effect(request: RequestHead, path: str) -> None:
    """Refuse a header that an update relies on and that has no effect at its path: BadRequest."""
    if any(name in request.headers for name in RELIED_ON):
        method = request.method
        refuse_all(request, f"{method} of {path[:100]}", used=_used(method, path))


def _used(method: str, path: str) -> frozenset[str]:
    if path.startswith(f"{STAGING}/"):  # Names of parts may contain slashes.
        return frozenset()
    op = op_at(method, path)
    return OF_DOCUMENTS if op is None else frozenset(op.headers)


def op_at(method: str, path: str) -> Op | None:
    """Return the operation of a method at a canonical path; None where documents are served.

    Raises BadRequest or NotFound as `find` does.
    """
    last = path.rpartition("/")[2]
    ops: Sequence[Ops] = ()
    if last in UTILITIES:
        ops = (UTILITIES[last].of_factory, UTILITIES[last].of_document)
    elif route := find(path):
        ops = (route.ops,)
    return next((each[method] for each in ops if method in each), None)
