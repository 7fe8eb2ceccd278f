"""The trace of the session machine: names and status codes, never the argument of a call."""

from collections.abc import Mapping

from docstore.machines.effects import Give
from docstore.runtime.trace.brief import (
    OCCASION,
    ROUTINE,
    Shape,
    Table,
    facts,
    items,
)
from docstore.runtime.trace.of_machines import common
from docstore.sessions import effects, events
from docstore.wire import sessions_messages as messages


def _alone(link: str) -> tuple[str]:
    return (link,)


MESSAGES: Mapping[type, Shape] = {
    messages.Call: facts("Call", ROUTINE, "id link kind trace"),
    messages.Reply: facts("Reply", ROUTINE, "id status code"),
}

TABLE: Table = {
    **common(events.SessionEvent, effects.SessionEffect),
    **MESSAGES,
    events.Confirmed: facts("Confirmed", OCCASION, "token"),
    events.Asked: facts("Asked", ROUTINE, "request link kind trace"),
    Give: facts(
        "Give", ROUTINE, "request outcome.status outcome.code", names="request status code"
    ),
    effects.Confirm: items("Confirm", ROUTINE, "links", "link", of=_alone, beside="token"),
}
"""All events, effects and messages of `docstore/sessions`."""
