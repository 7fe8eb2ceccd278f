"""What a client asks of one document, and what it is answered: the two values that travel.

Both are tuples of plain values, so that they go into a frame between nodes as they are. An
operation is made by a face (HTTP) on the entry node; an answer is made by the owner, and only
rendered by the face. Bytes stay bytes: a document's state is never parsed on the way through.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from docstore.model.document import Row

CURRENT = ("current",)
"""Select the document as it is. Others: ("version", n), ("at", us), ("history", before, limit),
and at levels 1 and 2 ("conflicts",)."""


class Conditions(NamedTuple):  # Seam.
    """What must hold of the current state for an update to be applied (RFC 9110, section 13).

    match: None, "*" (must exist) or pairs [epoch, version] of which one must be current.
    none_match: None, "*" (must not exist) or pairs of which none may be current.
    version: the version the body says it is based on (strict update checking), or None.
    """

    match: str | Sequence[Sequence[int]] | None = None
    none_match: str | Sequence[Sequence[int]] | None = None
    version: int | None = None


class Operation(NamedTuple):
    """One request about one document.

    verb: "GET", "POST", "PUT", "PATCH", "DELETE", or "RESOLVE" for a conflict (levels 1 and 2).
    body: the author's JSON object (POST, PUT) or the patch document (PATCH), strict JSON.
    media: how a PATCH is meant: "handler", "merge" (RFC 7396) or "json" (RFC 6902).
    signature: of `body`, when it becomes the state as it is; b"" lets the owner compute it.
    conditions: None when there are none.
    recreate: a POST may go on from a tombstone; an int: only if greater than its version.
    creates: a PUT may create the document.
    key: the client's Idempotency-Key, "" for none.
    replicas: durable copies to wait for before success; 0 leaves it at the quorum; -1 all.
    select: what a GET wants, see CURRENT.
    level: of the document's factory, 1 to 3.
    writer: of a bulk job: (job, batch, sequence), see `protocol/jobs.py`; () for everybody else.
    reign: the epoch of the only reign that may carry it out, 0 for any. For an update whose reason
    is in its maker's memory and not in the document: a successor finds the document unchanged.
    fence: (scope, token), see `fences.py`; () for none.
    trace: the `traceparent` of the request that it comes from, "" for none. Nothing rests on it.
    """

    verb: str
    link: str
    body: bytes = b""
    media: str = ""
    signature: bytes = b""
    conditions: Conditions | None = None
    recreate: bool | int = False
    creates: bool = False
    key: str = ""
    replicas: int = 0
    select: Sequence[Any] = CURRENT
    level: int = 3
    writer: Sequence[Any] = ()
    reign: int = 0
    fence: Sequence[Any] = ()
    trace: str = ""

    @property
    def is_read(self) -> bool:
        """Say whether this leaves everything as it is."""
        return self.verb == "GET"


class Answer(NamedTuple):
    """What the owner (or, if there is none, the entry node) says.

    status: as in HTTP. code: a stable word for programs; on success "", or "repeated".
    unknown: True if the update may have happened.
    row: the version that the answer speaks of; on a refusal by state, the current one if any.
    rows: a page of history, newest first; or the branches that lost.
    replicas: how many durable copies there were when this was decided.
    owner: the node that answered as owner, "" if none did.
    conflicts: branches of the document that lost and are kept (levels 1 and 2).
    """

    status: int
    code: str = ""
    detail: str = ""
    unknown: bool = False
    row: Row | None = None
    rows: Sequence[Row] | None = None
    replicas: int = 0
    owner: str = ""
    epoch: int = 0
    conflicts: int = 0

    @property
    def is_success(self) -> bool:
        """Say whether the request did what it asked for."""
        return self.status < 300


def operation_from_wire(fields: Sequence[Any]) -> Operation:
    """Return the operation that a peer packed as a plain list; what it has added is ignored."""
    operation = Operation(*fields[: len(Operation._fields)])
    if operation.conditions is None:
        return operation
    return operation._replace(conditions=Conditions(*operation.conditions))


def answer_from_wire(fields: Sequence[Any]) -> Answer:
    """Return the answer that a peer packed as a plain list, with its rows as rows."""
    answer = Answer(*fields[: len(Answer._fields)])
    if answer.row is not None:
        answer = answer._replace(row=Row._make(answer.row[: len(Row._fields)]))
    if answer.rows is not None:
        answer = answer._replace(rows=[Row._make(row[: len(Row._fields)]) for row in answer.rows])
    return answer
