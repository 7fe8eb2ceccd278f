"""One run: a cluster, its clients and its nemesis from one seed, and the verdict."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from docstore.documents.events import CompactAsked, Requested
from docstore.documents.timing import LeadershipTimes, ReplicaConfig, Retention, SendingBounds
from docstore.model.operation import Operation
from docstore.ownership.configuration import Stage
from docstore.testing.simulation.world import World
from tests.sim.batchers import Batcher, LooksBack, Repeater, batch_problems, instant_problems
from tests.sim.cluster import Cluster
from tests.sim.invariants import Invariants, Violation
from tests.sim.loaders import Loader
from tests.sim.nemesis import ALL, Nemesis
from tests.sim.process import Process
from tests.sim.verdict import document_problems, split
from tests.sim.workload import Client, History, Op, to_answer

FAULTS_S, HEALING_S = 12.0, 8.0
RETRIES_S = 3.0
"""An operation may be retried for this long: its version must not be trimmed before."""
COMPACT_S = 0.7
ROT = "a checksum does not match"
"""The alarm that rot is meant to raise."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Parameters of a run."""

    size: int = 3
    factor: int | None = None
    slots: int = 2
    links: int = 3
    clients: int = 4
    loaders: int = 0
    """Clients that send batches."""
    batchers: int = 0
    """Clients that send atomic batches."""
    looking_back: int = 0
    """Clients that read several documents as they were at one time."""
    keyed: bool = False
    """Atomic batches have keys and are repeated; and all nodes are asked to compact."""
    kinds: tuple[str, ...] = ALL
    beside: tuple[str, ...] = ()
    """Kinds of the second fault, where two strike at a time."""
    page_rows: int = 256
    faults_s: float = FAULTS_S
    hand_back_s: float = inf
    """After how long slots are given back to a preferred member."""
    changes: bool = False
    """The group is changed: nodes join, leave, and replace each other."""
    retention_s: float = 0.0
    """Age at which superseded versions and tombstones are trimmed; 0 for never."""
    versions: int = 0
    """How many versions of a document stay nevertheless, by its factory; 0: it does not say."""
    leases: bool = False
    """Owners read by lease."""
    past: bool = False
    """Clients read older versions as well."""


@dataclass(slots=True)
class Outcome:
    """Result of a run."""

    seed: int
    problems: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    operations: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    trace: str = ""


def run(seed: int, profile: Profile, watch: Callable[[str], None] | None = None) -> Outcome:
    """Run a seed under a profile; equal arguments give equal outcomes."""
    outcome = Outcome(seed)
    world = World(seed)
    cluster = _founded(world, profile)
    invariants = Invariants()
    trace = hashlib.sha256()

    def after_step(process: Process) -> None:
        invariants.after_step(process)
        if watch is not None:
            watch(f"{world.now:9.4f} {process.name}")
        trace.update(f"{world.now}{process.name}{world.events}".encode())

    for process in cluster.processes.values():
        process.after_step = after_step
    history = History()
    links = _links(profile)
    nemesis = Nemesis(cluster, profile.faults_s, profile.kinds, profile.beside)
    _start_clients(cluster, profile, links, history)
    try:
        world.run(profile.faults_s)
        nemesis.heal()
        world.run(profile.faults_s + HEALING_S)
        outcome.stuck = _final_reads(cluster, links, history)
        _judge(outcome, cluster, invariants, history)
    except Violation as error:
        outcome.problems.append(str(error))
    except Exception as error:  # noqa: BLE001 - a step that raises is a finding like any other
        outcome.problems.append(f"{type(error).__name__}: {error}")
    outcome.operations = len(history.ops)
    outcome.trace = trace.hexdigest()
    for process in cluster.processes.values():
        if process.life == 0:
            continue
        outcome.counters.update(process.replica.core.counters)
        rotten = "rot" in profile.kinds
        outcome.problems.extend(
            alarm for alarm in process.alarms if not (rotten and alarm.endswith(ROT))
        )
    outcome.counters.update(invariants.checked)
    return outcome


