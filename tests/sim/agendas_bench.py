"""Test bench of agendas: nodes, a register of documents with services, and effects' receivers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from docstore.agendas.effects import GiveUp, Post
from docstore.agendas.events import AgendaEvent, Posted
from docstore.agendas.machine import Agendas
from docstore.agendas.timing import AgendaTimes
from docstore.machines.effects import Ask, Survey
from docstore.machines.events import Noticed, OperationAnswered, Surveyed, Tick
from docstore.machines.view import MachineView
from docstore.model.agenda import EFFECTS_MAX, Agenda, Effect, Timer, packed_agenda
from docstore.model.document import Row
from docstore.model.identity import OperationIdentity
from docstore.model.operation import Answer, Operation
from docstore.model.service import Service as Served
from docstore.model.service import State
from docstore.service import Change, Record, Request, Service, Webhook
from docstore.services.authored import AuthoredService, declaration_of
from docstore.services.declared import options_of
from docstore.testing.simulation.world import World
from tests.sim.hosts import Hosts
from tests.sim.process import TICK_S
from tests.sim.register import Register, RegisterView
from tests.sim.sessions_bench import SessionRegister

PERIOD_S = 0.7


class Beating(Service):
    """Documents with timers; each version has effects for the ledger, a topic and a receiver."""

    path = "/s"

    def on_create(self, body: State, request: Request) -> State:
        request.start_timer("beat", every_s=PERIOD_S)
        request.start_timer("once", after_s=1.5)
        return tell({"beats": [], "once": 0, "n": 0, "born": request.now_us}, request)

    def on_patch(self, state: State, body: State, request: Request) -> State:
        return tell(state, request)

    def on_delete(self, state: State, request: Request) -> None:
        tell(state, request)

    def on_timer(self, state: State, timer: Timer, request: Request) -> State:
        if timer.name == "once":
            state["once"] += 1
        else:
            state["beats"].append(timer.due_us)
        return tell(state, request)


def tell(state: State, request: Request) -> State:
    """Number a change, and add its effects."""
    state["n"] += 1
    said, name = {"n": state["n"]}, request.link.rpartition("/")[2]
    request.after_commit(Change("PATCH", f"/ledger/{name}", said))
    request.after_commit(Record("t", said))
    if state["n"] % 3 == 0:
        request.after_commit(Webhook("http://receiver", said))
    return state


class Ledger(Service):
    """Documents that append each entry that they receive."""

    path = "/ledger"

    def on_create(self, body: State, request: Request) -> State:
        return {"told": []}

    def on_patch(self, state: State, body: State, request: Request) -> State:
        state["told"].append(body["n"])
        return state


SERVICES = {
    each.path: AuthoredService(options_of(declaration_of(each)), each)
    for each in (Beating(), Ledger())
}


def service_of(link: str) -> Served:
    return SERVICES[link.rpartition("/")[0]]


class AgendaRegister(SessionRegister):
    """A register of the documents of both services."""

    def __init__(self, hosts: Hosts, slots: int) -> None:
        Register.__init__(self, hosts, slots, service_of, "/s")
        self.deluded = {}

    def survey(self, node: str) -> list[Row]:
        """Return also rows that are not decided, and never will be."""
        found = super().survey(node)
        return [_undecided(row) if self._is_odd() else row for row in found]

    def _is_odd(self) -> bool:
        return self.world.rng.random() < 0.2 * self.trouble


def _undecided(row: Row) -> Row:
    """Return an undecided next version of a document, with a false entry for the ledger."""
    effect = Effect((row.version + 1) * EFFECTS_MAX, "PATCH", f"/ledger{row.link[2:]}", b'{"n":0}')
    agenda = Agenda((), (effect,))
    packed = OperationIdentity("", 0, 0, 0, agenda=packed_agenda(agenda)).pack()
    return row._replace(version=row.version + 1, operation=packed)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record or a webhook at its receiver."""

    kind: str
    link: str
    number: int
    body: bytes


