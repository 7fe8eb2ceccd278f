"""Services: a class decides what each request does to the documents of one factory.

    from docstore.service import Refused, Request, Service, State

    class Accounts(Service):
        path = "/accounts"
        kind = "bank:Account"
        methods = ("POST", "PATCH", "DELETE")

        def on_create(self, body: State, request: Request) -> State:
            return {"owner": body.get("owner", ""), "balance": 0}

        def on_patch(self, state: State, body: State, request: Request) -> State:
            if type(body.get("amount")) is not int:
                raise Refused(400, "amount must be a whole number")
            state["balance"] += body["amount"]
            if state["balance"] < 0:
                raise Refused(409, "the balance would be negative")
            return state

`docstore serve --service bank:Accounts` loads it from the module `bank`; run this on each node of
the group. A handler runs on the owner of the document, once for each request, in the order in which
requests are decided; its result is replicated. So a handler need not be deterministic. But it must
depend only on its arguments, and must return at once: while it runs, the node does nothing else. It
cannot await, and must not use files, sockets or other documents. To act on a change, follow the
feed of changes, under a role or a lock.

If a handler raises an exception, nothing changes: the client gets 500 `internal`, and the owner
logs the traceback. `docs/services.md` has the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from docstore.model import json, patch
from docstore.model.service import LEVEL_3, METHODS, Method, Refusal, State

__all__ = ["UNCHANGED", "Refused", "Request", "Service", "State", "Unchanged", "merged"]

STATUSES = (400, 403, 409, 422)


class Refused(Refusal):
    """A handler raises this to reject a request: nothing changes, and the client gets the message.

    status: 400 for a malformed request, 403 for one that no client may make, 409 for one that the
    present state does not allow, else 422. The `errorCode` is `refused-by-service`.
    """

    def __init__(self, status: int, message: str) -> None:
        """Raise ValueError for any other status; the client gets 500 then."""
        if status not in STATUSES:
            raise ValueError(f"the status of Refused must be one of {STATUSES}; got {status!r}")
        super().__init__(message, status=status)


class Unchanged:
    """The type of `UNCHANGED`."""


UNCHANGED: Final = Unchanged()
"""Result of a handler that changes nothing: the answer is 200 with the present version.

None would be an error instead, because a handler may forget its `return`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Properties of a request, without its body.

    method: POST, PUT, PATCH or DELETE; a PUT may create, and a POST replace.
    link: link of the document, such as `/accounts/a`.
    version: version of the document if this request changes it; usually 0 for its first one.
    now_us: time in microseconds since 1970, by the owner's wall clock.
    """

    method: str
    link: str
    version: int
    now_us: int


class Service:
    """A factory and the behaviour of its documents. One object of the class serves all of them.

    States and bodies are parsed JSON objects, without the members that the store sets. They belong
    to the handler, which may change and return them. A state may have
    `documentExpirationTimeMicros`, the time of its deletion in microseconds since 1970.
    """

    path: ClassVar[str]
    """Path of the factory, such as `/accounts`; links of documents have one segment more."""

    kind: ClassVar[str] = ""
    """The `documentKind` of its documents; "": derived from the path."""

    revision: ClassVar[int] = 1
    """Number to increase whenever a declared attribute changes: all those above `on_create`. The
    greatest revision of any node applies to the whole group."""

    options: ClassVar[tuple[str, ...]] = LEVEL_3
    """Options, as in a declaration over HTTP: docs/http.md, "Options of a factory"."""

    methods: ClassVar[tuple[Method, ...]] = METHODS
    """Methods of writes that clients may use; all others are 405.

    By default, a class that has handlers accepts only the methods that it handles.
    """

    schema: ClassVar[Mapping[str, Any] | None] = None
    """JSON Schema 2020-12 of every state, whichever handler made it; a violation is 422."""

    put_creates: ClassVar[bool] = True
    """Whether a PUT creates a missing document; else it is 404."""

    requires_precondition: ClassVar[bool] = False
    """Whether PUT, PATCH and DELETE need If-Match or If-None-Match."""

    requires_fence: ClassVar[bool] = False
    """Whether every write needs a Fence."""

    expires_after_s: ClassVar[int] = 0
    """Seconds to live of documents that are put without an expiration time; 0: for ever."""

    keep_versions: ClassVar[int] = 0
    """Number of versions of a document that are shown and kept; 0: all."""

    def on_create(self, body: State, request: Request) -> State:
        """Return the first state of a document, for a POST or a creating PUT. May raise Refused."""
        return body

    def on_put(self, state: State, body: State, request: Request) -> State | Unchanged:
        """Return the state that replaces a document's state. May raise Refused."""
        return body

    def on_patch(self, state: State, body: State, request: Request) -> State | Unchanged:
        """Return the state after a PATCH. May raise Refused.

        A service that overrides it accepts only `application/json`: a merge patch or a JSON patch
        would bypass its rules, and is 415.
        """
        return merged(state, body)

    def on_delete(self, state: State, request: Request) -> None:
        """Allow a deletion by returning, or raise Refused. Not called when a document expires."""

    def check(self, state: State) -> None:
        """Raise Refused for an invalid state, whichever request and handler made it."""


def merged(state: State, change: State) -> State | Unchanged:
    """Return a state with an RFC 7396 merge patch applied; `UNCHANGED` if that changes nothing."""
    after: State = patch.merge(state, change)
    return UNCHANGED if json.canonical(after) == json.canonical(state) else after
