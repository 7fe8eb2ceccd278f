"""Step 4b of the write path, on the owner: compute the next state from state and request. Pure.

The checks run in this order:

1. The fence: does the client's token still count?
2. Preconditions (RFC 9110). A header that fails is 412, a `documentVersion` in the body that fails
   is 409. An update without the version that its factory requires is 428.
3. May the document be created or deleted?
4. The author's service, which the caller passes in. An exception in it becomes a refusal.

A version is one more than the version before, also over a tombstone (rule D2): a number is never
used again. A body that the service does not change is stored byte for byte.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from docstore.errors import BadRequest, Conflict, TooLarge
from docstore.model import json, patch
from docstore.model.agenda import (
    FIRE,
    SETTLE,
    Agenda,
    EffectsWait,
    Plan,
    Timer,
    agenda_of,
    settled,
)
from docstore.model.document import EXPIRY, Row, tag_of
from docstore.model.document_members import STORE_SET
from docstore.model.fences import SCOPES_MAX, Fence, TooLow, TooMany, fences_of, passed
from docstore.model.operation import NOT_GIVEN, Answer, Conditions, Operation
from docstore.model.service import (
    Method,
    Refusal,
    Service,
    ServiceOptions,
    State,
    UpdateRequest,
    WithAuthor,
)


class New(NamedTuple):
    """The document's next version; the caller stamps it."""

    state: bytes
    version: int
    action: str
    deleted: bool
    signature: bytes
    fences: Sequence[Fence] = ()
    agenda: Agenda | None = None
    """None for that of the version before, as `keeping` fills in."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """No change: the answer is the present version. code: see Answer."""

    row: Row
    code: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """No change, because the update is refused."""

    answer: Answer


Outcome = New | Unchanged | Refused
T = TypeVar("T")

DELETED_SIGNATURE = b"\0" * 16
IMMUTABLE = (409, "immutable", "documents of this factory do not change")
STATE_BYTES_MAX = 1 << 20
"""Maximum size of a patched document. The HTTP layer limits the bodies of PUT and POST."""


def handle(
    head: Row | None,
    operation: Operation,
    service: Service,
    *,
    floor: int,
    now_us: Callable[[], int],
) -> Outcome:
    """Apply an update to the document's newest version.

    head: the newest row, which may be a tombstone; None if the link was never used.
    floor: the version before the first one of a link that was never used.
    now_us: the clock, for an author's code and for a document's expiry.
    """
    is_fenced = service.options.requires_fence and operation.media != FIRE
    if is_fenced and not operation.fence:
        return _refuse(
            428, "fence-required", "updates of this factory must have a header Fence", head
        )
    agenda = agenda_of(head)
    update = _Update(head, operation, service, floor, now_us, agenda)
    remembered = fences_of(head)
    if not remembered and not operation.fence:
        outcome = update.outcome()
    else:
        fences = passed(remembered, operation.fence)
        if isinstance(fences, TooLow | TooMany):
            return _fenced(fences, head)
        outcome = update.outcome()
        outcome = carrying(outcome, fences) if isinstance(outcome, New) else outcome
    if not isinstance(outcome, New):
        return outcome
    if agenda or outcome.agenda:
        return keeping(outcome, agenda)
    return outcome if outcome.agenda is None else outcome._replace(agenda=None)


NOT_DUE = Answer(409, "not-due", "the document has no such timer or effect any more")


def is_due(timer: Timer, agenda: Agenda) -> bool:  # Tests replace this.
    """Say whether a document still has a timer with this due time (rule TI1)."""
    return timer in agenda.timers


CHANGES_FIRST = Answer(412, NOT_GIVEN, "the document that the update depends on must change first")


def unmet(  # Tests replace this.
    head: Row | None, given: Operation, service: Service
) -> Answer | None:
    """Return why an update that depends on another document is refused; None if it is not.

    head: the newest row of that document. given: an update of that document, which must accept it
    without a change. Its refusal has the status also in `statuses`, to differ from one of the
    update that depends on it.
    """
    outcome = handle(head, given, service, floor=0, now_us=lambda: 0)
    match outcome:
        case Unchanged():
            return None
        case New():
            return CHANGES_FIRST
        case Refused(answer):
            return answer._replace(statuses=(answer.status,))


def carrying(new: New, fences: Sequence[Fence]) -> New:  # Tests replace this.
    """Add the document's fences to its next version, also to a tombstone (rule F2)."""
    return new._replace(fences=fences)


