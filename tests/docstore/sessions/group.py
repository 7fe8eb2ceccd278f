"""A few session machines in one process, without randomness: for tests of one rule at a time.

Messages arrive at once and in order, documents are one register that the real `handle` changes,
tests move the owner, and each node has a clock with its own rate. `cut`, `pause` and `answers`
make the exceptions.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from docstore.documents.write_path.handle import Refused, Unchanged, handle
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
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.model.service import ServiceOptions, State
from docstore.services.declared import DeclaredService
from docstore.services.registry import Registry
from docstore.sessions.effects import Confirm
from docstore.sessions.events import Asked, Confirmed, SessionEvent
from docstore.sessions.machine import Sessions
from docstore.sessions.timing import SessionsConfig
from docstore.wire.sessions_messages import Reply

TICK_S = 0.05
START_US = 1_700_000_000_000_000
NOTES = DeclaredService(ServiceOptions(path="/notes", kind="notes"))
"""The service of all documents that no node acts on."""


def slot_of(link: str) -> int:
    """Return the slot of a document: links of one length share one."""
    return len(link) % 4


class Sight:
    """A node's view of the group."""

    lacks_quorum = False
    is_draining = False
    leavers: frozenset[str] = frozenset()

    def __init__(self, group: "Group", me: str) -> None:
        self._group = group
        self._me = me
        self.owner = group.owner
        """The node that this one takes for the owner of all documents."""
        self.epoch = group.epoch if group.owner == me else 0

    @property
    def terms_opened(self) -> int:
        return self.epoch

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._group.names)

    @property
    def zones(self) -> dict[str, str]:
        return dict.fromkeys(self._group.names, "")

    def is_alive(self, node: str) -> bool:
        return node == self._me or self.is_linked(node)

    def is_linked(self, node: str) -> bool:
        group = self._group
        return node in group.machines and frozenset((self._me, node)) not in group.cuts

    def may_own(self, node: str) -> bool:
        return self.is_alive(node)

    def owns(self, link: str) -> bool:
        return self.own_epoch(link) > 0

    def own_epoch(self, link: str) -> int:
        return self.epoch if self.owner == self._me else 0

    def owner_of(self, link: str) -> str:
        return self.owner

    def slot_of(self, link: str) -> int:
        return slot_of(link)

    def past_us(self) -> int:
        return self.wall_now_us()

    def wall_now_us(self) -> int:
        return START_US + int(self._group.now * 1e6)


