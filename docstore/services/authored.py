"""Services whose states are made by an author's class: the layer between class and owner.

The class is inspected once, when its factory becomes known, and is called only for methods that it
handles. Each handler gets copies of the values, and its result or exception is checked, so that a
faulty handler spoils only its own answer. The caller passes in the function that calls handlers: a
node measures them and logs their failures.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from docstore.errors import BadRequest
from docstore.model import json
from docstore.model.agenda import Timer
from docstore.model.document import EXPIRY, LEASE
from docstore.model.service import (
    LINEARIZABLE,
    METHODS,
    Method,
    Refusal,
    ServiceOptions,
    State,
    UpdateRequest,
    WithAuthor,
)
from docstore.model.settings import quoted
from docstore.service import STATUSES, Request, Service, Unchanged, merged
from docstore.services.declared import SERVICE, DeclaredService

T = TypeVar("T")

HANDLERS: Mapping[Method, Sequence[str]] = {
    "POST": ("on_create", "on_put"),
    "PUT": ("on_create", "on_put"),
    "PATCH": ("on_patch",),
    "DELETE": ("on_delete",),
}
"""Method -> handlers that it may call: POST and PUT may create or replace."""

SCHEMA_REVISION = "schemaRevision"
"""Member of the states of a class with upgrades: the revision of the class that made it."""

REASON_LENGTH_MAX = 512
"""Longest reason of an author for a refusal, in characters."""

Call = Callable[[str, Callable[[], Any]], Any]
"""Function of (path of the factory, function that calls a handler) that returns the handler's
result. Raises Refusal."""


def called_plainly(path: str, handler: Callable[[], Any]) -> Any:
    return handler()


def name_of(service: Service) -> str:
    """Return the class of a service as the command line names it."""
    return f"{type(service).__module__}:{type(service).__qualname__}"


def declaration_of(service: Service) -> State:
    """Return the declaration that a node makes for a service's class that it has."""
    said: State = {
        "path": service.path,
        "options": list(service.options),
        "putCreates": service.put_creates,
        "requiresPrecondition": service.requires_precondition,
        "requiresFence": service.requires_fence,
        "defaultExpirationSeconds": service.expires_after_s,
        SERVICE: {
            "class": name_of(service),
            "revision": service.revision,
            "methods": list(methods_of(service)),
        },
    }
    said |= {"kind": service.kind} if service.kind else {}
    said |= {"indexes": list(service.indexes)} if service.indexes else {}
    said |= {"schema": dict(service.schema)} if service.schema is not None else {}
    return said | (
        {"retention": {"versions": service.keep_versions}} if service.keep_versions else {}
    )


def overridden(service: Service) -> Iterator[str]:
    for name in ("on_create", "on_put", "on_patch", "on_delete", "on_timer", "check"):
        if getattr(type(service), name) is not getattr(Service, name):
            yield name


def methods_of(service: Service) -> Sequence[Method]:
    """Return the methods that clients may use: those that a class names, else those it handles.

    A class without a handler has all methods. A PUT creates by `on_create`, and replaces by
    `on_put`.
    """
    own = set(overridden(service)) - {"check", "on_timer"}
    if _names_methods(service) or not own:
        return service.methods
    putting = {"on_put", "on_create"} if service.put_creates else {"on_put"}
    needed = {"POST": {"on_create"}, "PUT": putting, "PATCH": {"on_patch"}, "DELETE": {"on_delete"}}
    return tuple(method for method in METHODS if not own.isdisjoint(needed[method]))


def _names_methods(service: Service) -> bool:
    return type(service).methods is not Service.methods