def keeping(new: New, before: Agenda) -> New:
    """Add the agenda of the version before, unless a handler has made another one.

    A tombstone has effects, but no timers. An empty agenda says once, to the owner's machine of
    agendas, that the last one has ended.
    """
    agenda = before if new.agenda is None else new.agenda
    return new._replace(agenda=agenda._replace(timers=()) if new.deleted else agenda)


@dataclass(slots=True)
class _Update:
    """An update that has passed the fence: its fields are the arguments of `handle`."""

    head: Row | None
    operation: Operation
    service: Service
    floor: int
    now_us: Callable[[], int]
    agenda: Agenda
    live: Row | None = field(init=False)

    def __post_init__(self) -> None:
        self.live = self.head if self.head is not None and not self.head.deleted else None

    def outcome(self) -> Outcome:
        live, operation = self.live, self.operation
        refusal = _precondition(live, operation.conditions, self.service.options.level)
        is_fired = operation.media == FIRE
        is_strict = self.service.options.strict_updates and not is_fired
        if refusal is None and is_strict and live is not None:
            refusal = _unread(live, operation, self.service.options)
        if refusal is not None:
            return refusal
        try:
            if operation.media == SETTLE:
                return self.settled()
            if is_fired:
                return self.fired()
            match operation.verb:
                case "PUT":
                    return self.put()
                case "PATCH":
                    return self.patch()
                case "POST":
                    return self.post()
                case "DELETE":
                    return self.delete()
                case _:
                    return _refuse(405, "method-not-allowed", operation.verb, self.head)
        except Refusal as refused:
            return _refuse(refused.status, refused.code, refused.detail, live)
        except (BadRequest, Conflict, TooLarge, EffectsWait) as error:
            return _refuse(error.status, error.code, str(error), live)

    def put(self) -> Outcome:
        live, operation = self.live, self.operation
        if live is None and not operation.creates:
            return _refuse(
                404,
                "not-found",
                "there is no such document, and PUT does not create one here: use POST",
                self.head,
            )
        if live is not None and self.service.options.immutable:
            return _refuse(*IMMUTABLE, live)
        if live is None and operation.conditions and operation.conditions.version is not None:
            detail = "there is no version to go on from"
            return _refuse(409, "version-conflict", detail, self.head)
        return self.replaced(next_version(self.head, self.floor), "PUT")

    def post(self) -> Outcome:
        head, live = self.head, self.live
        if live is not None:
            if self.service.options.immutable and self.service.options.idempotent_post:
                return _refuse(*IMMUTABLE, live)
            if self.service.options.idempotent_post:
                return self.replaced(live.version + 1, "PUT")
            return _refuse(
                409,
                "already-exists",
                "the document exists already: use PUT or PATCH to change it",
                live,
            )
        if head is not None and not _may_recreate(head, self.operation):
            detail = f"the document is marked deleted as of version {head.version}"
            return _refuse(409, "marked-deleted", detail, head)
        return self.replaced(next_version(head, self.floor), "POST")

    def replaced(self, version: int, action: Method) -> Outcome:
        """Return the version that the request's body makes, through the author's code if any."""
        if self.service.options.expires_after_s:
            self.operation = _expiring(
                self.operation, self.service.options.expires_after_s, self.now_us
            )
        operation, service = self.operation, self.service
        signature = operation.signature
        if service.checks or not signature:
            if isinstance(service, WithAuthor) and operation.verb in service.handled:
                return self.by_author(service, version, action)
            state = json.parse_object(operation.body)
            if service.checks:
                _of_author(service.check, state)
            signature = signature or json.signature(state)
        return New(operation.body, version, action, False, signature)

    def by_author(self, service: WithAuthor, version: int, action: Method) -> Outcome:
        operation, live = self.operation, self.live
        plan = Plan(self.agenda, version)
        asked = self.asked(operation.verb, operation.link, version, plan)
        before = None if live is None else json.load(live.state)
        after = _of_author(service.make, asked, before, json.parse(operation.body))
        return self.planned(plan, version, action, after)

    def asked(self, verb: str, link: str, version: int, plan: Plan) -> UpdateRequest:
        return UpdateRequest(verb, link, version, self.operation.media, self.now_us, plan)

    def planned(self, plan: Plan, version: int, action: Method, after: State | None) -> Outcome:
        """Return the version with the state and the agenda that a handler has made."""
        live, agenda = self.live, plan.result()
        if after is not None:
            made = self.made(version, action, after)
            return made._replace(agenda=agenda) if isinstance(made, New) else made
        assert live is not None, "what comes into being has a state"
        if agenda == self.agenda:
            return Unchanged(live)
        return New(live.state, version, action, False, live.signature, agenda=agenda)

    def fired(self) -> Outcome:
        """Return the version that a due timer makes, if the document still has it (rule TI1)."""
        live, service = self.live, self.service
        timer = Timer(*json.load(self.operation.body))
        if live is None or not is_due(timer, self.agenda):
            return Refused(NOT_DUE._replace(row=self.head))
        plan, version = Plan(self.agenda, live.version + 1), live.version + 1
        plan.fired(timer, self.now_us())
        if not isinstance(service, WithAuthor):
            raise Refusal(f"{service.options.path} has no handlers", status=409)
        asked = self.asked("PATCH", live.link, version, plan)
        after = _of_author(service.fire, asked, json.load(live.state), timer)
        return self.planned(plan, version, "PATCH", after)

    def settled(self) -> Outcome:
        """Return the version without the effects that were delivered; the state is the same."""
        head = self.head
        agenda = settled(self.agenda, int(self.operation.body))
        if head is None or agenda == self.agenda:
            return Refused(NOT_DUE._replace(row=head))
        action = "DELETE" if head.deleted else "PATCH"
        return New(
            head.state, head.version + 1, action, head.deleted, head.signature, agenda=agenda
        )

    def patch(self) -> Outcome:
        live, operation, service = self.live, self.operation, self.service
        if live is None:
            return _refuse(
                404, "not-found", "there is no such document to patch: create it first", self.head
            )
        if self.service.options.immutable:
            return _refuse(*IMMUTABLE, live)
        version = live.version + 1
        if isinstance(service, WithAuthor) and "PATCH" in service.handled:
            return self.by_author(service, version, "PATCH")
        before: State = json.load(live.state)
        if self.service.options.numbered:
            before["documentVersion"] = version
        change = json.parse(operation.body)
        if operation.media == "json":
            after = patch.apply(before, change)
        elif not isinstance(change, dict):
            return _refuse(400, "malformed", "a merge patch must be a JSON object", live)
        elif operation.media == "merge":
            after = patch.merge(before, change)
        else:
            after = _of_author(service.patch, before, change)
        if after is None:
            return Unchanged(live)
        return self.made(version, "PATCH", after)

    def made(self, version: int, action: Method, after: Any) -> Outcome:
        """Serialise a computed state, or reuse the request's body if that is the same JSON."""
        live = self.live
        if not isinstance(after, dict):
            return _refuse(400, "malformed", "the document must be a JSON object", live)
        after = {key: value for key, value in after.items() if key not in STORE_SET}
        expiry = after.get(EXPIRY, 0)
        if type(expiry) is not int or expiry < 0:
            return _refuse(400, "malformed", f"{EXPIRY} must be microseconds since 1970", live)
        if self.service.checks:
            _of_author(self.service.check, after)
        state = _of_author(json.dump, after)
        if len(state) > STATE_BYTES_MAX:
            detail = f"a document must have at most {STATE_BYTES_MAX} bytes"
            return _refuse(413, "too-large", detail, live)
        if action != "PATCH" and state == json.dump(json.load(self.operation.body)):
            state = self.operation.body
        return New(state, version, action, False, json.signature(after))

    def delete(self) -> Outcome:
        """Return a tombstone: a version like any other (rule D1)."""
        live, service = self.live, self.service
        if live is None:
            return _refuse(404, "not-found", "there is no such document to delete", self.head)
        version, agenda = live.version + 1, None
        if isinstance(service, WithAuthor) and "DELETE" in service.handled:
            plan = Plan(self.agenda, version)
            asked = self.asked("DELETE", live.link, version, plan)
            _of_author(service.make, asked, json.load(live.state), {})
            agenda = plan.result()
        return New(live.state, version, "DELETE", True, DELETED_SIGNATURE, agenda=agenda)


