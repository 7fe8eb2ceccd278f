"""Runs of agendas: timers and effects of documents whose owners fail, from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.model import json
from docstore.model.agenda import RECORD, WEBHOOK, agenda_of
from docstore.model.operation import Operation
from tests.sim.agendas_bench import PERIOD_S, Arrival, Bench, RegisterBench
from tests.sim.agendas_on_replicas import ReplicaBench
from tests.sim.invariants import Violation
from tests.sim.process import EPOCH_US
from tests.sim.run import Outcome

FAULTS_S, HEALING_S = 12.0, 9.0
KINDS = ("crash", "crash", "pause", "cut", "move", "delude", "delude")


@dataclass(frozen=True, slots=True)
class Shape:
    """Parameters of a run."""

    slots: int = 2
    documents: int = 3
    kinds: Sequence[str] = KINDS
    trouble: float = 1.0


class Strikes:
    """The faults of a run, one after the other, until all are healed."""

    def __init__(self, bench: RegisterBench, shape: Shape) -> None:
        self._bench, self._shape = bench, shape
        self._world = bench.world
        if shape.kinds:
            self._world.after(0.5, self._strike)

    def _strike(self) -> None:
        world, rng = self._world, self._world.rng
        if world.now >= FAULTS_S:
            return
        kind, name = rng.choice(self._shape.kinds), rng.choice(self._bench.hosts.names)
        getattr(self, f"_{kind}")(name)
        world.after(0.1 + rng.random() * 1.2, self._strike)

    def _span_s(self) -> float:
        return self._world.rng.choice((0.05, 0.4, 1.5)) * (0.5 + self._world.rng.random())

    def _crash(self, name: str) -> None:
        hosts = self._bench.hosts
        if hosts.processes[name].up:
            hosts.crash(name)
            self._world.after(self._span_s(), self._start, name)

    def _start(self, name: str) -> None:
        if not self._bench.hosts.processes[name].up:
            self._bench.hosts.start(name)

    def _pause(self, name: str) -> None:
        host = self._bench.hosts.processes[name]
        if host.up and not host.paused:
            host.pause()
            self._world.after(self._span_s(), self._resume, name, host.life)

    def _resume(self, name: str, life: int) -> None:
        host = self._bench.hosts.processes[name]
        if host.life == life and host.paused:
            host.resume()

    def _cut(self, name: str) -> None:
        cuts = self._bench.hosts.network.cuts
        made = {(name, each) for each in self._bench.hosts.others(name)} - cuts
        cuts |= made
        self._world.after(self._span_s(), cuts.difference_update, made)

    def _move(self, name: str) -> None:
        self._bench.register.move(self._world.rng.randrange(self._shape.slots), 0.0)

    def _delude(self, name: str) -> None:
        self._bench.register.move(self._world.rng.randrange(self._shape.slots), self._span_s())

    def heal(self) -> None:
        """Repair all nodes and links."""
        bench = self._bench
        bench.hosts.network.cuts.clear()
        for name, host in bench.hosts.processes.items():
            self._start(name)
            self._resume(name, host.life)


def run(seed: int, shape: Shape, *, register: bool = True) -> Outcome:
    """Run a seed under a shape; equal arguments give equal outcomes."""
    outcome = Outcome(seed)
    bench: RegisterBench | ReplicaBench
    if register:
        bench = RegisterBench(seed, shape.slots, shape.documents)
        strikes = Strikes(bench, shape)
    else:
        bench = ReplicaBench(seed, shape.slots, shape.documents, FAULTS_S)
    bench.trouble = shape.trouble
    bench.begin()
    for name in bench.names:
        bench.certainly(
            *(
                Operation(verb="POST", link=f"{path}/{name}", body=b"{}", key=path)
                for path in ("/ledger", "/s")
            )
        )
        bench.world.after(3.0 + bench.world.rng.random(), _write, bench, f"/s/{name}")
    bench.world.after(4.0 + 4.0 * bench.world.rng.random(), _delete, bench, bench.names[0])
    try:
        bench.world.run(FAULTS_S)
        if register:
            strikes.heal()
        bench.heal()
        bench.world.run(FAULTS_S + HEALING_S)
    except Violation as error:
        outcome.problems.append(f"{bench.world.now:.3f}: {error}")
        return outcome
    outcome.problems += bench.problems
    for name in bench.names:
        outcome.problems += _missed(bench, name) if name not in bench.deleted else []
        outcome.problems += _lost(bench, name)
    for agent in bench.agents.values():
        outcome.counters.update(agent.counters + agent.machine.core.counters)
    outcome.operations = len(bench.arrivals)
    return outcome


def _write(bench: Bench, link: str) -> None:
    """Let a client write a document now and then."""
    if bench.world.now < FAULTS_S:
        node = bench.world.rng.choice(sorted(bench.agents))
        patch = Operation(verb="PATCH", link=link, body=b"{}", media="handler")
        bench.ask(node, patch, 1.0, lambda answer: None)
        bench.world.after(0.2 + bench.world.rng.random(), _write, bench, link)


def _delete(bench: Bench, name: str) -> None:
    """Let a client delete a document, with retries."""
    bench.deleted.add(name)
    bench.certainly(Operation(verb="DELETE", link=f"/s/{name}", key="delete"))


def _missed(bench: Bench, name: str) -> list[str]:
    """Return which due times took effect twice, too early or not at all, by the versions."""
    problems, period_us = [], round(PERIOD_S * 1e6)
    rows = bench.versions(f"/s/{name}")
    last = json.load(rows[-1].state)
    now_us = EPOCH_US + int(bench.world.now * 1e6)
    due = list(range(last["born"] + period_us, now_us - 200_000, period_us))
    if last["beats"][: len(due)] != due:
        problems.append(f"TI1: {name} fired at {last['beats']}, and was due at {due}")
    if last["once"] != 1:
        problems.append(f"TI1: {name} fired a timer {last['once']} times, which fires once")
    for row in rows:
        beats = json.load(row.state)["beats"]
        if beats and row.updated_us < beats[-1]:
            problems.append(f"TI3: {name} fired {beats[-1]} at {row.updated_us}")
    return problems


def _lost(bench: Bench, name: str) -> list[str]:
    """Return which effects were lost, doubled or overtaken."""
    problems, newest = [], bench.versions(f"/s/{name}")[-1]
    count = json.load(newest.state)["n"] + newest.deleted  # A tombstone has the state before.
    left = len(agenda_of(newest).effects)
    if left > 12:
        problems.append(f"EF5: {left} effects of {name} are left")
    settled = count - left  # Those of the last versions may be on their way.
    told = json.load(bench.versions(f"/ledger/{name}")[-1].state)["told"]
    if told != list(range(1, len(told) + 1)) or len(told) < settled:
        problems.append(f"EF4: the ledger has {told} of {count} from {name}")
    for kind, every in ((RECORD, 1), (WEBHOOK, 3)):
        firsts = list(dict.fromkeys(each.number for each in _of(bench, name, kind)))
        said = [json.load(each.body) for each in _of(bench, name, kind)]
        if firsts != sorted(firsts) or len(firsts) < settled // every:
            problems.append(f"EF3: {kind} of {name}: {said}")
    return problems


def _of(bench: Bench, name: str, kind: str) -> list[Arrival]:
    link = f"/s/{name}"
    return [each for each in bench.arrivals if (each.link, each.kind) == (link, kind)]
