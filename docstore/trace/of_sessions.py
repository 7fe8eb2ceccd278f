"""What is kept of the steps of the session machine: what is asked about, never what with."""

from collections.abc import Mapping

from docstore.sessions import effects, events, messages
from docstore.trace.brief import OCCASION, REPEATED, ROUTINE, TURN, Shape, Table, facts, items
from docstore.trace.of_streams import BESIDE, SURVEYED


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