def next_version(head: Row | None, floor: int) -> int:  # Tests replace this.
    """Return the version that follows, also over a tombstone (rule D2)."""
    return (head.version if head is not None else floor) + 1


def _fenced(why: TooLow | TooMany, head: Row | None) -> Refused:
    if isinstance(why, TooMany):
        detail = f"a document must have fences of at most {SCOPES_MAX} scopes: use one of them"
        return _refuse(409, "too-many-fences", detail, head)
    scope, token = why.remembered
    detail = f"token {token} has been seen under {scope}, yours is lower: acquire a new token"
    return _refuse(409, "fenced", detail, head)


def _may_recreate(tombstone: Row, operation: Operation) -> bool:
    below = operation.recreate_below
    return below is not None and tombstone.version < below


def _expiring(operation: Operation, after_s: int, now_us: Callable[[], int]) -> Operation:
    """Add the factory's expiry to a body that has none.

    The owner does this, not the entry node: an Idempotency-Key is compared with the body that the
    client sent, and a retry would get another expiry.
    """
    state = json.parse_object(operation.body)
    if EXPIRY in state:
        return operation
    state[EXPIRY] = now_us() + after_s * 1_000_000
    return replace(operation, body=json.dump(state), signature=json.signature(state))


def _of_author(call: Callable[..., T], *arguments: Any) -> T:
    """Call an author's code; turn its exception into a refusal, so that the node goes on."""
    try:
        return call(*arguments)
    except (Refusal, BadRequest, Conflict, TooLarge):
        raise
    except Exception as error:
        why = f"the service failed: {type(error).__name__}"
        raise Refusal(why, status=500, code="internal") from error


