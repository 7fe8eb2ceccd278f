"""Removal of one rule of agendas at a time, from outside: the runs must notice each."""

from contextlib import AbstractContextManager
from itertools import count
from typing import Any

from docstore.agendas import delivering
from docstore.agendas.delivering import Delivering
from docstore.agendas.firing import Firing
from docstore.agendas.known import Known, KnownDocuments
from docstore.documents.write_path import handle
from docstore.model.agenda import Agenda, Effect, Timer
from tests.sim.agendas import Shape
from tests.sim.taken_away import Ablation, changed, nothing

USUAL = Shape()
DELUDED = Shape(kinds=("delude", "delude", "pause", "cut"), trouble=2.0)
TROUBLED = Shape(kinds=(), trouble=3.0)
CRASHES = Shape(kinds=("crash", "move"))


_number = count()


def _of_its_name(timer: Timer, agenda: Agenda) -> bool:
    return any(each.name == timer.name for each in agenda.timers)


def _believed(self: KnownDocuments, rows: Any) -> None:
    """Treat the rows of a search as decided."""
    for row in rows:
        self.learn(row)


def _anew(link: str, effect: Effect) -> str:
    """Return another identity for each attempt."""
    return str(next(_number))


def _next_anyway(self: Delivering, known: Known) -> None:
    """Treat an effect of unknown outcome as delivered."""
    effect = delivering._next(known)
    assert effect is not None
    self._over(known, effect)


def _all(self: Delivering, known: Known) -> int:
    return max([known.delivered, *(each.number for each in known.agenda.effects)])


RULES: dict[str, Ablation] = {
    "fired-by-name": Ablation("TI1", ((handle, "is_due", _of_its_name),), DELUDED),
    "not-found-by-the-next-owner": Ablation(
        "TI1", ((KnownDocuments, "_survey", nothing),), CRASHES
    ),
    "believed-as-found": Ablation("EF4", ((KnownDocuments, "_read", _believed),), CRASHES),
    "fired-only-once": Ablation("TI1", ((Firing, "_later", nothing),), TROUBLED),
    "without-identity": Ablation("EF4", ((delivering, "identity_of", _anew),), USUAL),
    "delivered-if-unknown": Ablation("EF", ((Delivering, "_again", _next_anyway),), USUAL),
    "settled-before-delivery": Ablation("EF", ((Delivering, "until", _all),), CRASHES),
}


def without(name: str) -> AbstractContextManager[None]:
    """Run the body without a rule."""
    return changed(RULES[name])