class Group:
    """Machines, the documents, and the connections between them."""

    def __init__(self, names: str = "abc", *, rates: str = "", **times: Any) -> None:
        """names: of the nodes, one a letter; the first owns all documents.

        rates: of their clocks, one a node: "+" 2 % fast, "-" 2 % slow, "0" right.
        """
        self.names = list(names)
        self.owner, self.epoch = self.names[0], 1
        self.now = 10.0
        self.config = SessionsConfig(**times)
        self.rates = {
            name: {"+": 1.02, "-": 0.98}.get(rate, 1.0)
            for name, rate in zip(names, rates or "0" * len(names), strict=True)
        }
        self.documents: dict[str, Row] = {}
        self.decided: list[tuple[float, Row]] = []
        """Every decided version with its time."""
        self.cuts: set[frozenset[str]] = set()
        self.paused: dict[str, deque[SessionEvent]] = {}
        """Paused nodes -> the events that wait in their sockets."""
        self.answers: Callable[[str, Operation], Answer | None] = lambda node, operation: None
        """Answers an operation instead of the register, unless it returns None."""
        self.replies: dict[int, Reply] = {}
        self.asked: list[tuple[str, Operation]] = []
        self.machines: dict[str, Sessions] = {}
        self.sights: dict[str, Sight] = {}
        self._services = Registry().service_for
        self._queue: deque[tuple[str, SessionEvent]] = deque()
        self._requests = 0
        self._settling = False
        for name in names:
            self.start(name)

    def start(self, name: str) -> None:
        """Start a process without memory of an earlier one."""
        sight = self.sights[name] = Sight(self, name)
        rng = Random(f"{name}{self.now}")
        machine = Sessions(name, view=sight, rng=rng, config=self.config, now=self.clock(name))
        self.machines[name] = machine

    def clock(self, name: str) -> float:
        """Return the time by a node's clock."""
        return self.now * self.rates[name]

    def crash(self, name: str) -> None:
        """Kill a process."""
        del self.machines[name], self.sights[name]
        for other in list(self.machines):
            self.feed(other, LinkLost(name))

    def govern(self, name: str, *, unnoticed_by: str = "") -> None:
        """Make another node owner of the documents, in a new term.

        unnoticed_by: names of the nodes that still believe in the former owner.
        """
        self.owner = name
        self.epoch += 1
        for other in self.sights:
            if other not in unnoticed_by:
                self.notice_owner(other)

    def notice_owner(self, name: str) -> None:
        """Let a node know the present owner of the documents."""
        sight = self.sights[name]
        sight.owner = self.owner
        sight.epoch = self.epoch if self.owner == name else 0

    def cut(self, one: str, other: str) -> None:
        """Break the connection between two nodes."""
        self.cuts.add(frozenset((one, other)))
        self.feed(one, LinkLost(other))
        self.feed(other, LinkLost(one))

    def pause(self, name: str) -> None:
        """Stop a process: its clock goes on, and what arrives waits."""
        self.paused[name] = deque()

    def resume(self, name: str) -> None:
        """Resume a process, with a tick before what waits, as in a real loop."""
        waiting = self.paused.pop(name)
        self.feed(name, Tick())
        for event in waiting:
            self.feed(name, event)

    # Time

    def feed(self, name: str, event: SessionEvent) -> None:
        """Give a machine an event, and perform the effects."""
        self._queue.append((name, event))
        self.settle()

    def settle(self) -> None:
        """Perform all events and effects that are due now."""
        if self._settling:
            return
        self._settling = True
        for _ in range(1_000_000):
            if not self._queue and not self._end_turns():
                break
            if self._queue:
                name, event = self._queue.popleft()
                if name in self.paused:
                    self.paused[name].append(event)
                elif name in self.machines:
                    self._step(name, event)
        else:
            raise AssertionError("the events have no end")
        self._settling = False

    def run(self, seconds: float) -> None:
        """Let time pass, tick by tick."""
        for _ in range(round(seconds / TICK_S)):
            self.now += TICK_S
            for name in list(self.machines):
                if name not in self.paused:
                    self.feed(name, Tick())

    def _end_turns(self) -> bool:
        for name, machine in self.machines.items():
            if machine.wants_turn and name not in self.paused:
                self._queue.append((name, TurnEnded()))
        return bool(self._queue)

    def _step(self, name: str, event: SessionEvent) -> None:
        for effect in self.machines[name].step(event, self.clock(name)):
            match effect:
                case Send(to, message):
                    if self.sights[name].is_linked(to):
                        self._queue.append((to, Received(name, message)))
                case Ask(token, operation, _):
                    self._queue.append(
                        (name, OperationAnswered(token, self._answer(name, operation)))
                    )
                case Confirm(token, links, _):
                    reads = [
                        (link, self._answer(name, Operation(verb="GET", link=link)))
                        for link in links
                    ]
                    owners = {
                        link: (answer.owner, answer.epoch)
                        for link, answer in reads
                        if answer.status in (200, 404)
                    }
                    self._queue.append((name, Confirmed(token, owners)))
                case Survey(token):
                    live = [row for row in self.documents.values() if not row.deleted]
                    self._queue.append((name, Surveyed(token, live)))
                case Give(request, reply):
                    self.replies[request] = reply

    # Documents

    def _answer(self, name: str, operation: Operation) -> Answer:
        self.asked.append((name, operation))
        given = self.answers(name, operation)
        if given is not None:
            return given
        if name != self.owner and frozenset((name, self.owner)) in self.cuts:
            return Answer(503, "no-owner", "the owner is not connected")
        return self.apply(operation)

    def apply(self, operation: Operation) -> Answer:
        """Execute an operation on a document, as its owner does."""
        row = self.documents.get(operation.link)
        answer = Answer(200, row=row, owner=self.owner, epoch=self.epoch)
        if operation.verb == "GET":
            return answer if row and not row.deleted else answer._replace(status=404)
        if operation.only_epoch not in (0, self.epoch):
            return answer._replace(status=412, code="other-reign")
        service = self._services(operation.link) or NOTES
        outcome = handle(row, operation, service, floor=-1, now_us=lambda: 0)
        if isinstance(outcome, Refused):
            return outcome.answer._replace(owner=self.owner, epoch=self.epoch)
        if isinstance(outcome, Unchanged):
            return answer._replace(row=outcome.row)
        is_new = operation.verb == "POST" or row is None or row.deleted
        written = self.write(
            operation.link, outcome.state, outcome.version, deleted=outcome.deleted
        )
        return answer._replace(status=201 if is_new else 200, row=written)

    def write(self, link: str, state: bytes, version: int, *, deleted: bool = False) -> Row:
        """Decide a version of a document; all nodes notice it."""
        slot = slot_of(link)
        row = Row(slot, 0, self.epoch, "x", link, version, "PUT", 0, deleted, b"", b"", b"", state)
        self.documents[link] = row
        self.decided.append((self.now, row))
        for name in list(self.machines):
            self._queue.append((name, Noticed(row)))
        return row

    def put(self, link: str, state: State) -> Row:
        """Write a document as a client does."""
        answer = self.apply(Operation(verb="PUT", link=link, body=json.dump(state), creates=True))
        assert answer.is_success, answer
        assert answer.row is not None
        self.settle()
        return answer.row

    def patch(self, link: str, change: State) -> Answer:
        """Change a document as a client does, by its service's handler."""
        answer = self.apply(
            Operation(verb="PATCH", link=link, body=json.dump(change), media="handler")
        )
        self.settle()
        return answer

    def state(self, link: str) -> State | None:
        """Return the present state of a document, None if there is none."""
        row = self.documents.get(link)
        return None if row is None or row.deleted else json.load(row.state)

    # Clients

    def call(
        self, link: str, kind: str, argument: Any = None, *, at: str = "", timeout_s: float = 5.0
    ) -> int:
        """Make a call through a node; its reply will be in `replies`."""
        self._requests += 1
        name = at or self.owner
        deadline = self.clock(name) + timeout_s
        self.feed(name, Asked(self._requests, link, kind, argument, deadline))
        return self._requests

    def reply(self, request: int) -> Reply:
        """Return the reply to a call."""
        assert request in self.replies, "the call has no reply yet"
        return self.replies[request]
