"""Runs of record streams: producers, consumers, faults and elections, from a seed."""

from docstore.model.streams_batch import header_of
from docstore.storage.partitions import Batches
from docstore.streams.forms import records_of
from docstore.streams.replica_set import ReplicaSet, Resolution, partition_name
from tests.sim.invariants import Violation
from tests.sim.run import Outcome
from tests.sim.streaming_bench import Bench, RegisterBench, ReplicaBench
from tests.sim.streaming_clients import Consumer, Deleter, Producer, Told
from tests.sim.streaming_compaction import view_of
from tests.sim.streaming_invariants import WHOLE
from tests.sim.streaming_nemesis import StreamNemesis
from tests.sim.streaming_shapes import Shape

HEALING_S = 10.0
CHECKSUM = "a checksum does not match"
UNCLEAN = ": an unclean election may have lost records"
"""Whether one was allowed is checked where it is decided."""


def run(seed: int, shape: Shape, *, register: bool = True) -> Outcome:
    """Run a seed under a shape; equal arguments give equal outcomes."""
    outcome, told = Outcome(seed), Told()
    bench = RegisterBench(seed, shape) if register else ReplicaBench(seed, shape)
    world = bench.world
    bench.nodes.network.weather.loss = shape.loss
    nemesis = StreamNemesis(bench.nodes, bench, shape.faults_s, shape.kinds, shape.beside)
    _begin_clients(bench, told)
    try:
        world.run(shape.faults_s)
        nemesis.heal()
        bench.heal()
        world.run(shape.faults_s + HEALING_S)
        outcome.stuck = stuck(bench, told, nemesis)
        if outcome.stuck and nemesis.rotten:
            # A scrub may have found the damage only now.
            world.run(world.now + HEALING_S)
            outcome.stuck = stuck(bench, told, nemesis)
        outcome.problems += told.problems + lost(bench, told)
    except Violation as error:
        outcome.problems.append(f"{world.now:.3f}: {error}")
    except Exception as error:  # noqa: BLE001 - a step that raises is a finding like any other
        outcome.problems.append(f"{world.now:.3f}: {type(error).__name__}: {error}")
    outcome.operations = told.counters["produces"] + told.counters["fetched"]
    outcome.counters.update(told.counters)
    outcome.counters.update(bench.invariants.checked)
    for streamer in bench.streamers.values():
        if not streamer.boot:
            continue  # A spare that never joined.
        outcome.counters.update(streamer.counters + streamer.partitions.core.counters)
        outcome.problems += [alarm for alarm in streamer.alarms if not _is_meant(alarm, nemesis)]
    return outcome


def _begin_clients(bench: Bench, told: Told) -> None:
    shape = bench.shape
    until = shape.faults_s + HEALING_S / 3
    for index in range(shape.producers):
        Producer(
            f"p{index}",
            bench,
            told,
            link=bench.links[index % len(bench.links)],
            numbered=shape.numbered and index % 3 != 2,
            acks=shape.acks,
            until=until,
        )
    for index in range(shape.consumers):
        Consumer(
            bench,
            told,
            link=bench.links[index % len(bench.links)],
            isolation="uncommitted" if index % 3 == 2 else "committed",
            by_token=index % 3 == 1,
            until=until,
        )
    for link in bench.links if shape.deletes else ():
        Deleter(bench, told, link=link, until=until)


def _is_meant(alarm: str, nemesis: StreamNemesis) -> bool:
    """Say whether a fault of this run must raise this alarm."""
    return bool(nemesis.rotten and alarm.endswith(CHECKSUM)) or UNCLEAN in alarm


def lost(bench: Bench, told: Told) -> list[str]:
    """Return the acknowledged records that are missing."""
    problems = []
    books = bench.invariants.books
    for name, uid in told.committed:
        if uid not in books[name].places and uid not in books[name].lost_values:
            problems.append(f"RI17: {uid} was committed in {name}, and is lost")
    for name, uid, epoch in told.stored:
        # RI14: a record that only the leader had is lost only with this leader.
        there = {bench.name_of(link) for link in bench.links if not _is_abandoned(bench, link)}
        lacks = name in there and uid not in books[name].places
        if lacks and max(books[name].leaders) <= epoch:
            problems.append(f"RI14: {uid} of {name} is lost under the same leader {epoch}")
    return problems


