"""The streams of one simulated node: `Partitions` on a disk that forgets what was not synced."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

import msgpack

from docstore.machines.effects import Alarm, Ask, Give, Persist, Read, Send, Survey
from docstore.machines.events import (
    LinkLost,
    LinkMade,
    Noticed,
    OperationAnswered,
    Persisted,
    QueriesAnswered,
    Received,
    Room,
    Surveyed,
    Tick,
    TurnEnded,
)
from docstore.machines.view import MachineView
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.storage.partitions import (
    DropPartition,
    ErasePartition,
    PartitionQuery,
    PartitionWrite,
    TrimPartition,
)
from docstore.streams.effects import Outcome
from docstore.streams.events import StreamEvent
from docstore.streams.partitions import Partitions
from docstore.streams.timing import StreamsConfig
from docstore.testing.simulation.world import World
from docstore.wire.streams_messages import Streaming
from tests.memory.partition_ledger import PartitionLedger
from tests.sim.process import EPOCH_US, TICK_S

AGAIN_S = 0.1
"""Between two attempts to write to a full disk."""


class Node(Protocol):
    """The node that streams are part of: a `Process` or a `Host`."""

    name: str
    up: bool
    paused: bool
    life: int
    disk_is_full: bool
    disk_slowness: float
    clock_ahead_us: int


class Documents(Protocol):
    """The group's documents, through one node."""

    def ask(
        self, node: str, operation: Operation, timeout_s: float, told: Callable[[Answer], None]
    ) -> None: ...
    def survey(self, node: str) -> Sequence[Row]: ...
    def view(self, node: str) -> MachineView: ...


