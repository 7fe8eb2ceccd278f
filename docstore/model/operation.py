"""Operation and answer: a client's request about one document, and the result.

An operation is made by a face (HTTP) on the entry node; an answer is made by the owner, and only
rendered by the face. Both have a form of plain values, in which they go into a frame between
nodes. Bytes stay bytes: a document's state is never parsed on the way through.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from docstore.model.document import Row
from docstore.model.service import LINEARIZABLE, Level

Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "RESOLVE", "BATCH"]
"""RESOLVE ends a conflict (levels 1 and 2); BATCH is several updates as one, see `batch.py`."""

Media = Literal["", "handler", "merge", "json"]
"""How a PATCH is meant: by the service's handler, as RFC 7396 or as RFC 6902 says."""

Current = tuple[Literal["current"]]
AtVersion = tuple[Literal["version"], int]
AtInstant = tuple[Literal["at"], int]
"""The version that was current then, in microseconds since 1970."""
History = tuple[Literal["history"], int | None, int]
"""A page of versions before one, None for the newest; newest first."""
Conflicts = tuple[Literal["conflicts"]]
"""The branches that lost (levels 1 and 2)."""
Select = Current | AtVersion | AtInstant | History | Conflicts
"""Kind of a GET: the first member names it, and it is packed as it is."""

CURRENT: Final[Current] = ("current",)
CONFLICTS: Final[Conflicts] = ("conflicts",)

ANY_TOMBSTONE = 1 << 62
"""No document has so great a version."""


RUN_BEGINS = "\x1f"
"""Separates a bulk job's name from that of its run. All runs of a job have one quota."""


class Conditions(NamedTuple):  # Seam.
    """Conditions on the current state for an update to be applied (RFC 9110, section 13).

    match: None, "*" (must exist) or pairs [epoch, version] of which one must be current.
    none_match: None, "*" (must not exist) or pairs of which none may be current.
    version: the version the body says it is based on (strict update checking), or None.
    """

    match: str | Sequence[Sequence[int]] | None = None
    none_match: str | Sequence[Sequence[int]] | None = None
    version: int | None = None


@dataclass(slots=True, kw_only=True)
class Operation:
    """One request about one document. Immutable.

    body: the author's JSON object (POST, PUT) or the patch document (PATCH), strict JSON.
    signature: of `body`, when it becomes the state as it is; b"" lets the owner compute it.
    conditions: None when there are none.
    recreate_below: a POST may go on from a tombstone whose version is smaller; None for from none.
    creates: a PUT may create the document.
    key: the client's Idempotency-Key, "" for none.
    replicas: durable copies to wait for before success; 0 leaves it at the quorum; -1 all.
    level: of the document's factory.
    writer: of a bulk job: (job, batch, sequence), see `documents/jobs.py`; () for everybody else.
    only_epoch: of the only term that may carry it out, 0 for any. For an update whose reason
    is in its maker's memory and not in the document: a successor finds the document unchanged.
    fence: (scope, token), see `fences.py`; () for none.
    trace: the `traceparent` of the request that it comes from, "" for none. Nothing rests on it.
    principal: who wants an update, "" where nobody is asked. Each version says it.
    """

    verb: Verb
    link: str
    body: bytes = b""
    media: Media = ""
    signature: bytes = b""
    conditions: Conditions | None = None
    recreate_below: int | None = None
    creates: bool = False
    key: str = ""
    replicas: int = 0
    select: Select = CURRENT
    level: Level = LINEARIZABLE
    writer: Sequence[Any] = ()
    only_epoch: int = 0
    fence: Sequence[Any] = ()
    trace: str = ""
    principal: str = ""

    @property
    def is_read(self) -> bool:
        """Say whether this leaves everything as it is."""
        return self.verb == "GET"

    def packed(self) -> tuple[Any, ...]:
        """Return it as plain values, as `operation_from_wire` takes it."""
        return (
            self.verb, self.link, self.body, self.media, self.signature, self.conditions,
            self.recreate_below, self.creates, self.key, self.replicas, self.select, self.level,
            self.writer, self.only_epoch, self.fence, self.trace, self.principal,
        )  # fmt: skip


class Answer(NamedTuple):
    """Answer of the owner or, if there is none, of the entry node.

    status: as in HTTP. code: a stable word for programs; on success "", or "repeated".
    unknown: True if the update may have happened.
    row: the version that the answer speaks of; on a refusal by state, the current one if any.
    rows: a page of history, newest first; or the branches that lost; or what a batch has made,
    without states.
    replicas: how many durable copies there were when this was decided.
    owner: the node that answered as owner, "" if none did.
    conflicts: branches of the document that lost and are kept (levels 1 and 2).
    statuses: of a batch, what became of each of its updates; where it is refused, for the sake of
    one of them, the status of that one, and 0 of the others.
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
    statuses: Sequence[int] = ()

    @property
    def is_success(self) -> bool:
        """Say whether the request did what it asked for."""
        return self.status < 300


def operation_from_wire(packed: Sequence[Any]) -> Operation:
    """Return the operation that a peer packed; what it has added is ignored."""
    members = dict(zip(Operation.__slots__, packed, strict=False))
    if members["conditions"] is not None:
        members["conditions"] = Conditions(*members["conditions"])
    members["select"] = tuple(members["select"])
    return Operation(**members)


def answer_from_wire(fields: Sequence[Any]) -> Answer:
    """Return the answer that a peer packed as a plain list, with its rows as rows."""
    answer = Answer(*fields[: len(Answer._fields)])
    if answer.row is not None:
        answer = answer._replace(row=Row._make(answer.row[: len(Row._fields)]))
    if answer.rows is not None:
        answer = answer._replace(rows=[Row._make(row[: len(Row._fields)]) for row in answer.rows])
    return answer
