"""Actors without a lease or a turn that write, delete or hand on what others guard."""

from typing import Any

from docstore.model import json
from docstore.model.document import tag_of
from docstore.model.operation import Answer, Conditions, Operation
from docstore.ownership.by_store import Turns
from docstore.ownership.proof import lapse_s
from docstore.services.lock_queue import turns_of
from tests.sim.actors import Actor
from tests.sim.clocks import RATE_ERROR
from tests.sim.sessions_shapes import Shape


class Meddler(Actor):
    """A client that uses no tokens, as it may."""

    def __init__(self, name: str, arena: Any, shape: Shape) -> None:
        super().__init__(name, arena)
        self.shape = shape
        self._looks = 0

    def begin(self) -> None:
        """Act again after a random time."""
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
        """Delete an election without a holder and waiters, as a client may."""
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


class Operator(Actor):
    """An operator who hands on what another process leads, as `docstore election transfer` does."""

    def __init__(self, name: str, arena: Any, shape: Shape) -> None:
        super().__init__(name, arena)
        self.shape = shape

    def begin(self) -> None:
        """Look every now and then, until all is healed."""
        if self.shape.turns and self.world.now < self.shape.faults_s:
            self.later(0.5 + self.rng.random() * 3.0, self._look)

    def _look(self) -> None:
        link = self.rng.choice(self.shape.turns)
        self.submit(Operation(verb="GET", link=link), lambda answer: self._expire(link, answer))
        self.begin()

    def _expire(self, link: str, answer: Answer | None) -> None:
        row = None if answer is None or not answer.is_success else answer.row
        turns = Turns() if row is None else turns_of(json.load(row.state))
        if turns.holder is None or not turns.queue:
            return
        self.arena.watch.expires(turns.holder.lease)
        expire = json.dump({"kind": "ExpireRequest"})
        operation = Operation(verb="PATCH", link=turns.holder.lease, body=expire, media="handler")
        self.submit(operation, lambda said: self._wait(link, turns, said))

    def _wait(self, link: str, turns: Turns, said: Answer | None) -> None:
        if said is not None and said.is_success:
            wait_s = lapse_s(self.shape.window_s, RATE_ERROR)
            self.later(wait_s, self._transfer, link, turns)

    def _transfer(self, link: str, turns: Turns) -> None:
        """Hand on the lead, which may have passed on meanwhile: then the token is another one."""
        holder, to = turns.holder, self.rng.choice(turns.queue).name
        assert holder is not None
        self.arena.watch.may_transfer(link, to)
        self.arena.watch.resigns(link, holder.name, holder.lease)
        asked = {
            "kind": "TransferRequest", "candidate": holder.name, "token": turns.token, "to": to,
        }  # fmt: skip
        operation = Operation(verb="PATCH", link=link, body=json.dump(asked), media="handler")
        self.submit(operation, self._told)

    def _told(self, answer: Answer | None) -> None:
        if answer is not None and answer.is_success:
            self.arena.watch.count("leads_handed_on")
