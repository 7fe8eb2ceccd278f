"""Headers that the sender of an update relies on: refused wherever they would have no effect.

Which operation heeds which is said once, where the interface is described (`openapi/`). Documents
heed all but a producer's number, and judge them by their level (`documents.py`).
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from aiohttp.hdrs import IF_MATCH, IF_NONE_MATCH

from docstore.errors import BadRequest
from docstore.http.attaching import HEADER as LEASE
from docstore.http.headers import FENCE, IDEMPOTENCY_KEY, QUORUM, Head
from docstore.http.openapi.document import PARTS
from docstore.http.openapi.of_documents import utilities
from docstore.http.openapi.operation import Op
from docstore.model.paths import SUFFIXES

PRODUCER, STAGED = "Docstore-Producer", "/core/spark/staging/"
RELIED_ON = (IF_MATCH, IF_NONE_MATCH, FENCE, LEASE, QUORUM, IDEMPOTENCY_KEY, PRODUCER)
READS = frozenset({"GET", "HEAD", "OPTIONS"})
_LINES: Mapping[str, str] = {
    IDEMPOTENCY_KEY: "a line has its key",
    IF_MATCH: "a line has ifVersion and mustExist",
    IF_NONE_MATCH: "a line with op POST makes only what is not there, another has its ifVersion",
    QUORUM: "lines are answered when a quorum has them",
}
INSTEAD: Mapping[str, Mapping[str, str]] = {
    "/core/bulk": _LINES,
    STAGED: _LINES,
    "/core/streams": {
        IDEMPOTENCY_KEY: "records are numbered by Docstore-Producer",
        QUORUM: "a topic has its minInSync",
        FENCE: "producers of records have epochs",
    },
}
"""Where a path begins so -> what there is in place of a header."""

Heeded = Mapping[str, frozenset[str]]
"""Method -> the headers that it heeds."""


def refuse_what_has_no_effect(request: Head, path: str) -> None:
    """Refuse a header of an update that has no effect at its path. Raises BadRequest."""
    if request.method in READS:
        return
    said = [name for name in RELIED_ON if name in request.headers]
    if said:
        heeded = _heeded(request.method, path)
        refuse_all(request, f"{request.method} of {path[:100]}", heeded=heeded)


def refuse_all(request: Head, what: str, *, heeded: frozenset[str] = frozenset()) -> None:
    """Refuse each header of `RELIED_ON` that is not heeded. what: the request, for the error."""
    for name in RELIED_ON:
        if name in request.headers and name not in heeded:
            path = request.raw_path
            begins = next((each for each in INSTEAD if path.startswith(each)), "")
            instead = INSTEAD.get(begins, {}).get(name, "leave it out")
            raise BadRequest(f"{name} has no effect with {what}: {instead}")


def _heeded(method: str, path: str) -> frozenset[str]:
    if path.startswith(STAGED):  # Names of parts may have slashes.
        return frozenset()
    last = path.rpartition("/")[2]
    if last in SUFFIXES:
        return _utilities().get(last, {}).get(method, _OF_DOCUMENTS)
    if path.startswith("/core/"):
        for pattern, methods in _pages():
            if method in methods and pattern.fullmatch(path):
                return methods[method]
    return _OF_DOCUMENTS


_OF_DOCUMENTS = frozenset(RELIED_ON) - {PRODUCER}


@lru_cache(maxsize=1)
def _pages() -> list[tuple[re.Pattern[str], Heeded]]:
    """Return the described paths, as patterns; those with the fewest places to fill first."""
    paths = {path: ops for part in PARTS for path, ops in part.paths.items()}
    return [
        (re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))), dict(_methods(paths[path])))
        for path in sorted(paths, key=lambda path: path.count("{"))
    ]


@lru_cache(maxsize=1)
def _utilities() -> Mapping[str, Heeded]:
    """Return what utilities heed, whatever they are of."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for path, operations in utilities("", "/{id}", level=1).items():
        found.setdefault(path.rpartition("/")[2], {}).update(_methods(operations))
    return found


def _methods(operations: Mapping[str, Op]) -> Iterator[tuple[str, frozenset[str]]]:
    for method, operation in operations.items():
        yield method, frozenset(operation.headers)