class AuthoredService(WithAuthor):
    """A kind of document whose states an author's class makes."""

    def __init__(
        self, options: ServiceOptions, author: Service, call: Call = called_plainly
    ) -> None:
        """options: the options in force, as declared. call: calls the handlers."""
        own = set(overridden(author))
        is_closed = not _names_methods(author) and not own <= {"check", "on_timer"}
        # A declaration cannot allow a method that the class does not have.
        if is_closed and options.revision <= author.revision:
            own_methods = methods_of(author)
            kept = tuple(each for each in options.methods if each in own_methods)
            options = replace(options, methods=kept)
        self.options = options
        self._is_closed = is_closed
        self._author = author
        self._call = call
        self._declared = DeclaredService(options)
        self._own = own
        self._checks_too = "check" in own
        self.handled = frozenset(
            method
            for method in METHODS
            if author.upgrades
            or method not in options.methods
            or not own.isdisjoint(HANDLERS[method])
        )
        self.checks = self._checks_too or self._declared.checks or bool(self.handled)

    def check(self, state: State) -> None:
        """Refuse a state that the schema or the author does not allow."""
        self._declared.check(state)
        if self._checks_too:
            copy = json.load(json.dump(state))
            self._ask(lambda: self._author.check(copy))

    def patch(self, state: State, change: State) -> State | None:
        after = merged(state, change)
        return None if isinstance(after, Unchanged) else after

    def make(self, asked: UpdateRequest, before: State | None, body: Any) -> State | None:
        if asked.method not in self.options.methods:
            raise _not_taken(
                f"{self.options.path} takes {', '.join(self.options.methods)}; got {asked.method}"
            )
        name = _handler(asked.method, before)
        if self._is_closed and name not in self._own:
            raise _not_taken(
                f"{self.options.path} has no handler {name}, which {asked.method} needs"
            )
        if asked.method == "PATCH" and asked.media != "handler":
            detail = "a PATCH of this service must have the Content-Type application/json"
            raise Refusal(detail, status=415, code="unsupported-media-type")
        if not isinstance(body, dict):
            raise BadRequest(f"the body must be a JSON object; got {quoted(body)}")
        self._check_revision(before)
        leased = _leased(asked.method, before, body)
        after = self._ask(lambda: self._made(asked, before, body))
        return leased(after)

    def fire(self, asked: UpdateRequest, before: State, timer: Timer) -> State | None:
        if "on_timer" not in self._own:
            return super().fire(asked, before, timer)
        self._check_revision(before)
        leased = _leased("PATCH", before, {})
        return leased(self._ask(lambda: self._fired(asked, before, timer)))

    def _fired(self, asked: UpdateRequest, before: State, timer: Timer) -> State | None:
        head = self._upgraded(before)
        after = self._author.on_timer(self._loaded(head.state), timer, self._request(asked))
        return self._result("on_timer", after, head)

    def _request(self, asked: UpdateRequest) -> Request:
        return Request(
            method=asked.method,
            link=asked.link,
            version=asked.version,
            now_us=asked.now_us(),
            plan=asked.plan if self.options.level == LINEARIZABLE else None,
        )

    def _ask(self, handler: Callable[[], T]) -> T:
        """Return the result of a handler. A malformed Refusal counts as a handler's failure."""

        def asked() -> T:
            try:
                return handler()
            except Refusal as refused:
                raise _refusal(refused) from None

        made: T = self._call(self.options.path, asked)
        return made

    def _made(self, asked: UpdateRequest, before: State | None, body: State) -> State | None:
        """Return the result of a handler, if that is a state. Raises the handler's exceptions."""
        author, method = self._author, asked.method
        request = self._request(asked)
        name = _handler(method, before)
        is_own, sent = name in self._own, body
        if is_own and method in ("POST", "PUT"):
            body = author.from_state(body)
        if before is None:
            made = author.on_create(body, request)
            if isinstance(made, Unchanged):
                return _state(name, made)  # Raises: a document needs a first state.
            return self._result(name, made, _Head(sent))
        head = self._upgraded(before)
        state = self._loaded(head.state) if is_own else head.state
        if method == "DELETE":
            author.on_delete(state, request)
            return None
        return self._result(name, getattr(author, name)(state, body, request), head)

    def _loaded(self, state: State) -> Any:
        """Return the object for a stored state; if it no longer fits, the class has failed."""
        try:
            return self._author.from_state(state)
        except Refusal as refused:
            raise ValueError(f"the stored state does not fit: {refused.detail}") from refused

    def _check_revision(self, before: State | None) -> None:
        """Refuse to change a state that a later revision of the class has made."""
        author = self._author
        found = before.get(SCHEMA_REVISION, 0) if before and author.upgrades else 0
        if found > author.revision:
            detail = (
                f"a document of {self.options.path} has revision {found}, and {name_of(author)} on"
                f" the owner has {author.revision}: update that node"
            )
            raise Refusal(detail, status=503, code="service-missing")

    def _upgraded(self, state: State) -> "_Head":
        """Return a stored state after the upgrades that it lacks."""
        author = self._author
        if not author.upgrades:
            return _Head(state)
        found = state.get(SCHEMA_REVISION, 0)
        lacking = [each for each in sorted(author.upgrades) if found < each <= author.revision]
        for revision in lacking:
            state = author.upgrades[revision](state)
        return _Head(state, is_upgraded=bool(lacking))

    def _result(self, handler: str, made: Any, head: "_Head") -> State | None:
        """Return the state that a handler has made; None if nothing has changed."""
        if isinstance(made, Unchanged):
            return self._stamped(head.state) if head.is_upgraded else None
        if isinstance(made, dict):
            return self._stamped(_state(handler, made))
        state = _state(handler, self._author.to_state(made))
        # A model without a member for the expiry must not make a document live for ever.
        if EXPIRY in head.state:
            state.setdefault(EXPIRY, head.state[EXPIRY])
        return self._stamped(state)

    def _stamped(self, state: State) -> State:
        return state | {SCHEMA_REVISION: self._author.revision} if self._author.upgrades else state


