"""The trace of the machine of webhooks: never a change, a secret or a URL."""

from docstore.machines.events import Tick
from docstore.runtime.trace.brief import (
    REPEATED,
    ROUTINE,
    TURN,
    Brief,
    BriefKind,
    Shape,
    Table,
    facts,
)
from docstore.subscriptions import deliveries, effects, events

_CALL = BriefKind("Call", ("bytes",))
_SAVE = BriefKind("Save", ("change",))


def _call(effect: effects.Call) -> Brief:
    return _CALL, len(effect.lines), ()


def _save(effect: effects.Save) -> Brief:
    return _SAVE, effect.change["kind"], ()


TABLE: Table = {
    Tick: facts("Tick", REPEATED),
    deliveries.Happened: None,
    deliveries.Wanted: None,
    events.Began: facts("Began", TURN, "subscription.path", names="path"),
    events.Came: facts("Came", ROUTINE, "rows"),
    events.Unread: facts("Unread", ROUTINE, "why"),
    events.HistoryGone: facts("HistoryGone", TURN, "why"),
    events.Confirmed: facts("Confirmed", ROUTINE, "is_same may_read"),
    events.Called: facts("Called", ROUTINE, "status why"),
    events.Saved: facts("Saved", ROUTINE),
    events.Unsaved: facts("Unsaved", TURN),
    events.Unchanged: facts("Unchanged", ROUTINE),
    events.Woken: facts("Woken", ROUTINE, "leaves"),
    effects.Read: facts("Read", ROUTINE, "rows"),
    effects.Confirm: facts("Confirm", ROUTINE),
    effects.Call: Shape(ROUTINE, _call),
    effects.Save: Shape(ROUTINE, _save),
    effects.Wait: facts("Wait", ROUTINE, "until for_news"),
    effects.Leave: facts("Leave", TURN),
}
"""The events and effects of `docstore/subscriptions`."""
