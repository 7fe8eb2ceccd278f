"""A subscription: a webhook for the changes of a path, and the mark of its deliveries.

Its document lies at `/core/subscriptions/<id>`, at level 3. The owner of its slot delivers
(`docstore/subscriptions/`), and saves its mark here: seldom, since each save is a version. The
secret that signs deliveries is stored sealed, so only nodes can read it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from docstore.errors import BadRequest
from docstore.model import json
from docstore.model.document import EXPIRY, EXPIRY_US_MAX
from docstore.model.fields import Fields
from docstore.model.service import Malformed, Refusal, ServiceOptions, State

SUBSCRIPTIONS = "/core/subscriptions"
NUMBER_MAX = (1 << 62) - 1
WHY_CHARACTERS_MAX = 512
KIND = "docstore:Subscription"


class SubscriptionPhase(StrEnum):
    """State of a subscription."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Nothing is delivered until a client resumes it; it continues from its mark."""
    ENDED = "ended"
    """Nothing will ever be delivered: its receiver wants no more, or the history is gone."""


PHASES: Mapping[str, SubscriptionPhase] = {str(each): each for each in SubscriptionPhase}


class Replay(NamedTuple):
    """Progress of sending the documents that existed at first: the last one that was sent.

    factory: of that document. Both are "" before the first one.
    """

    factory: str = ""
    link: str = ""
    version: int = -1


class Mark(NamedTuple):
    """Position up to which the receiver has taken all changes. position: token of a feed.

    replay: progress of sending the documents as of that position; None once all are sent.
    """

    position: str
    replay: Replay | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionState:
    """State of the document.

    before: whether to send each change with the body of the version before. user: its creator, ""
    on nodes without an access file. sealed: the encrypted secret. why: reason of a pause or an end.
    earliest: first position of the feed, if the subscription has ended because the history after
    its mark is gone. delivered: changes that the receiver has taken, repetitions included.
    expires_us: since 1970, 0 for never.
    """

    path: str
    callback: str
    where: str = ""
    before: bool = False
    user: str = ""
    sealed: str
    mark: Mark
    delivered: int = 0
    phase: SubscriptionPhase = SubscriptionPhase.ACTIVE
    why: str = ""
    earliest: str = ""
    expires_us: int = 0

    def state(self) -> State:
        optional: State = {EXPIRY: self.expires_us} if self.expires_us else {}
        if self.before:
            optional["before"] = True
        return {
            "path": self.path,
            "callback": self.callback,
            "where": self.where,
            "user": self.user,
            "sealedSecret": self.sealed,
            "state": str(self.phase),
            "why": self.why,
            "delivered": self.delivered,
            "position": self.mark.position,
            "replay": list(self.mark.replay) if self.mark.replay is not None else None,
            "earliest": self.earliest,
            **optional,
        }


def subscription_of(state: State) -> SubscriptionState:
    """Return the subscription in a document's state. Raises Refusal if it is not one."""
    fields = Fields(state)
    phase = PHASES.get(fields.text("state"))
    if phase is None:
        raise Malformed(f"`state` must be one of {', '.join(SubscriptionPhase)}")
    found = SubscriptionState(
        path=fields.text("path"),
        callback=fields.text("callback"),
        where=fields.text("where"),
        before=fields.flag("before", default=False),
        user=fields.text("user"),
        sealed=fields.text("sealedSecret"),
        mark=_mark(fields),
        delivered=fields.whole("delivered", 0, NUMBER_MAX),
        phase=phase,
        why=fields.text("why"),
        earliest=fields.text("earliest"),
        expires_us=fields.whole(EXPIRY, 0, EXPIRY_US_MAX, default=0),
    )
    fields.end()
    return found


def read_subscription(state: bytes) -> SubscriptionState | None:
    """Return the subscription in a document; None if it is not one."""
    try:
        return subscription_of(json.load(state))
    except (Refusal, BadRequest):
        return None


def _mark(fields: Fields) -> Mark:
    position, replay = fields.text("position"), fields.value("replay")
    if replay is None:
        return Mark(position)
    try:
        factory, link, version = replay
    except (TypeError, ValueError):
        raise Malformed("`replay` must be [factory, link, version]") from None
    if not isinstance(factory, str) or not isinstance(link, str) or type(version) is not int:
        raise Malformed("`replay` must be [factory, link, version]")
    return Mark(position, Replay(factory, link, version))


def advance_request(mark: Mark, delivered: int) -> State:
    """Return the PATCH that stores the progress of a subscription."""
    return {"kind": "AdvanceRequest", **_progress(mark, delivered)}


def pause_request(mark: Mark, delivered: int, why: str) -> State:
    return {"kind": "PauseRequest", **_progress(mark, delivered), "why": why[:WHY_CHARACTERS_MAX]}


def end_request(mark: Mark, delivered: int, why: str, earliest: str) -> State:
    """Return the PATCH that ends a subscription at a mark. earliest: start of the feed, or ""."""
    progress = _progress(mark, delivered)
    why = why[:WHY_CHARACTERS_MAX]
    return {"kind": "EndRequest", **progress, "why": why, "earliest": earliest}


def _progress(mark: Mark, delivered: int) -> State:
    replay = list(mark.replay) if mark.replay is not None else None
    return {"position": mark.position, "replay": replay, "delivered": delivered}


def _advance(before: SubscriptionState, request: Fields) -> SubscriptionState:
    if not request.has("position"):
        return before
    delivered = request.whole("delivered", before.delivered, NUMBER_MAX)
    return replace(before, mark=_mark(request), delivered=delivered)


def _pause(before: SubscriptionState, request: Fields) -> SubscriptionState:
    why = request.text("why", default="a client has asked for it")
    if before.phase is SubscriptionPhase.PAUSED:
        return before
    return replace(_advance(before, request), phase=SubscriptionPhase.PAUSED, why=why)


def _end(before: SubscriptionState, request: Fields) -> SubscriptionState:
    why, earliest = request.text("why"), request.text("earliest")
    after = _advance(before, request)
    return replace(after, phase=SubscriptionPhase.ENDED, why=why, earliest=earliest)


def _resume(before: SubscriptionState, request: Fields) -> SubscriptionState:
    return replace(before, phase=SubscriptionPhase.ACTIVE, why="")


CHANGES: Mapping[str, Callable[[SubscriptionState, Fields], SubscriptionState]] = {
    "AdvanceRequest": _advance,
    "PauseRequest": _pause,
    "EndRequest": _end,
    "ResumeRequest": _resume,
}
"""Kind of a PATCH -> function that returns the changed subscription. An ended one never changes."""


class SubscriptionService:
    """The service of subscriptions' documents."""

    options = ServiceOptions(path=SUBSCRIPTIONS, kind=KIND, put_creates=False, methods=())
    checks = True

    def check(self, state: State) -> None:
        subscription_of(state)

    def patch(self, state: State, change: State) -> State | None:
        """Change a subscription by the kind of the request; return None if nothing changes."""
        request = Fields(change)
        make = CHANGES.get(request.text("kind"))
        if make is None:
            raise Malformed(f"`kind` must be one of {', '.join(CHANGES)}")
        before = subscription_of(state)
        if before.phase is SubscriptionPhase.ENDED:
            raise Refusal(
                "the subscription has ended: create another one", status=409, code="conflict"
            )
        after = make(before, request)
        request.end()
        return None if after == before else after.state()
