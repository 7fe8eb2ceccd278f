"""What is kept of the steps of the session machine: what is asked about, never what with."""

from collections.abc import Mapping

from docstore.runtime.trace.brief import (
    OCCASION,
    REPEATED,
    ROUTINE,
    TURN,
    Shape,
    Table,
    facts,
    items,
)
from docstore.runtime.trace.of_streams import BESIDE, SURVEYED
from docstore.sessions import effects, events
from docstore.wire import sessions_messages as messages


def _alone(link: str) -> tuple[str]:
    return (link,)


MESSAGES: Mapping[type, Shape] = {
    messages.Call: facts("Call", ROUTINE, "id link kind trace"),
    messages.Reply: facts("Reply", ROUTINE, "id status code"),
}

TABLE: Table = {
    **BESIDE,
    **MESSAGES,
    events.Received: None,
    effects.Send: None,
    events.LinkLost: facts("LinkLost", TURN, "peer"),
    events.Tick: facts("Tick", REPEATED),
    events.TurnEnded: facts("TurnEnded", OCCASION),
    events.Surveyed: SURVEYED,
    events.Confirmed: facts("Confirmed", OCCASION, "token"),
    events.Asked: facts("Asked", ROUTINE, "request link kind trace"),
    effects.Give: facts(
        "Give", ROUTINE, "request reply.status reply.code", names="request status code"
    ),
    effects.Confirm: items("Confirm", ROUTINE, "links", "link", of=_alone, beside="token"),
}
"""Of all events, effects and messages of `docstore/sessions`."""
