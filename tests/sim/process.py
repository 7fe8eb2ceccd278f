"""One simulated process: a Replica on a disk that forgets what was not synced."""

from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Any, Protocol

from docstore.documents.effects import ChangeAnswered, Publish, ReadIndexAnswered, Reconfigured
from docstore.documents.events import DiskFilled, Event, PinsRead
from docstore.documents.replica import Replica
from docstore.documents.retention.pins import Pins
from docstore.documents.timing import ReplicaConfig
from docstore.machines.effects import Alarm, Give, Persist, Read, Send
from docstore.machines.events import (
    LinkLost,
    LinkMade,
    Persisted,
    QueriesAnswered,
    Room,
    Tick,
    TurnEnded,
)
from docstore.model.document import Row
from docstore.model.service import Service, ServiceOptions, State
from docstore.ownership.configuration import Configuration
from docstore.storage.store import Query, Write
from docstore.testing.simulation.world import World
from tests.memory.ledger import Ledger

EPOCH_US = 1_700_000_000_000_000
TICK_S = 0.05
READING_S = 2.0
"""Interval at which a replica gets the pins of the past."""


class Appending:
    """A service whose PATCH appends an id to a list: one read shows the whole history."""

    checks = False

    def __init__(self, level: int = 3, versions: int = 0) -> None:
        self.options = ServiceOptions(path="/t", kind="t", level=level, versions=versions)

    def check(self, state: State) -> None:
        """Accept every state."""

    def patch(self, state: State, change: State) -> State:
        """Append."""
        return {**state, "log": [*state.get("log", []), change["append"]]}


class Companion(Protocol):
    """A machine that starts and crashes with a process, beside its replica."""

    def start(self) -> None: ...
    def crash(self) -> None: ...
    def resume(self) -> None: ...
    def linked(self, peer: str) -> None: ...
    def unlinked(self, peer: str) -> None: ...
    def received(self, sender: str, message: Any) -> None: ...
    def noticed(self, row: Row) -> None: ...


def _nothing_blocks(slot: int) -> bool:
    return False


