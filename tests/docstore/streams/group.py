"""A few partition machines in one process, without randomness, to test one rule at a time.

Messages arrive in order, disks keep what they are given at once, documents are one register, and
nothing takes time but ticks. `cut`, `hold_disk` and `crash` make the exceptions.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import msgpack

from docstore.documents.write_path.handle import Refused, Unchanged, handle
from docstore.machines.effects import Alarm, Ask, Give, Persist, Read, Send, Survey
from docstore.machines.events import (
    DrainAsked,
    LinkLost,
    LinkMade,
    Noticed,
    OperationAnswered,
    Persisted,
    QueriesAnswered,
    Received,
    Surveyed,
    Tick,
    TurnEnded,
)
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.model.streams_batch import header_of
from docstore.storage.partitions import Batches
from docstore.streams.effects import Outcome, Problem, Records
from docstore.streams.events import FetchAsked, ProduceAsked, StreamEvent
from docstore.streams.forms import records_of
from docstore.streams.leading import Leading
from docstore.streams.log import PartitionLog
from docstore.streams.partitions import Partitions
from docstore.streams.replica_set import (
    PartitionService,
    ReplicaSet,
    is_partition,
    partition_link,
    partition_name,
    replica_set_of,
)
from docstore.streams.topic import TopicService
from docstore.wire.streams_messages import Produced
from tests.docstore.streams.times import config_of
from tests.memory.partition_ledger import PartitionLedger

LINK = partition_link("t", 0)
NAME = partition_name(LINK, "i1")
TICK_S = 0.05
START_US = 1_700_000_000_000_000


class Sight:
    """A node's view of the group."""

    lacks_quorum = False
    is_draining = False

    def __init__(self, group: "Group", me: str) -> None:
        self._group = group
        self._me = me

    @property
    def terms_opened(self) -> int:
        return self._group.terms_opened

    @property
    def leavers(self) -> frozenset[str]:
        return self._group.leavers

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._group.names)

    @property
    def zones(self) -> dict[str, str]:
        return dict.fromkeys(self._group.names, "")

    def is_alive(self, node: str) -> bool:
        return node == self._me or (self.is_linked(node) and node not in self._group.silent)

    def is_linked(self, node: str) -> bool:
        group = self._group
        return node in group.machines and frozenset((self._me, node)) not in group.cuts

    def may_own(self, node: str) -> bool:
        return self.is_alive(node) and node not in self._group.draining

    def owns(self, link: str) -> bool:
        return self._group.controller == self._me

    def own_epoch(self, link: str) -> int:
        return self._group.terms_opened if self.owns(link) else 0

    def owner_of(self, link: str) -> str:
        return self._group.controller

    def slot_of(self, link: str) -> int:
        return 0

    def past_us(self) -> int:
        return START_US + int(self._group.now * 1e6)

    def wall_now_us(self) -> int:
        return self.past_us() + self._group.ahead_us


