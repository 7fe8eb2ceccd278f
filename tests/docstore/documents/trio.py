"""Three replicas of one slot in virtual time, with settable delays of disks and loss of links."""

import heapq
import itertools
from collections import Counter
from random import Random
from typing import Any

from docstore.documents.effects import ReadIndexAnswered
from docstore.documents.events import Event, Requested
from docstore.documents.replica import Replica
from docstore.documents.term import Phase
from docstore.documents.timing import ReplicaConfig, SendingBounds
from docstore.machines.effects import Give, Persist, Read, Send
from docstore.machines.events import LinkMade, Persisted, QueriesAnswered, Received, Tick, TurnEnded
from docstore.model.operation import Operation
from docstore.ownership.configuration import Configuration, MemberEntry, first_registered
from docstore.storage.store import Append, Base, Query, SaveConfiguration
from tests.memory.ledger import Ledger
from tests.sim.process import Appending

NAMES = ("n1", "n2", "n3")
CONFIG = ReplicaConfig(sending=SendingBounds(page_rows=4))
TICK_S, LINK_S, SYNC_S = 0.05, 0.001, 0.005


class Trio:
    """Three replicas of one slot in virtual time; tests set how long each disk takes."""

    def __init__(self) -> None:
        members = tuple(MemberEntry(name, f"{name}.0", "host", 7000) for name in NAMES)
        founded = first_registered(Configuration(1, "trio", 1, 1, None, members))
        self.now = 10.0
        self.sync_s = dict.fromkeys(NAMES, SYNC_S)
        self.ahead_us: Counter[str] = Counter()
        """Replica -> the error of its wall clock."""
        self.sent: Counter[tuple[str, type]] = Counter()
        self.stored: Counter[str] = Counter()
        """Replica -> how often rows were given to its disk."""
        self.answers: list[tuple[float, Give]] = []
        self.indexes: dict[int, dict[int, tuple[int, int]]] = {}
        self.queries: list[Query] = []
        """The reads of the disks."""
        self.lost = 0.0
        self.cut_off: set[str] = set()
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, str, Event]] = []
        self._synced_at = dict.fromkeys(NAMES, 0.0)
        self._rng = Random(1)
        self.disks = {name: Ledger() for name in NAMES}
        self.replicas: dict[str, Replica] = {}
        self._boots: Counter[str] = Counter()
        for name in NAMES:
            self.disks[name].apply([SaveConfiguration(founded.pack())])
            self._start(name)
        for name, other in itertools.permutations(NAMES, 2):
            self._at(0.0, name, LinkMade(other))
        for name in NAMES:
            self._at(0.0, name, Tick(0))

    def _start(self, name: str) -> None:
        self._boots[name] += 1
        service = Appending()
        self.replicas[name] = Replica(
            name, self.disks[name].recovered(f"{name}.0", self._boots[name]),
            service_for=lambda link, since: service, rng=Random(1), vote_rng=Random(name),
            config=CONFIG, now=self.now,
        )  # fmt: skip

    def restart(self, name: str) -> None:
        """Restart a process, and lose the events that were on their way to it."""
        self._due = [each for each in self._due if each[2] != name]
        heapq.heapify(self._due)
        self._start(name)
        for other in NAMES:
            if other != name:
                self._at(0.0, name, LinkMade(other))
                self._at(0.0, other, LinkMade(name))
        self._at(0.0, name, Tick(0))

    def _at(self, after_s: float, name: str, event: Event) -> None:
        heapq.heappush(self._due, (self.now + after_s, next(self._numbers), name, event))

    def run_until(self, condition: Any, limit_s: float) -> bool:
        """Run until the condition holds or the limit is over; return the condition."""
        until = self.now + limit_s
        while not condition() and self.now < until:
            self.now, _, name, event = heapq.heappop(self._due)
            if isinstance(event, Tick):
                self._at(TICK_S, name, Tick(int(self.now * 1e6) + self.ahead_us[name]))
            self.feed(name, event)
        return bool(condition())

    def feed(self, name: str, event: Event) -> None:
        """Give a replica an event, and carry out the effects."""
        replica, events = self.replicas[name], [event]
        while events:
            for effect in replica.step(events.pop(0), self.now):
                match effect:
                    case Send(to, message):
                        self.sent[to, type(message)] += 1
                        is_cut = not self.cut_off.isdisjoint((name, to))
                        if not is_cut and self._rng.random() >= self.lost:
                            self._at(LINK_S, to, Received(name, message))
                    case Give():
                        self.answers.append((self.now, effect))
                    case ReadIndexAnswered(request, found):
                        self.indexes[request] = dict(found)
                    case Persist(token, writes):
                        # One commit after the other, as a disk does them.
                        begun = max(self.now, self._synced_at[name])
                        self._synced_at[name] = begun + self.sync_s[name]
                        self.disks[name].apply(writes)
                        self.stored[name] += any(isinstance(each, Append | Base) for each in writes)
                        self._at(self._synced_at[name] - self.now, name, Persisted(token))
                    case Read(token, query):
                        self.queries.append(query)
                        events.append(QueriesAnswered([(token, self.disks[name].answer(query))]))
            if not events and replica.wants_turn:
                events.append(TurnEnded())

    def owner(self) -> str:
        """Return the node that serves the slot, "" without one."""
        terms = ((name, self.replicas[name].core.logs[0].term) for name in NAMES)
        return next((name for name, each in terms if each and each.phase is Phase.OPEN), "")

    def damage(self, name: str) -> None:
        """Have a replica find a wrong checksum, and its owner hear of it by the next write."""
        self.replicas[name].core.corrupted.add(0)
        self.feed(name, TurnEnded())
        assert not self.replicas[name].core.logs[0].full
        self.write(1)

    def is_whole(self, name: str) -> bool:
        """Say whether a replica has all that the owner has."""
        log, ours = (self.replicas[each].core.logs[0] for each in (name, self.owner()))
        return log.full and log.durable == ours.end

    def write(self, count: int, text: bytes = b"") -> None:
        """Have the owner put `count` versions."""
        for number in range(count):
            body = b'{"n":%d,"text":"%s"}' % (number, text)
            operation = Operation(verb="PUT", link=f"/t/{number % 7}", body=body, creates=True)
            self._at(0.0, self.owner(), Requested(number, operation, self.now + 100))