def _precondition(live: Row | None, conditions: Conditions | None, level: int) -> Refused | None:
    """Return why the conditions do not hold, None if they do (RFC 9110, section 13.2.2)."""
    if conditions is None:
        return None
    if conditions.match is not None and not _matches(live, conditions.match, level):
        return _refuse(412, "precondition-failed", _unmet(conditions.match), live)
    if conditions.none_match is not None and _matches(live, conditions.none_match, level):
        return _refuse(
            412,
            "precondition-failed",
            "the document exists in a version that If-None-Match excludes",
            live,
        )
    if conditions.version is not None and live is not None and live.version != conditions.version:
        detail = f"version {conditions.version} is not current (documentVersion, ifVersion)"
        return _refuse(409, "version-conflict", detail, live)
    return None


def _unmet(match: str | Sequence[Sequence[int]]) -> str:
    """Return the detail of a failed If-Match, for a request and for a line of a bulk job."""
    if match == "*":
        return "there is no such document, and it must exist (If-Match: *, mustExist)"
    return "If-Match does not hold"


def _unread(live: Row, operation: Operation, options: ServiceOptions) -> Refused | None:
    """Refuse an update that does not name the version that its client has read.

    `If-Match: *` names no version. A POST that creates has no version to name.
    """
    if operation.verb == "POST" and not options.idempotent_post:
        return None  # Such a POST never changes an existing document.
    said = operation.conditions
    if said is not None and (said.version is not None or said.match not in (None, "*")):
        return None
    detail = "an update must say which version it has read: If-Match, documentVersion or ifVersion"
    return _refuse(428, "precondition-required", detail, live)


def _matches(live: Row | None, tags: str | Sequence[Sequence[int]], level: int) -> bool:
    if live is None:
        return False
    if tags == "*":
        return True
    return any(tuple(tag) == tag_of(live, level) for tag in tags)


def _refuse(status: int, code: str, detail: str, row: Row | None) -> Refused:
    return Refused(Answer(status, code, detail, row=row))