class Group:
    """Machines, their disks, the documents, and the connections between them."""

    def __init__(self, names: str = "abc", **times: float) -> None:
        """names: of the nodes, one a letter; the first owns all documents."""
        self.names = list(names)
        self.controller = self.names[0]
        self.terms_opened = 1
        self.now = 10.0
        self.ahead_us = 0
        """The microseconds by which stamps of nodes are ahead of `past_us`."""
        # Most partitions here have no topic, and must not be taken for orphans.
        self.config = config_of({"orphans_s": 0.0} | times)
        self.documents: dict[str, Row] = {}
        self.history: list[ReplicaSet] = []
        self.ledgers = {name: PartitionLedger() for name in names}
        self.lives = dict.fromkeys(names, 0)
        self.machines: dict[str, Partitions] = {}
        self.cuts: set[frozenset[str]] = set()
        self.draining, self.silent = set[str](), set[str]()  # Silent: connected, and not heard.
        self.leavers: frozenset[str] = frozenset()
        self.held_disks: dict[str, deque[Persist]] = {}
        self.answer_updates: Callable[[Operation], Answer | None] = lambda operation: None
        """Answers an update in place of the register; None leaves it to the register."""
        self.answer_surveys = True
        self.alarms: list[str] = []
        self.outcomes: dict[int, Outcome] = {}
        self.said: list[tuple[str, str, Any]] = []
        self.drops: Callable[[str, str, Any], bool] = lambda source, to, message: False
        self._queue: deque[tuple[str, int, StreamEvent]] = deque()
        self._requests = 0
        for name in names:
            self.start(name)

    # Nodes

    def start(self, name: str, *, is_old: bool = False) -> None:
        """Begin a life on what the disk holds."""
        self.lives[name] += 1
        life = self.lives[name]
        self.machines[name] = Partitions(
            name,
            self.ledgers[name].recovered(life, is_old=is_old),
            view=Sight(self, name),
            rng=Random(f"{name}{life}"),
            config=self.config,
            now=self.now,
        )
        for other in self.machines:
            if other != name and frozenset((name, other)) not in self.cuts:
                self.feed(other, LinkMade(name))
                self.feed(name, LinkMade(other))

    def crash(self, name: str) -> None:
        """End a life: writes that its disk had not kept are lost."""
        del self.machines[name]
        self.held_disks.pop(name, None)
        if name == self.controller and self.machines:
            self.govern(next(iter(self.machines)))
        for other in self.machines:
            self.feed(other, LinkLost(name))

    def govern(self, name: str) -> None:
        """Let another node own the documents."""
        self.controller = name
        self.terms_opened += 1

    def cut(self, one: str, other: str) -> None:
        """Break the connection between two nodes."""
        self.cuts.add(frozenset((one, other)))
        self.feed(one, LinkLost(other))
        self.feed(other, LinkLost(one))

    def heal(self) -> None:
        """Make all connections again."""
        cuts, self.cuts = self.cuts, set()
        for one, other in map(sorted, cuts):
            if one in self.machines and other in self.machines:
                self.feed(one, LinkMade(other))
                self.feed(other, LinkMade(one))

    def hold_disk(self, name: str) -> None:
        """Keep nothing from now on."""
        self.held_disks[name] = deque()

    def release_disk(self, name: str) -> None:
        """Keep all that waited."""
        for keep in self.held_disks.pop(name):
            self._keep(name, keep)
        self.settle()

    def drain(self, name: str) -> None:
        """Let a node give away what it leads."""
        self.draining.add(name)
        self.feed(name, DrainAsked())

    # Time

    def feed(self, name: str, event: StreamEvent) -> None:
        """Give a machine an event, and perform its effects."""
        self._queue.append((name, self.lives[name], event))
        self.settle()

    def settle(self) -> None:
        """Perform all effects, until none is left before the next tick."""
        if getattr(self, "_settling", False):
            return
        self._settling = True
        for _ in range(100_000):
            if not self._queue and not self._end_turns():
                break
            if self._queue:
                name, life, event = self._queue.popleft()
                if name in self.machines and self.lives[name] == life:
                    self._step(name, event)
        else:
            raise AssertionError("it does not come to rest")
        self._settling = False

    def run(self, seconds: float) -> None:
        """Let time pass, tick by tick."""
        for _ in range(round(seconds / TICK_S)):
            self.now += TICK_S
            for name in list(self.machines):
                self.feed(name, Tick(START_US + int(self.now * 1e6)))

    def _end_turns(self) -> bool:
        for name, machine in self.machines.items():
            if machine.wants_turn:
                self._queue.append((name, self.lives[name], TurnEnded()))
        return bool(self._queue)

    def _step(self, name: str, event: StreamEvent) -> None:
        for effect in self.machines[name].step(event, self.now):
            match effect:
                case Send(to, message):
                    self.said.append((name, to, message))
                    is_cut = frozenset((name, to)) in self.cuts or {name, to} & self.silent
                    if to in self.machines and not is_cut and not self.drops(name, to, message):
                        self._queue.append((to, self.lives[to], Received(name, message)))
                case Persist():
                    if name in self.held_disks:
                        self.held_disks[name].append(effect)
                    else:
                        self._keep(name, effect)
                case Read(token, query):
                    found = self.ledgers[name].answer(query)
                    self._later(name, QueriesAnswered([(token, found)]))
                case Ask(token, operation, _):
                    self._later(name, OperationAnswered(token, self._answer(name, operation)))
                case Survey(token) if self.answer_surveys:
                    self._later(name, Surveyed(token, self._live()))
                case Give(request, outcome):
                    self.outcomes[request] = outcome
                case Alarm(what):
                    self.alarms.append(what)

    def _later(self, name: str, event: StreamEvent) -> None:
        self._queue.append((name, self.lives[name], event))

    def _keep(self, name: str, keep: Persist) -> None:
        self.ledgers[name].apply(keep.writes)
        self._later(name, Persisted(keep.token))

    # Documents

    def create(self, replicas: str = "abc", *, least: int = 1, **more: Any) -> None:
        """Make the partition's document, as the topic's controller does."""
        found = ReplicaSet(incarnation="i1", replicas=tuple(replicas), min_in_sync=least, **more)
        self.write(LINK, found.pack(), 0)
        self.settle()

    def write(self, link: str, state: bytes, version: int, *, deleted: bool = False) -> Row:
        """Decide a version of a document; its owner notices."""
        row = Row(0, 0, 1, "x", link, version, "PUT", 0, deleted, b"", b"", b"", state)
        self.documents[link] = row
        if link == LINK and not deleted:
            self.history.append(replica_set_of(json.load(state)))
        if self.controller in self.machines:
            self._later(self.controller, Noticed(row))
        return row

    @property
    def document(self) -> ReplicaSet:
        """The partition's document, as it is."""
        return replica_set_of(json.load(self.documents[LINK].state))

    def _answer(self, name: str, operation: Operation) -> Answer:
        if frozenset((name, self.controller)) in self.cuts:
            return Answer(503, "no-quorum", "the owner is not connected")
        if operation.verb != "GET" and (other := self.answer_updates(operation)) is not None:
            return other
        return self.apply(operation)

    def _live(self) -> list[Row]:
        return [row for row in self.documents.values() if not row.deleted]

    def apply(self, operation: Operation) -> Answer:
        """Carry out an operation on a document."""
        link = operation.link
        row = self.documents.get(link)
        if operation.verb == "GET":
            is_there = row is not None and not row.deleted
            return Answer(200 if is_there else 404, row=row)
        service = PartitionService() if is_partition(link) else TopicService()
        outcome = handle(row, operation, service, floor=-1, now_us=lambda: 0)
        if isinstance(outcome, Refused):
            return outcome.answer
        if isinstance(outcome, Unchanged):
            return Answer(200, row=outcome.row)
        return Answer(
            201 if operation.verb == "POST" else 200,
            row=self.write(link, outcome.state, outcome.version, deleted=outcome.deleted),
        )

    # Clients

    def log(self, name: str) -> PartitionLog:
        """Return the partition at a node."""
        return self.machines[name].logs[NAME]

    def leading(self) -> Leading:
        """Return the partition at the leader that its document names."""
        return self.machines[self.document.leader].leader.leading[NAME]

    def produce(
        self,
        *values: str,
        at: str = "a",
        acks: str = "committed",
        producer: tuple[str, int, int] | tuple[()] = (),
        timeout_s: float = 5.0,
        key: bytes | None = None,
    ) -> int:
        """Produce records through a node; the outcome is in `outcomes` when there is one.

        An empty value makes a tombstone.
        """
        self._requests += 1
        body = b"".join(
            msgpack.packb([key, value.encode() or None, None, None]) for value in values
        )
        self.feed(
            at,
            ProduceAsked(
                self._requests, LINK, acks, self.now + timeout_s, producer, 0, len(values), body
            ),
        )
        return self._requests

    def produced(self, request: int) -> Produced:
        """Return the success of a produce."""
        outcome = self.outcomes[request]
        assert isinstance(outcome, Produced), outcome
        return outcome

    def problem(self, request: int) -> Problem:
        """Return why a request failed."""
        outcome = self.outcomes[request]
        assert isinstance(outcome, Problem), outcome
        return outcome

    def fetch(self, offset: int = 0, *, at: str = "", isolation: str = "committed") -> Outcome:
        """Return the immediate answer to a fetch."""
        self._requests += 1
        event = FetchAsked(self._requests, LINK, ("offset", offset), isolation, 1 << 20, self.now)
        self.feed(at or self.document.leader, event)
        return self.outcomes[self._requests]

    def values(self, offset: int = 0, *, at: str = "", isolation: str = "committed") -> list[str]:
        """Return the values that a reader sees from an offset on."""
        found = self.fetch(offset, at=at, isolation=isolation)
        assert isinstance(found, Records), found
        seen = []
        for raw in found.batches:
            for place, record in records_of(header_of(raw), raw):
                if found.offset <= place < found.until and record.value is not None:
                    seen.append(record.value.decode())
        return seen

    def records(self, name: str) -> list[tuple[int, bytes | None, bytes | None]]:
        """Return (offset, key, value) of the records on a node's disk."""
        return [
            (offset, record.key, record.value)
            for raw in self.raw_log(name)
            for offset, record in records_of(header_of(raw), raw)
        ]

    def raw_log(self, name: str) -> list[bytes]:
        """Return the batches on a node's disk."""
        return list(self.ledgers[name].answer(Batches(NAME, 0, 1 << 40, 1 << 40)))  # type: ignore[arg-type]


def values_of(raw: bytes) -> list[str]:
    """Return the values of a batch."""
    return [record[1].decode() for _, record in records_of(header_of(raw), raw)]


def online(names: str = "abc", replicas: str = "", *, controller: str = "", **more: Any) -> Group:
    """Return a group whose partition has a leader."""
    group = Group(names)
    if controller:
        group.govern(controller)
    group.create(replicas or names, **more)
    group.run(0.3)
    return group
