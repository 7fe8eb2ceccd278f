"""Operation and answer: a client's request about one document, and the result.

The HTTP server of the entry node makes the operation; the owner makes the answer. Both have a form
of plain values for frames between nodes. A document's state stays bytes on the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from docstore.model.document import Row
from docstore.model.service import LINEARIZABLE, Level

Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "RESOLVE", "BATCH"]
"""Verb of an operation. RESOLVE ends a conflict (levels 1 and 2); BATCH: see `batch.py`."""

Media = Literal["", "handler", "merge", "json", "timer", "settle"]
"""Format of a PATCH: for the service's handler, RFC 7396 (merge), RFC 6902 (json), or a step of an
agenda (`agenda.py`), which only nodes make."""

Current = tuple[Literal["current"]]
AtVersion = tuple[Literal["version"], int]
AtInstant = tuple[Literal["at"], int]
"""The version that was current at a time, in microseconds since 1970."""
History = tuple[Literal["history"], int | None, int]
"""Page of older versions: (version to begin before, None for the newest; number), newest first."""
Conflicts = tuple[Literal["conflicts"]]
"""The losing branches (levels 1 and 2)."""
Select = Current | AtVersion | AtInstant | History | Conflicts
"""Selection of a GET; its first member names the kind."""

CURRENT: Final[Current] = ("current",)
CONFLICTS: Final[Conflicts] = ("conflicts",)

ANY_TOMBSTONE = 1 << 62
"""Version greater than that of any document."""


NOT_GIVEN = "not-given"
"""Code of an answer: the document that an update depends on would have to change first."""

RUN_BEGINS = "\x1f"
"""Separator between the names of a bulk job and its run. All runs of a job share a quota."""


class Conditions(NamedTuple):  # Tests replace this.
    """Conditions on the current state for an update to be applied (RFC 9110, section 13).

    match: None, "*" (must exist) or pairs [epoch, version] of which one must be current.
    none_match: None, "*" (must not exist) or pairs of which none may be current.
    version: version on which the body is based (strict update checking), or None.
    """

    match: str | Sequence[Sequence[int]] | None = None
    none_match: str | Sequence[Sequence[int]] | None = None
    version: int | None = None


@dataclass(slots=True, kw_only=True)
class Operation:
    """One request about one document. Immutable.

    body: the author's JSON object (POST, PUT) or the patch document (PATCH), strict JSON.
    signature: of `body`, if that becomes the state unchanged; b"" lets the owner compute it.
    recreate_below: a POST may replace a tombstone with a smaller version; None for none.
    creates: whether a PUT may create the document.
    key: the client's Idempotency-Key, "" for none.
    replicas: durable copies to wait for before success; 0 for the quorum, -1 for all.
    level: of the document's factory.
    writer: (job, batch, sequence) of a bulk job's write, see `documents/jobs.py`; () otherwise.
    only_epoch: epoch of the only term that may execute it, 0 for any. For an update whose reason is
      only in its node's memory: a later owner would find the document unchanged and apply it.
    fence: (scope, token), see `fences.py`; () for none.
    trace: the `traceparent` of the request, "" for none; only for tracing.
    principal: user that sent it, "" where nodes authenticate no users.
    given: (link, change) of a PATCH for the handler of another document in the same slot, () for
      none. The update is executed only if this PATCH would be accepted and change nothing.
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
    given: Sequence[Any] = ()

    @property
    def is_read(self) -> bool:
        return self.verb == "GET"

    def packed(self) -> tuple[Any, ...]:
        """Return the plain values that `operation_from_wire` takes."""
        return (
            self.verb, self.link, self.body, self.media, self.signature, self.conditions,
            self.recreate_below, self.creates, self.key, self.replicas, self.select, self.level,
            self.writer, self.only_epoch, self.fence, self.trace, self.principal,
            self.given,
        )  # fmt: skip


class Answer(NamedTuple):
    """Answer of the owner or, if there is none, of the entry node.

    status: as in HTTP. code: a stable word for programs; on success "", or "repeated".
    unknown: True if the update may have happened.
    row: the version read or made; if a condition failed, the current version if there is one.
    rows: a page of history, newest first; or the losing branches; or the versions that a batch
    made, without states.
    replicas: number of durable copies when the update was decided.
    owner: the node that answered as owner, "" if none did.
    conflicts: number of losing branches that are kept (levels 1 and 2).
    statuses: of the updates of a batch; of a refused batch the status of the refused update, and 0
    for the others.
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
        return self.status < 300


def undecided(detail: str) -> Answer:
    """Return the answer about an update that may have happened."""
    return Answer(504, "undecided", detail, unknown=True)


def operation_from_wire(packed: Sequence[Any]) -> Operation:
    """Return the operation that a peer packed; ignore members of later versions."""
    members = dict(zip(Operation.__slots__, packed, strict=False))
    if members["conditions"] is not None:
        members["conditions"] = Conditions(*members["conditions"])
    members["select"] = tuple(members["select"])
    return Operation(**members)


def answer_from_wire(fields: Sequence[Any]) -> Answer:
    """Return the answer that a peer packed; ignore members of later versions."""
    answer = Answer(*fields[: len(Answer._fields)])
    if answer.row is not None:
        answer = answer._replace(row=Row._make(answer.row[: len(Row._fields)]))
    if answer.rows is not None:
        answer = answer._replace(rows=[Row._make(row[: len(Row._fields)]) for row in answer.rows])
    return answer
