"""Runs at levels 1 and 2: clients write on every side of a cut, and the replicas converge.

These levels promise no order, but that no acknowledged update disappears: each one is what
readers see, or came before it, or is the end of a branch that is kept.
"""

import json
from dataclasses import dataclass, field
from random import Random

from docstore.documents.events import Requested
from docstore.documents.eventual.branches import RANKS, Branches
from docstore.documents.eventual.lineage import Lineage, covers, lineage_of
from docstore.documents.timing import ReplicaConfig, SendingBounds
from docstore.machines.events import DrainAsked
from docstore.model.document import Row
from docstore.model.identity import unpack_identity
from docstore.model.operation import Answer, Conditions, Operation
from docstore.storage.replication_log import Heads, Lines
from docstore.testing.simulation.world import World
from tests.sim.cluster import Cluster
from tests.sim.nemesis import Nemesis
from tests.sim.process import Process
from tests.sim.run import Outcome

FAULTS_S, QUIET_S = 10.0, 6.0
KINDS = ("crash", "crash", "pause", "cut", "oneway", "isolate", "split", "flap", "storm", "full")
HOUR_US = 3_600_000_000
VERSIONS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Shape:
    """The kinds of faults and operations that a run prefers."""

    level: int
    size: int = 3
    factor: int | None = None
    kinds: tuple[str, ...] = KINDS
    links: int = 3
    clients: int = 4
    page_rows: int = 256
    wrong_clock: bool = False
    """One node's clock is an hour ahead."""
    calm: bool = False
    """No message is lost or late; nodes are drained and restarted, one after the other."""
    wipes: bool = False
    """One disk is lost; after that only updates that were on two disks must remain."""


@dataclass(slots=True)
class Acked:
    """An acknowledged update: the lineage of its version, and on how many disks it was."""

    link: str
    uid: str
    lineage: Lineage
    copies: int


@dataclass(slots=True)
class Told:
    """Answers that clients got."""

    acked: list[Acked] = field(default_factory=list)
    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    """(node, link) -> highest version that a read there has shown."""
    refused: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    operations: int = 0
    unanswered: int = 0


def shape_of(seed: int) -> Shape:
    """Return the shape of a seed's run."""
    rng = Random(seed * 104_729 + 7)
    size = rng.choice((3, 3, 5))
    level = 1 + seed % 2
    return Shape(
        level=level,
        size=size,
        factor=rng.choice((None, 3)) if size == 5 else None,
        links=rng.choice((1, 3)),
        page_rows=rng.choice((2, 3, 256)),
        wrong_clock=rng.random() < 0.3,
        wipes=rng.random() < 0.3,
    )


class Writer:
    """Appends, creates and reads at random nodes, one request after the other."""

    def __init__(self, name: str, cluster: Cluster, shape: Shape, told: Told) -> None:
        self._name, self._cluster, self._shape, self._told = name, cluster, shape, told
        self._world = cluster.world
        self._count = 0
        self._waiting = 0
        self._world.after(0.2 + self._world.rng.random() * 0.1, self._next)

    def _next(self) -> None:
        if self._world.now > FAULTS_S + 1.0:
            return
        rng = self._world.rng
        self._count += 1
        self._told.operations += 1
        uid = f"{self._name}.{self._count}"
        link = f"/t/d{rng.randrange(self._shape.links)}"
        process = self._cluster.processes[rng.choice(self._cluster.names)]
        operation = self._operation(rng.choice("aaaarrc"), link, uid)
        deadline, number = self._world.now + 1.5, self._count
        before = dict(self._told.seen)
        if process.up:
            process.request(
                lambda request: Requested(request, operation, deadline),
                lambda answer: self._answered(number, operation, uid, before, answer),
            )
        self._world.after(2.5, self._give_up, number)

    def _operation(self, kind: str, link: str, uid: str) -> Operation:
        level = self._shape.level
        if kind == "r":
            return Operation(verb="GET", link=link, level=level)
        if kind == "a":
            body = json.dumps({"append": uid}).encode()
            return Operation(verb="PATCH", link=link, body=body, media="handler", level=level)
        # Only if the document is absent, so that along a branch no entry ever leaves the list.
        only = Conditions(none_match="*")
        body = json.dumps({"log": [uid]}).encode()
        return Operation(
            verb="PUT", link=link, body=body, conditions=only, creates=True, level=level
        )

    def _answered(
        self,
        number: int,
        operation: Operation,
        uid: str,
        before: dict[tuple[str, str], int],
        answer: Answer,
    ) -> None:
        row = answer.row
        if operation.is_read and row is not None and self._shape.level == 1:
            self._read(self._cluster.processes[answer.owner], row, before)
        elif not operation.is_read and answer.is_success and row is not None:
            acked = Acked(row.link, uid, lineage_of(row), answer.replicas)
            self._told.acked.append(acked)
        elif not operation.is_read and not answer.unknown:
            self._told.refused.add(uid)
        if number == self._count:
            self._world.after(0.005 + self._world.rng.random() * 0.05, self._next)

    def _read(self, process: Process, row: Row, before: dict[tuple[str, str], int]) -> None:
        """Check that a node never shows an older version than before, as level 1 promises."""
        where = (process.store_id, row.link)
        if row.version < before.get(where, -1):
            self._told.problems.append(f"{where}: v{row.version} after {before[where]}")
        self._told.seen[where] = max(row.version, self._told.seen.get(where, -1))

    def _give_up(self, number: int) -> None:
        if number == self._count:
            self._told.unanswered += 1
            self._next()


