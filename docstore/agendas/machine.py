"""The machine of agendas: fires timers and delivers effects for the documents of a node. Pure.

`step(event, now)` returns the effects, in the order in which they must be performed. It stores
nothing: what is durable is in documents of level 3.
"""

from random import Random
from typing import assert_never

from docstore.agendas.delivering import Delivering
from docstore.agendas.effects import AgendaEffect
from docstore.agendas.events import AgendaEvent, Posted
from docstore.agendas.firing import Firing
from docstore.agendas.known import Core, Known, KnownDocuments
from docstore.agendas.timing import AgendaTimes
from docstore.machines.events import Noticed, OperationAnswered, Surveyed, Tick, TurnEnded
from docstore.machines.view import MachineView


class Agendas:
    """The agendas of the documents of one node."""

    wants_turn = False

    def __init__(
        self,
        node_id: str,
        *,
        view: MachineView,
        rng: Random,
        times: AgendaTimes | None = None,
        now: float = 0.0,
    ) -> None:
        self.core = Core(node_id, view=view, rng=rng, times=times or AgendaTimes(), now=now)
        self.documents = KnownDocuments(self.core, self._changed)
        self.firing = Firing(self.core, self.documents)
        self.delivering = Delivering(self.core, self.documents)

    def step(self, event: AgendaEvent, now: float) -> list[AgendaEffect]:
        """Return the effects of `event` at `now` (monotonic seconds), in order."""
        core = self.core
        core.now = now
        match event:
            case Noticed(row):
                self.documents.learn(row)
            case OperationAnswered(token, answer):
                core.told(token, answer)
                if answer.status < 500:  # A read that failed waits for the next tick.
                    self.documents.go_on()
            case Posted(token, status, why):
                self.delivering.posted(token, status, why)
            case Surveyed(token, rows):
                self.documents.surveyed(token, rows)
            case Tick():
                self.documents.tick()
                self.firing.go_on()
                self.delivering.tick()
            case TurnEnded():
                pass
            case _:
                assert_never(event)
        effects, core.out = core.out, []
        return effects

    def _changed(self, known: Known) -> None:
        self.firing.changed(known)
        self.delivering.changed(known)
