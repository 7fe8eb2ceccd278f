"""The sessions of one simulated node: `Sessions`, which has no disk."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

import msgpack

from docstore.machines.effects import Ask, Give, Send, Survey
from docstore.machines.events import (
    LinkLost,
    Noticed,
    OperationAnswered,
    Received,
    Surveyed,
    Tick,
    TurnEnded,
)
from docstore.model.document import Row
from docstore.model.operation import Answer
from docstore.sessions.core import Owners
from docstore.sessions.effects import Confirm
from docstore.sessions.events import Asked, Confirmed, SessionEvent
from docstore.sessions.machine import Sessions
from docstore.sessions.timing import SessionsConfig
from docstore.sessions.waiting import WaitingCall
from docstore.testing.simulation.world import World
from docstore.wire.sessions_messages import Calling, Reply
from tests.sim.clocks import LocalClock
from tests.sim.companion import Documents, Node
from tests.sim.process import TICK_S


class Owned(Documents, Protocol):
    """The group's documents, and their owners as a majority confirms them."""

    def confirm(
        self, node: str, links: Sequence[str], timeout_s: float, told: Callable[[Owners], None]
    ) -> None: ...


class Keeper:
    """One node's sessions: each life has a new machine without memory."""

    def __init__(
        self,
        node: Node,
        world: World,
        config: SessionsConfig,
        documents: Owned,
        send: Callable[[str, int, str, Calling], None],
    ) -> None:
        self.node = node
        self.name = node.name
        self.clock = LocalClock(world, Random(f"clock {world.seed} {node.name}"))
        self.sessions: Sessions
        self.after_step: Callable[[Keeper], None] = lambda keeper: None
        self._world = world
        self._config = config
        self._documents = documents
        self._send = send
        self._lives = 0
        self._requests = 0
        self._turn = False
        self._stash: list[SessionEvent] = []
        self._answers: dict[int, Callable[[Reply], None]] = {}

    # Lives

    def start(self) -> None:
        """Begin a life."""
        self._lives += 1
        self._turn = False
        self._stash = []
        self._answers = {}
        self.sessions = Sessions(
            self.name,
            view=self._documents.view(self.name),
            rng=Random(f"sessions {self._world.seed} {self.name} {self._lives}"),
            config=self._config,
            now=self.clock.now(),
        )
        self._world.after(self._world.rng.random() * TICK_S, self._tick, self.node.life)

    def crash(self) -> None:
        """Keep nothing: the next life has a new machine."""

    def resume(self) -> None:
        """Resume; the timers or the queued events come first, at random."""
        stash, self._stash = self._stash, []
        if self._world.rng.random() < 0.5:
            self.feed(Tick())
        for event in stash:
            self.feed(event)

    # Events for the machine

    def linked(self, peer: str) -> None:
        """Ignore that a connection is made."""

    def unlinked(self, peer: str) -> None:
        """Feed that a connection is lost."""
        self.feed(LinkLost(peer))

    def received(self, sender: str, message: Calling) -> None:
        """Feed a message as a frame brings it: lists as tuples, and no types in them."""
        fields = msgpack.unpackb(msgpack.packb(tuple(message)), use_list=False)
        self.feed(Received(sender, type(message)(*fields)))

    def noticed(self, row: Row) -> None:
        """Feed a decided version of a document, whether or not the machine has use for it.

        A real node feeds only what its machine has use for: the rest must have no effect.
        """
        if self.sessions.takes(row.link):
            is_of_use = self.node.paused or self.sessions.has_use_for(row)
            self.feed(Noticed(row))
            assert is_of_use or row.slot not in self.sessions.owned._tables, row.link

    def call(
        self,
        link: str,
        kind: str,
        argument: Any,
        *,
        timeout_s: float,
        answered: Callable[[Reply], None],
    ) -> None:
        """Ask the owner of a document; `answered` is called once, if this life lasts."""
        self._requests += 1
        self._answers[self._requests] = answered
        deadline = self.clock.now() + timeout_s
        self.feed(Asked(self._requests, link, kind, argument, deadline))

    def feed(self, event: SessionEvent) -> None:
        """Give the machine an event, and perform what it asks."""
        if not self.node.up:
            return
        if self.node.paused:
            self._stash.append(event)
            return
        for effect in self.sessions.step(event, self.clock.now()):
            self._perform(effect)
        self.after_step(self)
        if not self._turn:
            self._turn = True
            self._world.after(self._world.rng.random() * 0.0003, self._end_turn, self.node.life)

    def overdue(self) -> set[WaitingCall]:
        """Return the calls that wait although their answer is known here. Changes nothing.

        Calls of group members are not among them: a part may change without the document, and
        members ask again with every pulse.
        """
        view, tables = self.sessions.core.view, self.sessions.owned._tables
        found = set()
        for link, waiting in self.sessions.waiting._waiters.items():
            table = tables.get(view.slot_of(link))
            known = None if table is None else table.documents.get(link)
            if known is not None and known.is_sure and known.epoch == view.own_epoch(link):
                found |= {
                    waiter
                    for waiter in waiting
                    if waiter.served.kind in ("turn", "wait") and waiter.wanted(known) is not None
                }
        return found

    def _perform(self, effect: Any) -> None:
        world, life = self._world, self.node.life
        match effect:
            case Send(to, message):
                self._send(self.name, life, to, message)
            case Ask(token, operation, timeout_s):
                self._documents.ask(
                    self.name, operation, timeout_s, lambda answer: self._told(life, token, answer)
                )
            case Confirm(token, links, timeout_s):
                self._documents.confirm(
                    self.name, links, timeout_s, lambda owners: self._confirmed(life, token, owners)
                )
            case Survey(token):
                world.after(0.001 + world.rng.random() * 0.01, self._survey, life, token)
            case Give(request, reply):
                self._answers.pop(request)(reply)
            case _:
                raise AssertionError(effect)

    def _end_turn(self, life: int) -> None:
        if life != self.node.life:
            return
        if self.node.paused:
            self._world.after(0.01, self._end_turn, life)
            return
        if self.sessions.wants_turn:
            self.feed(TurnEnded())
        self._turn = False

    def _tick(self, life: int) -> None:
        if life != self.node.life:
            return
        if not self.node.paused:
            self.feed(Tick())
        self._world.after(TICK_S, self._tick, life)

    # Answers, none of which arrives while effects are performed

    def _survey(self, life: int, token: int) -> None:
        if life == self.node.life:
            found: Sequence[Row] = self._documents.survey(self.name)
            self.feed(Surveyed(token, found))

    def _told(self, life: int, token: int, answer: Answer) -> None:
        self._world.after(0.0, self._feed_in, life, OperationAnswered(token, answer))

    def _confirmed(self, life: int, token: int, owners: Owners) -> None:
        self._world.after(0.0, self._feed_in, life, Confirmed(token, owners))

    def _feed_in(self, life: int, event: SessionEvent) -> None:
        if life == self.node.life:
            self.feed(event)
