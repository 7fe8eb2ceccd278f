"""The session machine: a node's part in leases, elections, locks, groups and roles.

`step(event, now)` returns the effects, in the order in which they must be performed. It never
waits, and reads no clock. It stores nothing: durable state is in documents of level 3, which it
reads and changes as a client. This file only dispatches; each rule has its own file, named in
`docstore/sessions/__init__.py`.
"""

from random import Random
from typing import assert_never

from docstore.machines.core import ClientMachine
from docstore.machines.events import (
    LinkLost,
    Noticed,
    OperationAnswered,
    Received,
    Surveyed,
    Tick,
    TurnEnded,
)
from docstore.machines.updates import Updates
from docstore.machines.view import MachineView
from docstore.model.document import Row
from docstore.services.group_document import GROUPS, ROLES
from docstore.services.lock_queue import ELECTIONS, LOCKS
from docstore.sessions.calling import Calls
from docstore.sessions.confirming import Confirming
from docstore.sessions.coordinating import Coordinating
from docstore.sessions.core import Core
from docstore.sessions.effects import SessionEffect
from docstore.sessions.events import Asked, Confirmed, SessionEvent
from docstore.sessions.kafka_coordinating import KafkaCoordinating
from docstore.sessions.leasing import Leasing
from docstore.sessions.lock_hand_over import Promoting
from docstore.sessions.owned import OwnedDocuments, Part
from docstore.sessions.timing import SessionsConfig
from docstore.sessions.waiting import Waiting
from docstore.wire.sessions_messages import Call, Calling, Reply


class Sessions(ClientMachine[SessionEvent, SessionEffect, Calling, Core]):
    """Sessions at one node: owner of their documents, and entry node of clients."""

    def __init__(
        self,
        node_id: str,
        *,
        view: MachineView,
        rng: Random,
        config: SessionsConfig | None = None,
        now: float = 0.0,
    ) -> None:
        self.core = core = Core(
            node_id, view=view, rng=rng, config=config or SessionsConfig(), now=now
        )
        self.owned = OwnedDocuments(core, self._noted)
        self.updates = Updates(core, self.owned.learn)
        self.confirming = Confirming(core, self.owned)
        self.calls = Calls(core)
        self.waiting = Waiting(core, self.owned, self.confirming)
        self.calls.add(self.waiting.calls)
        self.leasing = Leasing(core, self.owned, self.confirming, self.updates)
        promoting = [
            Promoting(path, core, self.owned, self.updates, waiting=self.waiting)
            for path in (ELECTIONS, LOCKS)
        ]
        kafka = KafkaCoordinating(core, self.updates, confirming=self.confirming)
        coordinating = [
            Coordinating(
                core, self.updates, confirming=self.confirming, waiting=self.waiting,
                path=path, kafka=kafka if path == GROUPS else None,
            )
            for path in (GROUPS, ROLES)
        ]  # fmt: skip
        self.groups = coordinating[0]
        self.parts: tuple[Part, ...] = (self.leasing, *promoting, *coordinating)
        for part in self.parts:
            self.owned.add(part)
            self.calls.add(part.calls)

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths below which the parts keep their documents."""
        return tuple(part.path for part in self.parts)

    def takes(self, link: str) -> bool:
        """Say whether a part keeps this document."""
        return self.owned.part_of(link) is not None

    def has_use_for(self, row: Row) -> bool:
        """Say whether a decided row can change anything here, so that Noticed is worth a step."""
        return self.owned.has_use_for(row)

    def _stalled(self, passed_s: float) -> None:  # Tests replace this.
        """Count a stall of this process, during which no deadline has come nearer."""
        self.core.counters["pauses"] += 1

    @property
    def wants_turn(self) -> bool:
        """Say whether questions wait for TurnEnded."""
        return self.confirming.has_more

    def _dispatch(self, event: SessionEvent) -> None:
        match event:
            case Received(sender, message):
                self._receive(sender, message)
            case Asked():
                self.calls.ask(event)
            case TurnEnded():
                self.confirming.end_turn()
            case OperationAnswered(token, answer):
                self.core.told(token, answer)
            case Noticed(row):
                self.owned.learn(row)
            case Confirmed(token, owners):
                self.core.confirmed(token, owners)
            case Tick():
                self._tick()
            case Surveyed(token, rows):
                self.owned.surveyed(token, rows)
            case LinkLost(peer):
                self.calls.link_lost(peer)
            case _:
                assert_never(event)

    def _noted(self, link: str) -> None:
        self.waiting.noted(link)

    def _receive(self, sender: str, message: Calling) -> None:
        match message:
            case Call():
                self.calls.called(sender, message)
            case Reply():
                self.calls.replied(sender, message)
            case _:
                assert_never(message)

    def _tick(self) -> None:
        self.owned.tick()
        for part in self.parts:
            part.tick()
        self.updates.tick()
        self.waiting.tick()
        self.calls.tick()
