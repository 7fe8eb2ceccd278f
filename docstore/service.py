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
cannot await, and must not use files, sockets or other documents. It can start timers, and leave
effects for after the commit: an update of another document, a record of a topic, a webhook.

If a handler raises an exception, nothing changes: the client gets 500 `internal`, and the owner
logs the traceback. `docs/services.md` has the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from docstore.model import json, patch
from docstore.model.agenda import RECORD, WEBHOOK, Plan, Timer
from docstore.model.paths import RESERVED, canonical_link
from docstore.model.service import LEVEL_3, METHODS, Method, Refusal, State

__all__ = [
    "UNCHANGED",
    "Change",
    "Record",
    "Refused",
    "Request",
    "Service",
    "State",
    "Timer",
    "Unchanged",
    "Webhook",
    "merged",
]

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


@dataclass(frozen=True, slots=True)
class Change:
    """Effect: an update of another document, as a client makes it. body: of all but DELETE."""

    method: Method
    link: str
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """Effect: a record at the end of a topic, in the partition of its key.

    key: the link of the document if it is None.
    """

    topic: str
    value: Any
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Webhook:
    """Effect: a POST of a JSON body to a URL of a host that the nodes may call."""

    url: str
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Properties of a request, without its body; and what its handler leaves for later.

    method: POST, PUT, PATCH or DELETE; a PUT may create, and a POST replace. PATCH for a timer.
    link: link of the document, such as `/accounts/a`.
    version: version of the document if this request changes it; usually 0 for its first one.
    now_us: time in microseconds since 1970, by the owner's wall clock.
    """

    method: str
    link: str
    version: int
    now_us: int
    plan: Plan | None = field(default_factory=Plan, repr=False, compare=False)
    """None at levels 1 and 2, whose documents have neither timers nor effects."""

    @property
    def timers(self) -> Mapping[str, Timer]:
        """Return the timers of the document by name, with those that the handler has started."""
        return dict(self._plan().timers)

    def start_timer(self, name: str, *, after_s: float | None = None, every_s: float = 0.0) -> None:
        """Start a timer, or start it anew; `on_timer` runs when it is due.

        after_s: seconds from now. every_s: period; 0 for once. Without `after_s` the first time is
        one period from now.
        """
        if after_s is None and not every_s:
            raise ValueError("after_s or every_s must be given")
        delay_s = every_s if after_s is None else max(0.0, after_s)
        due_us = self.now_us + round(delay_s * 1e6)
        self._plan().start(Timer(name, due_us, round(every_s * 1e6)))

    def stop_timer(self, name: str) -> None:
        """Stop a timer, if the document has it."""
        self._plan().timers.pop(name, None)

    def after_commit(self, effect: Change | Record | Webhook) -> None:
        """Have an effect delivered once the version that the handler makes is committed.

        Effects of a document are delivered one after the other, each at least once, and under an
        identity by which its receiver ignores repetitions. If the handler raises, there is none.
        """
        plan = self._plan()
        match effect:
            case Change(method, link, body):
                _check_target(method, link)
                plan.add(method, link, _dumped(dict(body)))
            case Record(topic, value, key, headers):
                key = self.link if key is None else key
                record = {"key": key, "value": value, "headers": dict(headers)}
                if not all(isinstance(text, str) for text in (key, *headers, *headers.values())):
                    raise TypeError("the key, and the names and values of headers, must be texts")
                plan.add(RECORD, topic, _dumped(record))
            case Webhook(url, body):
                plan.add(WEBHOOK, url, _dumped(body))
            case _:
                raise TypeError(f"effect must be a Change, a Record or a Webhook; got {effect!r}")

    def _plan(self) -> Plan:
        if self.plan is None:
            raise RuntimeError("timers and effects need a service of level 3 (ENFORCE_QUORUM)")
        return self.plan


def _check_target(method: str, link: str) -> None:
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if canonical_link(link) != link or link.count("/") < 2 or link.split("/")[1] in RESERVED:
        raise ValueError(f"link must be that of a document, such as /stock/a; got {link!r}")


def _dumped(value: Any) -> bytes:
    json.check(value)
    return json.dump(value)


class Service:
    """A factory and the behaviour of its documents. One object of the class serves all of them.

    States and bodies are parsed JSON objects (`State`), without the members that the store sets.
    They belong to the handler, which may change and return them. A state may have
    `documentExpirationTimeMicros`, the time of its deletion in microseconds since 1970. The types
    are `Any`, so that a subclass may work on models instead (`docstore.model_service`).
    """

    path: ClassVar[str]
    """Path of the factory, such as `/accounts`; links of documents have one segment more."""

    kind: ClassVar[str] = ""
    """The `documentKind` of its documents; "": derived from the path."""

    revision: ClassVar[int] = 1
    """Number to increase whenever a declared attribute changes: all those above `on_create`, but
    for `webhook_secret`. The greatest revision of any node applies to the whole group."""

    upgrades: ClassVar[Mapping[int, Callable[[State], State]]] = {}
    """Revision -> function that turns a state of the revision before into one of this revision.

    With it, states have the member `schemaRevision`. Handlers get a stored state after the upgrades
    that it lacks, and the next version has the upgraded state. See `docs/services.md`.
    """

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

    webhook_secret: ClassVar[str] = ""
    """Secret that signs the webhooks of its documents, `whsec_` and a key in base64; "" for none.

    Read it from the environment of the nodes rather than write it here.
    """

    indexes: ClassVar[tuple[str, ...]] = ()
    """Indexes of its documents for queries, such as `("status", "total desc")`: docs/indexes.md."""

    keep_versions: ClassVar[int] = 0
    """Number of versions of a document that are shown and kept; 0: all."""

    def on_create(self, body: Any, request: Request) -> Any:
        """Return the first state of a document, for a POST or a creating PUT. May raise Refused."""
        return body

    def on_put(self, state: Any, body: Any, request: Request) -> Any:
        """Return the state that replaces a document's state. May raise Refused."""
        return body

    def on_patch(self, state: Any, body: Any, request: Request) -> Any:
        """Return the state after a PATCH. May raise Refused.

        A service that overrides it accepts only `application/json`: a merge patch or a JSON patch
        would bypass its rules, and is 415.
        """
        return merged(state, body)

    def on_delete(self, state: Any, request: Request) -> None:
        """Allow a deletion by returning, or raise Refused. Not called when a document expires."""

    def on_timer(self, state: Any, timer: Timer, request: Request) -> Any:
        """Return the state after a timer was due. After an exception it is called again later.

        Each due time takes effect once, and due times take effect in their order. After an outage
        `timer.due_us` may be long ago. In `state` a timer that fires once is gone, and a periodic
        timer has its next due time.
        """
        return UNCHANGED

    def from_state(self, state: State) -> Any:
        """Return the object that the handlers get for a state: the state itself, or a model."""
        return state

    def to_state(self, made: Any) -> State:
        """Return the state of an object that a handler has returned."""
        state: State = made
        return state

    def check(self, state: State) -> None:
        """Raise Refused for an invalid state, whichever request and handler made it."""


def merged(state: State, change: State) -> State | Unchanged:
    """Return a state with an RFC 7396 merge patch applied; `UNCHANGED` if that changes nothing."""
    after: State = patch.merge(state, change)
    return UNCHANGED if json.canonical(after) == json.canonical(state) else after
