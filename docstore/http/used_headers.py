"""Headers that the sender of an update relies on: refused wherever they would have no effect.

The route table says which operation uses which of them (`routes/`). Documents use all but a
producer's number, and check them by the level of the document (`documents.py`).
"""

from collections.abc import Mapping

from aiohttp.hdrs import IF_MATCH, IF_NONE_MATCH

from docstore.errors import BadRequest
from docstore.http.attaching import HEADER as LEASE
from docstore.http.headers import FENCE, IDEMPOTENCY_KEY, QUORUM, RequestHead

PRODUCER = "Docstore-Producer"
RELIED_ON = (IF_MATCH, IF_NONE_MATCH, FENCE, LEASE, QUORUM, IDEMPOTENCY_KEY, PRODUCER)
OF_DOCUMENTS = frozenset(RELIED_ON) - {PRODUCER}
"""Headers that an update of a document uses."""
_LINES: Mapping[str, str] = {
    IDEMPOTENCY_KEY: "a line has its key",
    IF_MATCH: "a line has ifVersion and mustExist",
    IF_NONE_MATCH: "a line with op POST makes only what is not there, another has its ifVersion",
    QUORUM: "lines are answered when a quorum has them",
}
INSTEAD: Mapping[str, Mapping[str, str]] = {
    "/core/bulk": _LINES,
    "/core/spark/staging/": _LINES,
    "/core/streams": {
        IDEMPOTENCY_KEY: "records are numbered by Docstore-Producer",
        QUORUM: "a topic has its minInSync",
        FENCE: "producers of records have epochs",
    },
}
"""Prefix of a path -> header -> hint for the error: what to use in place of the header."""


def refuse_all(request: RequestHead, what: str, *, used: frozenset[str] = frozenset()) -> None:
    """Refuse each header of `RELIED_ON` outside of `used`. what: the request, for the error."""
    for name in RELIED_ON:
        if name in request.headers and name not in used:
            path = request.raw_path
            begins = next((each for each in INSTEAD if path.startswith(each)), "")
            instead = INSTEAD.get(begins, {}).get(name, "leave it out")
            raise BadRequest(f"{name} has no effect with {what}: {instead}")
