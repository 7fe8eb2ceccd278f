"""Write a service: a class that says what requests make of the documents of one factory.

    from docstore.service import Refused, Request, Service, State

    class Accounts(Service):
        path = "/accounts"
        kind = "bank:Account"
        methods = ("POST", "PATCH", "DELETE")

        def on_create(self, body: State, request: Request) -> State:
            return {"owner": body.get("owner", ""), "balance": 0}

        def on_patch(self, state: State, body: State, request: Request) -> State:
            if type(body.get("amount")) is not int:
                raise Refused(400, "amount is a whole number")
            state["balance"] += body["amount"]
            if state["balance"] < 0:
                raise Refused(409, "there is not so much in it")
            return state

`docstore serve --service bank:Accounts` serves it, from the module `bank`, on each node of the
group. A handler runs on the owner of the document, once for each request, in the order in which
they are decided; what it returns is replicated whole. So handlers need not be deterministic; but
they are functions of what they are given, and must return at once: while one runs its node does
nothing else. They cannot await, and have no business with files, sockets or other documents.
Whatever a change is to set off follows the feed of changes, under a role or a lock.

An exception in a handler is 500 `internal` for who asked, a line in the owner's log with the
traceback, and changes nothing. `docs/services.md` has the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from docstore.model import json, patch
from docstore.model.service import LEVEL_3, METHODS, Method, Refusal, State

__all__ = ["UNCHANGED", "Refused", "Request", "Service", "State", "Unchanged", "merged"]

STATUSES = (400, 403, 409, 422)


class Refused(Refusal):
    """Raised by a handler that does not want a request: nothing changes, and who asked is told why.

    status: 400 for what makes no sense, 403 for what nobody may, 409 for a wrong moment, 422
    otherwise. The `errorCode` of the problem is `refused-by-service`.
    """

    def __init__(self, status: int, message: str) -> None:
        """Raises ValueError for another status, which is then the handler's failure."""
        if status not in STATUSES:
            raise ValueError(f"a service refuses with {STATUSES}, not with {status!r}")
        super().__init__(message, status=status)


class Unchanged:
    """The type of `UNCHANGED`."""


UNCHANGED: Final = Unchanged()
"""Returned by a handler: nothing is written, and the answer is 200 with the version that is there.

None is not: a handler that forgets its `return` has failed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a handler is told of a request, beside its body.

    method: POST, PUT, PATCH or DELETE; a PUT may create, and a POST replace.
    link: of the document, such as `/accounts/a`.
    version: that the document gets if this changes it, 0 for its first one as a rule.
    now_us: what time it is, in microseconds since 1970, by the owner's wall clock.
    """

    method: str
    link: str
    version: int
    now_us: int


class Service:
    """A factory and what its documents are like. One object of the class serves all of them.

    States and bodies are JSON objects as Python has them, without the members that the store sets,
    and belong to the handler: it may change and return what it was given. A state may have
    `documentExpirationTimeMicros`, when the document is to be deleted, in microseconds since 1970.
    """

    path: ClassVar[str]
    """Of the factory, such as `/accounts`; its documents are right below it."""

    kind: ClassVar[str] = ""
    """What the documents call themselves; "": after the path."""

    revision: ClassVar[int] = 1
    """Grows whenever something changes that is declared: all that stands above `on_create`. The
    greatest revision that any node had is in force in the whole group."""

    options: ClassVar[tuple[str, ...]] = LEVEL_3
    """As in a declaration over HTTP: docs/http.md, "Options of a factory"."""

    methods: ClassVar[tuple[Method, ...]] = METHODS
    """The methods that clients may use beside reads; all others are 405.

    Without it, a class that has handlers takes only the methods that it handles.
    """

    schema: ClassVar[Mapping[str, Any] | None] = None
    """JSON Schema 2020-12 of every state, whatever made it; what does not fit is 422."""

    put_creates: ClassVar[bool] = True
    """Whether a PUT of what is not there creates it; else it is 404."""

    requires_precondition: ClassVar[bool] = False
    """Whether PUT, PATCH and DELETE need If-Match or If-None-Match."""

    requires_fence: ClassVar[bool] = False
    """Whether every write needs a Fence."""

    expires_after_s: ClassVar[int] = 0
    """Given to documents that are put without a time of their own, in seconds; 0: they stay."""

    keep_versions: ClassVar[int] = 0
    """How many versions of a document are shown and kept; 0: all that are there."""

    def on_create(self, body: State, request: Request) -> State:
        """Return the first state of a document, of a POST or of a PUT that creates. May refuse."""
        return body

    def on_put(self, state: State, body: State, request: Request) -> State | Unchanged:
        """Return what replaces a document's state. May refuse."""
        return body

    def on_patch(self, state: State, body: State, request: Request) -> State | Unchanged:
        """Return the state after a PATCH. May refuse.

        A service that has its own takes bodies as `application/json` only: a merge patch or a JSON
        patch would pass by its rules, and is 415.
        """
        return merged(state, body)

    def on_delete(self, state: State, request: Request) -> None:
        """Let a document be deleted, or refuse. What the store deletes (expiry) is not asked."""

    def check(self, state: State) -> None:
        """Refuse a state that must not be, whichever request and handler made it."""


def merged(state: State, change: State) -> State | Unchanged:
    """Return a state with an RFC 7396 merge patch applied, `UNCHANGED` if it is as it was."""
    after: State = patch.merge(state, change)
    return UNCHANGED if json.canonical(after) == json.canonical(state) else after