class Process:
    """A node: its disk survives a restart, its Replica does not."""

    def __init__(
        self,
        name: str,
        world: World,
        config: ReplicaConfig,
        send: Callable[[str, int, str, Any], None],
    ) -> None:
        self.name = name
        self.disk = Ledger()
        self.boot = 0
        self.disks = 0
        """How many disks it has lost; its store id tells them apart."""
        self.life = 0
        self.era = 0
        """Grows whenever memory goes back to what the disk says."""
        self.up = False
        self.paused = False
        self.resumed_at = 0.0
        self.level = 3
        """Level of the documents."""
        self.versions = 0
        """How many versions their factory keeps; 0: it does not say, and no pins are fed."""
        self.alarms: list[str] = []
        self.after_step: Callable[[Process], None] = lambda process: None
        self.reconfigured: Callable[[Configuration], None] = lambda configuration: None
        self.companion: Companion | None = None
        """Without one, no call is made and no number drawn."""
        self.services: Callable[[str], Service | None] = lambda link: None
        """Link -> its service, None for one of the simulation's own."""
        self.measured: set[str] = set()
        """Factories whose operations are measured."""
        self.blocks: Callable[[int], bool] = _nothing_blocks
        """Whether its companion needs a member that leaves a slot; reset with each life."""
        self._world = world
        self._config = config
        self._send = send
        self.disk_is_full = False
        """Whether commits fail for want of room."""
        self.clock_ahead_us = 0
        """By how much its wall clock is wrong."""
        self.disk_slowness = 1.0
        """Factor on the time of a commit."""
        self._stash: list[Event] = []
        self._answers: dict[int, Callable[[Any], None]] = {}
        self._requests = 0

    @property
    def store_id(self) -> str:
        """The identity of the disk."""
        return f"{self.name}.{self.disks}"

    @property
    def is_founded(self) -> bool:
        """Say whether it has learnt of a group."""
        return self.disk.configuration is not None

    def lose_disk(self) -> None:
        """Replace the disk by an empty one; the process must be down."""
        assert not self.up
        self.disk, self.disks, self.boot = Ledger(), self.disks + 1, 0

    def install(self, writes: Sequence[Write]) -> None:
        """Store what a node stores when it learns of its group."""
        self.disk.apply(writes)

    def start(self) -> None:
        """Begin a life on what the disk holds."""
        assert not self.up
        self.up, self.paused = True, False
        self.boot += 1
        self.life += 1
        self.era += 1
        self._turn = False
        self._writes: list[Write] = []
        self._token = 0
        self._syncing: list[Write] | None = None
        self._seemed_full = False
        self._stash = []
        self._answers = {}
        service = Appending(self.level, self.versions)
        self.blocks = _nothing_blocks
        self.replica = Replica(
            self.name,
            self.disk.recovered(self.store_id, self.boot),
            service_for=lambda link, since: self.services(link) or service,
            rng=Random(self._world.rng.random()),
            # A generator of its own, so that elections change no run without them.
            vote_rng=Random(f"{self._world.seed} {self.name} {self.boot}"),
            config=self._config,
            blocks=self._blocks,
            measured=self.measured,
            now=self._world.now,
        )
        self._world.after(self._world.rng.random() * TICK_S, self._tick, self.life)
        if self.versions:
            self.feed(PinsRead(Pins(-inf, {})))
            self._world.after(self._world.rng.random() * READING_S, self._learn, self.life)
        if self.companion is not None:
            self.companion.start()

    def _blocks(self, slot: int) -> bool:
        return self.blocks(slot)

    def crash(self) -> None:
        """End this life; the batch that was being synced may be on the disk, or not."""
        self.up = False
        self.life += 1
        if self._syncing is not None and self._world.rng.random() < 0.5:
            self.disk.apply(self._syncing)
        if self.companion is not None:
            self.companion.crash()

    def pause(self) -> None:
        """Pause; events queue."""
        self.paused = True

    def resume(self) -> None:
        """Resume, with all that was queued."""
        self.paused = False
        self.resumed_at = self._world.now
        stash, self._stash = self._stash, []
        for event in stash:
            self.feed(event)
        if self.companion is not None:
            self.companion.resume()

    def request(self, make: Callable[[int], Event], answered: Callable[[Any], None]) -> None:
        """Feed a client's request; `answered` is called once, if this life lasts."""
        self._requests += 1
        self._answers[self._requests] = answered
        self.feed(make(self._requests))

    def request_batch(
        self, make: Callable[[int], Event], answered: Sequence[Callable[[Any], None]]
    ) -> None:
        """Feed a client's batch; each of `answered` is called once, if this life lasts."""
        first = self._requests + 1
        self._requests += len(answered)
        self._answers.update(zip(range(first, first + len(answered)), answered, strict=True))
        self.feed(make(first))

    def feed(self, event: Event) -> None:
        """Give the replica an event, and perform what it asks."""
        if not self.up:
            return
        if self.companion is not None and isinstance(event, LinkMade | LinkLost):
            self._world.after(0.0, self._tell, self.life, event)
        if self.paused:
            self._stash.append(event)
            return
        for effect in self.replica.step(event, self._world.now):
            match effect:
                case Send(to, message):
                    self._send(self.name, self.life, to, message)
                case Persist(token, writes):
                    self._writes.extend(writes)
                    self._token = token
                case Read(token, query):
                    delay = 0.0002 + self._world.rng.random() * 0.002
                    self._world.after(delay, self._read, self.life, token, query)
                case Give(request, answer):
                    answered = self._answers.pop(request, None)
                    if answered is not None:
                        answered(answer)
                case Alarm(what):
                    self.alarms.append(what)
                case Reconfigured(configuration):
                    self.reconfigured(configuration)
                case Publish(row):
                    if self.companion is not None:
                        self._world.after(0.0, self._publish, self.life, row)
                case ReadIndexAnswered(request, found):
                    told = self._answers.pop(request, None)
                    if told is not None:
                        told(found)
                case ChangeAnswered():
                    pass
        self.after_step(self)
        self._sync()
        if not self._turn:
            self._turn = True
            self._world.after(self._world.rng.random() * 0.0003, self._end_turn, self.life)

    def _tell(self, life: int, event: LinkMade | LinkLost) -> None:
        if life == self.life and self.companion is not None:
            made = isinstance(event, LinkMade)
            (self.companion.linked if made else self.companion.unlinked)(event.peer)

    def _publish(self, life: int, row: Row) -> None:
        if life == self.life and self.companion is not None:
            self.companion.noticed(row)

    def _end_turn(self, life: int) -> None:
        if life != self.life:
            return
        if self.paused:
            self._world.after(0.01, self._end_turn, life)
            return
        if self.replica.wants_turn:
            self.feed(TurnEnded())
        self._turn = False
        if self.replica.wants_turn:
            self._turn = True
            self._world.after(0.0001, self._end_turn, life)

    def _sync(self) -> None:
        """Begin the next commit if none is under way."""
        if self._syncing is not None or not self._writes:
            return
        self._syncing, self._writes = self._writes, []
        delay = (0.0005 + self._world.rng.random() * 0.006) * self.disk_slowness
        self._world.after(delay, self._synced, self.life, self._token)

    def _synced(self, life: int, token: int) -> None:
        if life != self.life:
            return
        assert self._syncing is not None
        if self.disk_is_full:
            # The batch is rolled back, with all writes until the replica knows.
            self._world.after(0.001 + self._world.rng.random() * 0.02, self._filled, self.life)
            return
        self.disk.apply(self._syncing)
        self._syncing = None
        self.feed(Persisted(token))
        self._sync()

    def _filled(self, life: int) -> None:
        if life != self.life:
            return
        if self.paused:
            self._world.after(0.01, self._filled, life)
            return
        self._syncing, self._writes = None, []
        self.era += 1
        self.feed(DiskFilled(self.disk.recovered(self.store_id, self.boot)))
        self._sync()

    def _read(self, life: int, token: int, query: Query) -> None:
        if life == self.life:
            self.feed(QueriesAnswered([(token, self.disk.answer(query))]))

    def _look_for_room(self) -> None:
        """Feed whether the disk has room, once it changes; a full disk may seem to have some."""
        if self._seemed_full != self.disk_is_full:
            self._seemed_full = self.disk_is_full
            has_room = not self.disk_is_full or self._world.rng.random() < 0.5
            if self.replica.core.has_room != has_room:
                self.feed(Room(has_room))

    def _learn(self, life: int) -> None:
        """Feed the pins of the past, again and again."""
        if life == self.life:
            counts = dict.fromkeys(("/t", "/t:"), self.versions)
            self.feed(PinsRead(Pins(self._world.now, {}, counts)))
            self._world.after(READING_S, self._learn, life)

    def _tick(self, life: int) -> None:
        if life != self.life:
            return
        if not self.paused:
            self._look_for_room()
            self.feed(Tick(EPOCH_US + int(self._world.now * 1e6) + self.clock_ahead_us))
        self._world.after(TICK_S, self._tick, life)