def stuck(bench: Bench, told: Told, nemesis: StreamNemesis) -> list[str]:
    """Return what has not healed."""
    links = [link for link in bench.links if not _is_abandoned(bench, link)]
    found = [
        f"{sent.uids} of {each} is not appended"
        for each, sent in told.pending.items()
        if sent.link in links
    ]
    for link in links:
        document = bench.document(link)
        if document is None:
            found.append(f"{link} is missing")
            continue
        said = document.pack().decode()
        live = {node for node, _ in document.lrs}
        strangers = set(document.replicas) - set(bench.members)
        is_whole = live == set(document.replicas) and not strangers
        if document.resolution is not Resolution.ONLINE or not is_whole:
            found.append(f"{link} is {said}")
        elif bench.shape.fail_back_s and document.leader != document.replicas[0]:
            found.append(f"{link} is not led by the preferred: {said}")
        else:
            found += _unequal(bench, nemesis, link, document)
    return found


def _is_abandoned(bench: Bench, link: str) -> bool:
    """Say whether no node of the group has all committed records any more.

    A change of the group does not wait for a dead node, whose disk leaves with it.
    """
    document = bench.document(link)
    if document is None or document.resolution is not Resolution.OFFLINE:
        return False
    able = {*document.lrs, *document.elr}
    gone = bench.invariants.books[partition_name(link, document.incarnation)].ended
    lacks = bool(able) and all(each in gone or each[0] not in bench.members for each in able)
    bench.invariants.checked["abandoned"] += lacks
    return lacks


def _unequal(bench: Bench, nemesis: StreamNemesis, link: str, document: ReplicaSet) -> list[str]:
    """Return how the replicas of a partition differ on their disks."""
    name = partition_name(link, document.incarnation)
    logs = {node: bench.streamers[node].partitions.logs.get(name) for node in document.replicas}
    ends = {node: log and (log.start, log.high, log.durable, log.end) for node, log in logs.items()}
    committed = len(bench.invariants.books[name].committed)
    if any(not each or each[1:] != (committed, committed, committed) for each in ends.values()):
        return [f"{name}: {committed} are committed, of {ends}"]
    start = max(log.start for log in logs.values() if log is not None)
    if bench.shape.cleanup != "delete":
        return _unlike(bench, nemesis, name, document, start)
    whole = _held(bench, document.leader, name, start)
    for node in document.replicas:
        held = _held(bench, node, name, start)
        if held is not None and whole is not None and held != whole:
            return [f"{name}: {node} and {document.leader} differ"]
        if (held is None or whole is None) and not nemesis.rotten:
            return [f"{name}: {node} or {document.leader} is damaged"]
    return []


def _unlike(
    bench: Bench, nemesis: StreamNemesis, name: str, document: ReplicaSet, start: int
) -> list[str]:
    """RI23: return how a compacted replica differs from the newest record of each key."""
    book = bench.invariants.books[name]
    wanted: dict[bytes | None, str] = {}
    for key, places in book.by_key.items():
        newest = book.committed[places[-1]] if places else None
        if newest is not None and places[-1] >= start and not newest.is_tombstone:
            wanted[key] = newest.uid
    for node in document.replicas:
        held = _held(bench, node, name, 0)
        if held is None:
            if not nemesis.rotten:
                return [f"{name}: {node} is damaged"]
            continue
        records = (pair for raw in held for pair in records_of(header_of(raw), raw))
        seen = view_of(pair for pair in records if pair[0] >= start)
        bench.invariants.checked["RI23 views"] += 1
        # A replica may keep a record that the leader of an unclean election lacked.
        seen = {key: uid for key, uid in seen.items() if not book.is_lost(uid)}
        if seen != wanted:
            return [f"RI23: {name}: {node} shows {seen}, not {wanted}"]
    return []


def _held(bench: Bench, node: str, name: str, start: int) -> list[bytes] | None:
    """Return the batches on a disk; None if one of them is damaged."""
    found = bench.streamers[node].disk.answer(Batches(name, start, WHOLE, WHOLE))
    if not isinstance(found, list):
        return None
    return [raw for raw in found if isinstance(raw, bytes) and header_of(raw).base >= start]