def run(seed: int, shape: Shape) -> Outcome:
    """Run a seed under a shape; equal arguments give equal outcomes."""
    outcome, world, told = Outcome(seed), World(seed), Told()
    config = ReplicaConfig(sending=SendingBounds(page_rows=shape.page_rows))
    cluster = Cluster(world, shape.size, factor=shape.factor, slots=2, config=config)
    for index, process in enumerate(cluster.processes.values()):
        # The service takes this level at the next start, which follows.
        process.level = shape.level
        process.clock_ahead_us = HOUR_US if shape.wrong_clock and index == 0 else 0
        process.crash()
        cluster.start(process.name)
    nemesis = Nemesis(cluster, FAULTS_S, shape.kinds)
    if shape.calm:
        nemesis.calm_down()
        world.after(1.0, _restart_in_turn, cluster, 0)
    if shape.wipes:
        world.after(FAULTS_S * (0.3 + 0.5 * world.rng.random()), _wipe, cluster)
    for index in range(shape.clients):
        Writer(f"c{index}", cluster, shape, told)
    try:
        world.run(FAULTS_S)
        nemesis.heal()
        world.run(FAULTS_S + QUIET_S)
        outcome.problems += told.problems
        _judge(outcome, cluster, shape, told)
    except Exception as error:  # noqa: BLE001 - a step that raises is a finding like any other
        outcome.problems.append(f"{type(error).__name__}: {error}")
    outcome.operations = told.operations
    for process in cluster.processes.values():
        outcome.counters.update(process.replica.core.counters)
        outcome.problems.extend(process.alarms)
    outcome.counters["acked"] = len(told.acked)
    return outcome


def _restart_in_turn(cluster: Cluster, turn: int) -> None:
    """Drain a node, stop it a little later, start it again; then the next."""
    if cluster.world.now > FAULTS_S - 3.0:
        return
    name = cluster.names[turn % len(cluster.names)]
    cluster.processes[name].feed(DrainAsked())
    cluster.world.after(1.2, cluster.crash, name)
    cluster.world.after(1.6, cluster.start, name)
    cluster.world.after(3.2, _restart_in_turn, cluster, turn + 1)


def _wipe(cluster: Cluster) -> None:
    """Replace a node's disk by an empty one; the node keeps its name."""
    name = cluster.world.rng.choice(cluster.names)
    process = cluster.processes[name]
    configuration = process.disk.configuration
    if process.up:
        cluster.crash(name)
    process.lose_disk()
    process.disk.configuration = configuration
    cluster.world.after(0.5, lambda: process.up or cluster.start(name))


def _judge(outcome: Outcome, cluster: Cluster, shape: Shape, told: Told) -> None:
    placement = cluster.configuration.placement()
    wiped = any(process.disks for process in cluster.processes.values())
    for number in range(shape.links):
        link = f"/t/d{number}"
        slot = cluster.processes["n0"].replica.core.slot_of(link)
        held = {
            name: Branches.of(cluster.processes[name].disk.answer(Heads(slot, link)))
            for name in placement.replicas(slot)
        }
        shown = {name: [_named(head.row) for head in each.heads] for name, each in held.items()}
        if len({str(each) for each in shown.values()}) > 1:
            outcome.stuck.append(f"{link} differs: {shown}")
            continue
        document = next(iter(held.values()))
        outcome.counters["in_conflict"] += len(document.heads) > 1
        best = max((head.row for head in document.heads), key=RANKS[shape.level], default=None)
        if document.winner != best:
            outcome.problems.append(f"{link}: another branch should have won")
        for acked in told.acked:
            if acked.link == link and (acked.copies > 1 or not wiped):
                outcome.problems += _lost(acked, document)
        seen = {uid for head in document.heads for uid in _log(head.row)}
        for uid in seen & told.refused:
            outcome.problems.append(f"{uid} was refused and took effect")
        for name in placement.replicas(slot):
            outcome.problems += _repeated(cluster.processes[name], slot, link)


def _lost(acked: Acked, document: Branches) -> list[str]:
    holders = [head for head in document.heads if covers(head.lineage, acked.lineage)]
    if not holders:
        return [f"{acked.uid} in {acked.link} is lost"]
    if not any(acked.uid in _log(head.row) for head in holders):
        return [f"{acked.uid} in {acked.link} is in the lineage, and missing in the content"]
    return []


def _repeated(process: Process, slot: int, link: str) -> list[str]:
    """Return the operations that a node executed although it had their versions."""
    rows = process.disk.answer(Lines(slot, link, VERSIONS_MAX))
    problems = []
    first: dict[tuple[str, int, int], Row] = {}
    for row in sorted(rows, key=lambda row: row.n):
        made_by = unpack_identity(row.operation)[:3]
        before = first.setdefault(made_by, row)
        executed_here = lineage_of(row).hand.partition("@")[0] == process.store_id
        if before is not row and executed_here:
            problems.append(f"{process.name}: {made_by} again, v{row.version} of {link}")
    return problems


def _log(row: Row) -> list[str]:
    log: list[str] = json.loads(row.state).get("log", [])
    return log


def _named(row: Row) -> tuple[int, int, str]:
    return (row.version, row.updated_us, row.owner)