@dataclass(frozen=True, slots=True)
class _Head:
    """The state from which a handler goes on."""

    state: State
    is_upgraded: bool = False


def _leased(
    method: str, before: State | None, body: State
) -> Callable[[State | None], State | None]:
    """Remove the lease from the values of a handler; return the function that puts it back.

    Leases are handled by the store, which attached the document before; a handler cannot do that.
    """
    had = None if before is None else before.pop(LEASE, None)
    is_named = LEASE in body
    named = body.pop(LEASE, None)
    lease = named if is_named or method != "PATCH" else had
    # A handler may say that nothing changed, although it modified its argument.
    spare = json.dump(before) if before is not None and is_named and named != had else b""

    def put_back(after: State | None) -> State | None:
        if after is None and spare:
            after = json.load(spare)
        return after | {LEASE: lease} if after is not None and lease is not None else after

    return put_back


def _handler(method: str, before: State | None) -> str:
    """Return the name of the handler that makes the next state."""
    if before is None:
        return "on_create"
    return {"PATCH": "on_patch", "DELETE": "on_delete"}.get(method, "on_put")


def _not_taken(detail: str) -> Refusal:
    return Refusal(detail, status=405, code="method-not-allowed")


def _refusal(raised: Refusal) -> Refusal:
    """Return an author's refusal with values that the store itself has made.

    An author's subclass may lack a status or contain any values, and a refusal is sent between
    nodes. Raises any error of reading the refusal, ValueError for another status.
    """
    status = STATUSES[STATUSES.index(raised.status)]
    reason = str(raised.detail)[:REASON_LENGTH_MAX]
    return Refusal(reason.encode("utf-8", "replace").decode(), status=status)


def _state(handler: str, value: Any) -> State:
    """Return the result of a handler. Raises TypeError or ValueError if it is not a state."""
    if not isinstance(value, dict):
        raise TypeError(f"{handler} must return the next state, a dict; got {type(value).__name__}")
    try:
        json.check(value)
    except BadRequest as error:
        place = "".join(_way_to_wrong(value)) or "its members"
        raise ValueError(
            f"{handler} must return JSON values, but not in {place}: {error}"
        ) from None
    expiry = value.get(EXPIRY, 0)
    if isinstance(expiry, bool) or not isinstance(expiry, int) or expiry < 0:
        raise ValueError(
            f"{handler}: {EXPIRY} must be microseconds since 1970; got {quoted(expiry)}"
        )
    return {name: member for name, member in value.items() if name != LEASE}


def _way_to_wrong(value: Any, room: int = json.DEPTH_MAX) -> Iterator[str]:
    """Yield the steps to the first member of a value that is not JSON, such as `['a']`, `[1]`."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for step, member in inside if isinstance(value, dict | list) else ():
        try:
            json.check(member, room)
        except BadRequest:
            yield f"[{step!r}]"
            if room:
                yield from _way_to_wrong(member, room - 1)
            return


class MissingService(WithAuthor):
    """A service whose class this node lacks: it refuses updates (rule O9), and serves reads."""

    handled: Collection[str] = frozenset(METHODS)

    def __init__(self, options: ServiceOptions) -> None:
        self.options = options

    def make(self, asked: UpdateRequest, before: State | None, body: Any) -> State:
        """Refuse any update: only the missing class can make the next state."""
        raise self._refusal()

    def patch(self, state: State, change: State) -> State:
        raise self._refusal()

    def _refusal(self) -> Refusal:
        detail = f"the owner does not have {self.options.author}: start it with --service"
        return Refusal(detail, status=503, code="service-missing")