class Agent:
    """The agendas of one simulated node."""

    def __init__(self, host: Any, bench: "Bench") -> None:
        """host: a `Host` or a `Process`."""
        self._host = host
        self._bench = bench
        self.machine: Agendas
        self.counters: Counter[str] = Counter()
        """Counters of ended lives."""
        self._stash: list[AgendaEvent] = []

    def start(self) -> None:
        bench, name = self._bench, self._host.name
        self._stash = []
        self.machine = Agendas(
            name,
            view=bench.view(name),
            rng=Random(f"agendas {bench.world.seed} {name} {self._host.boot}"),
            times=AgendaTimes(ask_timeout_s=1.0, retry_s=(0.05, 0.4), survey_again_s=1.0),
            now=bench.world.now,
        )
        bench.world.after(bench.world.rng.random() * TICK_S, self._tick, self._host.life)

    def crash(self) -> None:
        self.counters.update(self.machine.core.counters)

    def resume(self) -> None:
        stash, self._stash = self._stash, []
        for event in stash:
            self.feed(event)

    def linked(self, peer: str) -> None: ...

    def unlinked(self, peer: str) -> None: ...

    def received(self, sender: str, message: Any) -> None: ...

    def noticed(self, row: Row) -> None:
        self._feed_later(Noticed(row))

    def feed(self, event: AgendaEvent) -> None:
        if not self._host.up:
            return
        if self._host.paused:
            self._stash.append(event)
            return
        for effect in self.machine.step(event, self._bench.world.now):
            self._perform(effect)

    def _feed_later(self, event: AgendaEvent, delay_s: float = 0.0) -> None:
        self._bench.world.after(delay_s, self._feed_in, self._host.life, event)

    def _feed_in(self, life: int, event: AgendaEvent) -> None:
        if life == self._host.life:
            self.feed(event)

    def _tick(self, life: int) -> None:
        if life == self._host.life:
            if not self._host.paused:
                self.feed(Tick())
            self._bench.world.after(TICK_S, self._tick, life)

    def _perform(self, effect: Any) -> None:
        bench = self._bench
        match effect:
            case Ask(token, operation, timeout_s):
                told = self._answer(token)
                bench.ask(self._host.name, operation, timeout_s, told)
            case Survey(token):
                self._feed_later(Surveyed(token, bench.survey(self._host.name)), 0.005)
            case Post(token, link, said):
                self._post(token, link, said)
            case GiveUp():
                bench.problems.append(f"EF6: {effect} was given up")
            case _:
                raise AssertionError(effect)

    def _answer(self, token: int) -> Callable[[Any], None]:
        life = self._host.life
        return lambda answer: self._bench.world.after(
            0.0, self._feed_in, life, OperationAnswered(token, answer)
        )

    def _post(self, token: int, link: str, said: Effect) -> None:
        """Deliver an effect, or not; answer with success, or not."""
        bench = self._bench
        chance = bench.world.rng.random() / bench.trouble if bench.trouble else 1
        if chance > 0.15:
            arrival = Arrival(said.kind, link, said.number, said.body)
            bench.world.after(0.003, bench.arrived, arrival)
        status = 200 if chance > 0.3 else 503
        self._feed_later(Posted(token, status), 0.005 + bench.world.rng.random() * 0.01)


class Bench:
    """Nodes with agendas, and the receivers of effects, for any store of the documents."""

    trouble = 1.0
    """How often something goes wrong between a node and a receiver."""

    def __init__(self, seed: int, documents: int) -> None:
        self.world = World(seed)
        self.problems: list[str] = []
        self.arrivals: list[Arrival] = []
        self.arrived = self.arrivals.append
        self.agents: dict[str, Agent] = {}
        self.names = [f"d{number}" for number in range(documents)]
        self.deleted: set[str] = set()
        """Names of the documents that a client deletes."""

    def ask(
        self, node: str, operation: Operation, timeout_s: float, told: Callable[[Answer], None]
    ) -> None:
        """Execute an operation of a node on a document."""
        raise NotImplementedError

    def survey(self, node: str) -> Sequence[Row]:
        """Return the newest rows with an agenda on the disk of a node, in its own slots."""
        raise NotImplementedError

    def view(self, node: str) -> MachineView:
        """Return what a node knows of the group."""
        raise NotImplementedError

    def versions(self, link: str) -> Sequence[Row]:
        """Return the decided versions of a document, in their order."""
        raise NotImplementedError

    def certainly(self, *operations: Operation) -> None:
        """Let a client execute operations in order, each retried under its key until answered."""
        node = self.world.rng.choice(sorted(self.agents))
        self.ask(node, operations[0], 1.0, partial(self._again, operations))

    def _again(self, operations: Sequence[Operation], answer: Answer) -> None:
        left = operations if answer.status >= 500 else operations[1:]
        if left:
            self.world.after(0.1, self.certainly, *left)

    def begin(self) -> None:
        """Start the nodes and the faults."""
        raise NotImplementedError

    def heal(self) -> None:
        """End all faults."""
        raise NotImplementedError


class RegisterBench(Bench):
    """Documents in a register: fast, and with every answer that documents may give."""

    def __init__(self, seed: int, slots: int, documents: int) -> None:
        super().__init__(seed, documents)
        self.hosts = Hosts(self.world, 3)
        self.register = AgendaRegister(self.hosts, slots)
        for name, host in self.hosts.processes.items():
            self.agents[name] = host.companion = Agent(host, self)
        self.register.notice = lambda name, row: self.agents[name].noticed(row)

    def begin(self) -> None:
        self.register.trouble = self.trouble
        self.hosts.begin()

    def ask(
        self, node: str, operation: Operation, timeout_s: float, told: Callable[[Answer], None]
    ) -> None:
        self.register.ask(node, operation, timeout_s, told)

    def survey(self, node: str) -> Sequence[Row]:
        return self.register.survey(node)

    def view(self, node: str) -> MachineView:
        return RegisterView(node, self.hosts, self.register)

    def versions(self, link: str) -> Sequence[Row]:
        return self.register.versions.get(link, [])

    def heal(self) -> None:
        self.trouble = self.register.trouble = 0.0
        self.register.deluded.clear()