class Streamer:
    """One node's partitions: the disk survives a restart, the machine does not."""

    def __init__(
        self,
        node: Node,
        world: World,
        config: StreamsConfig,
        documents: Documents,
        send: Callable[[str, int, str, Streaming], None],
    ) -> None:
        self.node = node
        self.name = node.name
        self.disk = PartitionLedger()
        self.disks = 0
        """How many disks it has lost."""
        self.boot = 0
        self.era = 0
        """Grows with every start."""
        self.suspect: dict[str, str] = {}
        """Partition -> its copy on a disk that is older than what this node has promised."""
        self.alarms: list[str] = []
        self.counters: Counter[str] = Counter()
        """Counters of ended lives."""
        self.partitions: Partitions
        self.after_step: Callable[[Streamer, StreamEvent, Sequence[Any]], None] = (
            lambda streamer, event, effects: None
        )
        self.recovered: Callable[[Streamer], None] = lambda streamer: None
        self._world = world
        self._config = config
        self._documents = documents
        self._send = send
        self._requests = 0
        self._answers: dict[int, Callable[[Outcome], None]] = {}

    # Lives

    def start(self) -> None:
        """Begin a life on what the disk holds."""
        self.boot += 1
        self.era += 1
        self._turn = False
        self._writes: list[PartitionWrite] = []
        self._token = 0
        self._syncing: list[PartitionWrite] | None = None
        self._is_retrying = False
        self._stash: list[StreamEvent] = []
        self._answers = {}
        found = self.disk.recovered(self.boot)
        is_old = any(
            name in found.partitions and found.partitions[name].record.copy == copy
            for name, copy in self.suspect.items()
        )
        self.partitions = Partitions(
            self.name,
            self.disk.recovered(self.boot, is_old=is_old),
            view=self._documents.view(self.name),
            rng=Random(f"streams {self._world.seed} {self.name} {self.boot}"),
            config=self._config,
            now=self._world.now,
        )
        self.recovered(self)
        self._world.after(self._world.rng.random() * TICK_S, self._tick, self.node.life)

    def crash(self) -> None:
        """End this life; the batch that was being synced may be on the disk, or not."""
        self.counters.update(self.partitions.core.counters)
        if self._syncing is not None and not self._is_retrying and self._world.rng.random() < 0.5:
            self.disk.apply(self._syncing)
        self._syncing = None

    def resume(self) -> None:
        """Resume, with all that was queued."""
        stash, self._stash = self._stash, []
        for event in stash:
            self.feed(event)

    # Events for the machine

    def linked(self, peer: str) -> None:
        """Feed that a connection is made."""
        self.feed(LinkMade(peer))

    def unlinked(self, peer: str) -> None:
        """Feed that a connection is lost."""
        self.feed(LinkLost(peer))

    def received(self, sender: str, message: Streaming) -> None:
        """Feed a message as a frame brings it: lists as tuples, and no types in them."""
        fields = msgpack.unpackb(msgpack.packb(tuple(message)), use_list=False)
        self.feed(Received(sender, type(message)(*fields)))

    def noticed(self, row: Row) -> None:
        """Feed a decided version of a document."""
        self.feed(Noticed(row))

    def request(
        self, make: Callable[[int], StreamEvent], answered: Callable[[Outcome], None]
    ) -> None:
        """Feed a client's request; `answered` is called once, if this life lasts."""
        self._requests += 1
        self._answers[self._requests] = answered
        self.feed(make(self._requests))

    def feed(self, event: StreamEvent) -> None:
        """Give the machine an event, and perform what it asks."""
        if not self.node.up:
            return
        if self.node.paused:
            self._stash.append(event)
            return
        effects = self.partitions.step(event, self._world.now)
        self.after_step(self, event, effects)
        for effect in effects:
            self._perform(effect)
        self._sync()
        if not self._turn:
            self._turn = True
            self._world.after(self._world.rng.random() * 0.0003, self._end_turn, self.node.life)

    def _perform(self, effect: Any) -> None:
        world, life = self._world, self.node.life
        match effect:
            case Send(to, message):
                self._send(self.name, life, to, message)
            case Persist(token, writes):
                self._writes.extend(writes)
                self._token = token
            case Read(token, query):
                delay = 0.0002 + world.rng.random() * 0.002
                world.after(delay, self._look, life, token, query)
            case Ask(token, operation, timeout_s):
                self._documents.ask(
                    self.name, operation, timeout_s, lambda answer: self._told(life, token, answer)
                )
            case Survey(token):
                world.after(0.001 + world.rng.random() * 0.01, self._survey, life, token)
            case Give(request, outcome):
                answered = self._answers.pop(request, None)
                if answered is not None:
                    answered(outcome)
            case Alarm(what):
                self.alarms.append(f"{self.name}: {what}")
            case _:
                raise AssertionError(effect)

    def _end_turn(self, life: int) -> None:
        if life != self.node.life:
            return
        if self.node.paused:
            self._world.after(0.01, self._end_turn, life)
            return
        if self.partitions.wants_turn:
            self.feed(TurnEnded())
        self._turn = False
        if self.partitions.wants_turn:
            self._turn = True
            self._world.after(0.0001, self._end_turn, life)

    def _tick(self, life: int) -> None:
        if life != self.node.life:
            return
        if not self.node.paused:
            wall_us = EPOCH_US + int(self._world.now * 1e6) + self.node.clock_ahead_us
            self.feed(Tick(wall_us))
        self._world.after(TICK_S, self._tick, life)

    # Answers, none of which arrives while effects are performed

    def _look(self, life: int, token: int, query: PartitionQuery) -> None:
        if life == self.node.life:
            self.feed(QueriesAnswered([(token, self.disk.answer(query))]))

    def _survey(self, life: int, token: int) -> None:
        if life == self.node.life:
            self.feed(Surveyed(token, self._documents.survey(self.name)))

    def _told(self, life: int, token: int, answer: Answer) -> None:
        self._world.after(0.0, self._feed_in, life, OperationAnswered(token, answer))

    def _feed_in(self, life: int, event: StreamEvent) -> None:
        if life == self.node.life:
            self.feed(event)

    # The disk

    def _sync(self) -> None:
        """Begin the next commit if none is under way."""
        if self._syncing is not None or not self._writes:
            return
        self._syncing, self._writes = self._writes, []
        delay = (0.0005 + self._world.rng.random() * 0.006) * self.node.disk_slowness
        self._world.after(delay, self._synced, self.node.life, self._token)

    def _synced(self, life: int, token: int) -> None:
        if life != self.node.life:
            return
        assert self._syncing is not None
        if self.node.disk_is_full and not self._makes_room(self._syncing):
            if not self._is_retrying:
                self._is_retrying = True
                self.feed(Room(has_room=False))
            self._world.after(AGAIN_S, self._synced, life, token)
            return
        self.disk.apply(self._syncing)
        self._syncing = None
        self.feed(Persisted(token))
        if self._is_retrying:
            self._is_retrying = False
            self.feed(Room(has_room=True))
        self._sync()

    def _makes_room(self, writes: Sequence[PartitionWrite]) -> bool:
        return all(
            isinstance(write, TrimPartition | DropPartition | ErasePartition) for write in writes
        )

    # Disks that are lost, or are older than they should be; the node must be down

    def lose_disk(self) -> None:
        """Replace the disk by an empty one."""
        assert not self.node.up
        self.disk, self.suspect = PartitionLedger(), {}
        self.disks += 1

    def put_back(self, older: PartitionLedger) -> None:
        """Restore an earlier state of the disk; the node can detect that it is older."""
        assert not self.node.up
        self.disk = older.copy()
        found = self.disk.recovered(0).partitions
        self.suspect = {name: each.record.copy for name, each in found.items()}
        self.disks += 1
