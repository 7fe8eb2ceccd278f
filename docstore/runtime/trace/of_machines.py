"""Trace tables: the events and effects that machines share, and those of sessions and webhooks."""

from operator import itemgetter
from typing import Any, get_args, get_origin

from docstore.agendas import effects as agenda_effects
from docstore.agendas import events as agenda_events
from docstore.machines import effects, events
from docstore.machines.effects import Give
from docstore.runtime.trace.brief import (
    OCCASION,
    REPEATED,
    ROUTINE,
    TURN,
    Brief,
    BriefKind,
    Shape,
    Table,
    facts,
    items,
)
from docstore.sessions import effects as session_effects
from docstore.sessions import events as session_events
from docstore.subscriptions import deliveries
from docstore.subscriptions import effects as webhook_effects
from docstore.subscriptions import events as webhook_events
from docstore.wire import sessions_messages

_ASK = BriefKind("Ask", tuple("token verb link trace".split()))


def _ask(effect: effects.Ask) -> Brief:
    operation = effect.operation
    return _ASK, (effect.token, operation.verb, operation.link, operation.trace), ()


def answers(name: str) -> Shape:
    return items(name, OCCASION, "answers", "token", of=itemgetter(slice(0, 1)))


_COMMON: Table = {
    events.Received: None,
    events.LinkMade: facts("LinkMade", TURN, "peer"),
    events.LinkLost: facts("LinkLost", TURN, "peer"),
    events.Tick: facts("Tick", REPEATED),
    events.TurnEnded: facts("TurnEnded", OCCASION),
    events.Room: facts("Room", TURN, "has_room"),
    events.DrainAsked: facts("DrainAsked", TURN),
    events.OperationAnswered: facts(
        "OperationAnswered", ROUTINE, "token answer.status answer.code", names="token status code"
    ),
    events.Surveyed: items("Surveyed", OCCASION, "rows", "slot n link", of=itemgetter(0, 1, 4)),
    events.Noticed: facts(
        "Noticed", ROUTINE, "row.slot row.n row.link row.version", names="slot n link version"
    ),
    effects.Send: None,
    effects.Ask: Shape(ROUTINE, _ask),
    effects.Survey: facts("Survey", OCCASION, "token"),
    effects.Alarm: facts("Alarm", TURN, "what"),
}
"""Events and effects that look the same in the traces of all machines."""


def common(*unions: Any) -> Table:
    """Return the shapes of a machine's shared events and effects.

    unions: its events, its effects.
    """
    known = {get_origin(each) or each for union in unions for each in get_args(union)}
    return {each: shape for each, shape in _COMMON.items() if each in known}


def _alone(link: str) -> tuple[str]:
    return (link,)


SESSIONS: Table = {
    **common(session_events.SessionEvent, session_effects.SessionEffect),
    sessions_messages.Call: facts("Call", ROUTINE, "id link kind trace"),
    sessions_messages.Reply: facts("Reply", ROUTINE, "id status code"),
    session_events.Confirmed: facts("Confirmed", OCCASION, "token"),
    session_events.Asked: facts("Asked", ROUTINE, "request link kind trace"),
    Give: facts(
        "Give", ROUTINE, "request outcome.status outcome.code", names="request status code"
    ),
    session_effects.Confirm: items("Confirm", ROUTINE, "links", "link", of=_alone, beside="token"),
}
"""All events, effects and messages of `docstore/sessions`; never the argument of a call."""

AGENDAS: Table = {
    **common(agenda_events.AgendaEvent, agenda_effects.AgendaEffect),
    agenda_events.Posted: facts("Posted", ROUTINE, "token status why"),
    agenda_effects.Post: facts(
        "Post", ROUTINE, "token link effect.number effect.kind", names="token link number kind"
    ),
    agenda_effects.GiveUp: facts(
        "GiveUp", TURN, "link effect.number status why", names="link number status why"
    ),
}
"""All events and effects of `docstore/agendas`; never a body or a URL."""

_CALL = BriefKind("Call", ("bytes",))
_SAVE = BriefKind("Save", ("change",))


def _call(effect: webhook_effects.Call) -> Brief:
    return _CALL, len(effect.lines), ()


def _save(effect: webhook_effects.Save) -> Brief:
    return _SAVE, effect.change["kind"], ()


WEBHOOKS: Table = {
    events.Tick: facts("Tick", REPEATED),
    deliveries.DeliveryEvent: None,
    deliveries.DeliveryEffect: None,
    webhook_events.Began: facts("Began", TURN, "subscription.path", names="path"),
    webhook_events.BatchReceived: facts("BatchReceived", ROUTINE, "rows"),
    webhook_events.ReadFailed: facts("ReadFailed", ROUTINE, "why"),
    webhook_events.HistoryGone: facts("HistoryGone", TURN, "why"),
    webhook_events.Confirmed: facts("Confirmed", ROUTINE, "is_same may_read"),
    webhook_events.Called: facts("Called", ROUTINE, "status why"),
    webhook_events.Saved: facts("Saved", ROUTINE),
    webhook_events.Unsaved: facts("Unsaved", TURN),
    webhook_events.Unchanged: facts("Unchanged", ROUTINE),
    webhook_events.Woken: facts("Woken", ROUTINE, "leaves"),
    webhook_effects.Read: facts("Read", ROUTINE, "rows"),
    webhook_effects.Confirm: facts("Confirm", ROUTINE),
    webhook_effects.Call: Shape(ROUTINE, _call),
    webhook_effects.Save: Shape(ROUTINE, _save),
    webhook_effects.Wait: facts("Wait", ROUTINE, "until for_news"),
    webhook_effects.Leave: facts("Leave", TURN),
}
"""All events and effects of `docstore/subscriptions`; never a change, a secret or a URL."""
