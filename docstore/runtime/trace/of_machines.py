"""The trace of events and effects that more than one machine knows."""

from operator import itemgetter
from typing import Any, get_args, get_origin

from docstore.machines import effects, events
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

_ASK = BriefKind("Ask", tuple("token verb link trace".split()))


def _ask(effect: effects.Ask) -> Brief:
    operation = effect.operation
    return _ASK, (effect.token, operation.verb, operation.link, operation.trace), ()


def answers(name: str) -> Shape:
    """Return the shape of the results of queries: their tokens."""
    return items(name, OCCASION, "answers", "token", of=itemgetter(slice(0, 1)))


_COMMON: Table = {
    events.Received: None,
    events.LinkMade: facts("LinkMade", TURN, "peer"),
    events.LinkLost: facts("LinkLost", TURN, "peer"),
    events.Tick: facts("Tick", REPEATED),
    events.TurnEnded: facts("TurnEnded", OCCASION),
    events.Room: facts("Room", TURN, "has_room"),
    events.DrainAsked: facts("DrainAsked", TURN),
    events.Told: facts(
        "Told", ROUTINE, "token answer.status answer.code", names="token status code"
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
"""The events and effects that look the same in the traces of all machines."""


def common(*unions: Any) -> Table:
    """Return the shapes of those that a machine has. unions: its events, its effects."""
    known = {get_origin(each) or each for union in unions for each in get_args(union)}
    return {each: shape for each, shape in _COMMON.items() if each in known}
