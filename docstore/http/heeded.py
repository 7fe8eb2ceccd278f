"""Headers that the sender of an update relies on: refused wherever they would have no effect.

Which operation heeds which stands in the route table (`routes/`). Documents
heed all but a producer's number, and judge them by their level (`documents.py`).
"""

from collections.abc import Mapping

from aiohttp.hdrs import IF_MATCH, IF_NONE_MATCH

from docstore.errors import BadRequest
from docstore.http.attaching import HEADER as LEASE
from docstore.http.headers import FENCE, IDEMPOTENCY_KEY, QUORUM, RequestHead

PRODUCER = "Docstore-Producer"
RELIED_ON = (IF_MATCH, IF_NONE_MATCH, FENCE, LEASE, QUORUM, IDEMPOTENCY_KEY, PRODUCER)
OF_DOCUMENTS = frozenset(RELIED_ON) - {PRODUCER}
"""Those that an update of a document heeds."""
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
"""Where a path begins so -> what there is in place of a header."""


def refuse_all(request: RequestHead, what: str, *, heeded: frozenset[str] = frozenset()) -> None:
    """Refuse each header of `RELIED_ON` that is not heeded. what: the request, for the error."""
    for name in RELIED_ON:
        if name in request.headers and name not in heeded:
            path = request.raw_path
            begins = next((each for each in INSTEAD if path.startswith(each)), "")
            instead = INSTEAD.get(begins, {}).get(name, "leave it out")
            raise BadRequest(f"{name} has no effect with {what}: {instead}")