def _start_clients(cluster: Cluster, profile: Profile, links: list[str], history: History) -> None:
    until = profile.faults_s + HEALING_S / 2
    for index in range(profile.clients):
        Client(f"c{index}", cluster, links, history, until, past=profile.past)
    for index in range(profile.loaders):
        Loader(f"l{index}", cluster, links, history, until, past=profile.past)
    for index in range(profile.batchers):
        kind = Repeater if profile.keyed else Batcher
        kind(f"b{index}", cluster, links, history, until)
    for index in range(profile.looking_back):
        LooksBack(f"p{index}", cluster, links, history, until)
    if profile.keyed:
        cluster.world.after(COMPACT_S, _compact, cluster)


def _compact(cluster: Cluster) -> None:
    """Ask all nodes to compact what was replaced before now, and again a little later."""
    for process in cluster.processes.values():
        if process.up:
            process.feed(CompactAsked(process.replica.core.wall_now_us()))
    cluster.world.after(COMPACT_S, _compact, cluster)


def _links(profile: Profile) -> list[str]:
    """Return the documents; those of batches share a key with some others."""
    if profile.batchers:
        return [f"/t:/k{index // 4}~{index}" for index in range(profile.links)]
    return [f"/t/d{index}" for index in range(profile.links)]


def _founded(world: World, profile: Profile) -> Cluster:
    config = ReplicaConfig(
        leadership=LeadershipTimes(hand_back_after_s=profile.hand_back_s),
        sending=SendingBounds(page_rows=profile.page_rows),
        retention=Retention(
            history_s=profile.retention_s,
            tombstones_s=max(profile.retention_s, RETRIES_S),
            trim_interval_s=0.2,
        ),
    )
    return Cluster(
        world,
        profile.size,
        factor=profile.factor,
        slots=profile.slots,
        config=config,
        changes=profile.changes,
        reads="lease" if profile.leases else "confirm",
        prepare=lambda process: setattr(process, "versions", profile.versions),
    )


def _final_reads(cluster: Cluster, links: list[str], history: History) -> list[str]:
    """Read every document through every node; return what could not be read."""
    world = cluster.world
    for link in links:
        for name in cluster.configuration.names:
            op = Op("read", link, "", world.now)
            history.ops.append(op)
            deadline = world.now + 2.0

            def make(request: int, link: str = link, deadline: float = deadline) -> Requested:
                return Requested(request, Operation(verb="GET", link=link), deadline)

            cluster.processes[name].request(
                make, lambda answer, op=op: to_answer(op, world.now, answer)
            )
    world.run(world.now + 2.5)
    last = history.ops[-len(links) * len(cluster.configuration.names) :]
    return [f"{op.link} cannot be read: {op.outcome}" for op in last if op.outcome != "ok"]


def _judge(outcome: Outcome, cluster: Cluster, invariants: Invariants, history: History) -> None:
    rows = [row for slot in invariants.decided.values() for row in slot]
    outcome.problems += batch_problems(history.batches, rows)
    outcome.problems += instant_problems(history.instants, rows)
    for link, ops in split(history.ops).items():
        versions = [row for row in rows if row.link == link]
        outcome.problems.extend(f"{link}: {each}" for each in document_problems(ops, versions))
    if cluster.configuration.stage is not Stage.STABLE:
        outcome.stuck.append(f"the change to configuration {cluster.configuration.id} hangs")
    for slot, replicas in enumerate(cluster.configuration.placement().table):
        ends = {name: cluster.processes[name].replica.core.logs[slot].end for name in replicas}
        digests = {
            name: cluster.processes[name].disk.digests([slot]).get(slot) for name in replicas
        }
        if len(set(ends.values())) > 1 or len(set(digests.values())) > 1:
            outcome.stuck.append(f"replicas of slot {slot} differ: {ends}")
