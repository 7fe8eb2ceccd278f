"""Actors without a lease or a turn, who write to and delete what others guard."""

from typing import Any

from docstore.model import json
from docstore.model.document import tag_of
from docstore.model.operation import Answer, Conditions, Operation
from docstore.services.lock_queue import turns_of
from tests.sim.actors import Actor
from tests.sim.sessions_shapes import Shape


class Meddler(Actor):
    """Somebody who knows nothing of tokens, and may do what it does."""

    def __init__(self, name: str, arena: Any, shape: Shape) -> None:
        super().__init__(name, arena)
        self.shape = shape
        self._looks = 0

    def begin(self) -> None:
        """Come back every now and then."""
        self.later(0.2 + self.rng.random() * 0.6, self._meddle)

    def _meddle(self) -> None:
        link = f"/t/{self.rng.randrange(self.shape.guarded)}"
        kinds = ("write", "delete", "look") if self.shape.turns else ("write", "delete")
        match self.rng.choice(kinds):
            case "write":
                state = json.dump({"by": self.name})
                self.submit(
                    Operation(verb="PUT", link=link, body=state, creates=True), lambda answer: None
                )
            case "delete":
                self.submit(Operation(verb="DELETE", link=link), lambda answer: None)
            case "look":
                turns = self.rng.choice(self.shape.turns)
                read = Operation(verb="GET", link=turns)
                self.submit(read, lambda answer: self._remove_empty(turns, answer))
        self.begin()

    def _remove_empty(self, turns: str, answer: Answer | None) -> None:
        """Delete an election that nobody holds and nobody waits for, as a client may."""
        row = None if answer is None or not answer.is_success else answer.row
        if row is None:
            return
        self._looks += 1
        self.arena.watch.seen(f"{self.name}.{self._looks}", row)
        found = turns_of(json.load(row.state))
        if found.holder is None and not found.queue:
            conditions = Conditions(match=[list(tag_of(row, 3))])
            self.submit(
                Operation(verb="DELETE", link=turns, conditions=conditions), lambda answer: None
            )
