"""Compaction on demand: it keeps the rows that a snapshot or a key may need."""

import pytest

from docstore.documents import keys, operations
from docstore.documents.events import CompactAsked, Requested
from docstore.documents.retention import trim
from docstore.documents.retention.pins import CLOCKS_APART_S, Pins
from docstore.documents.timing import ReplicaConfig
from docstore.model.batch import batch_of
from docstore.model.operation import Answer, Operation
from docstore.model.slots import slot_of
from docstore.storage.store import Trim
from docstore.testing.simulation.world import World
from tests.docstore.documents.test_together import LINKS, Batched, frame, put
from tests.docstore.documents.trio import NAMES
from tests.sim.cluster import Cluster
from tests.sim.process import Process


def group(slots: int = 1) -> tuple[World, Process]:
    """Return a group with three versions of a document in its last slot, and the slot's owner."""
    world = World(1)
    cluster = Cluster(world, 3, factor=None, slots=slots, config=ReplicaConfig(), changes=False)
    cluster.network.weather.loss = cluster.network.weather.straggle = 0.0
    world.run(4.0)
    owner = next(p for p in cluster.processes.values() if p.replica.core.logs[slots - 1].term)
    link = next(link for n in range(9999) if slot_of(link := f"/t/{n}", slots) == slots - 1)
    answers: list[Answer] = []
    for number in range(3):
        body = b'{"log":["%d"]}' % number
        owner.request(
            lambda request, body=body: Requested(  # type: ignore[misc]
                request, Operation(verb="PUT", link=link, body=body, creates=True), world.now + 3.0
            ),
            answers.append,
        )
        world.run(world.now + 0.5)
    assert [answer.status for answer in answers] == [201, 200, 200]
    return world, owner


def test_old_versions_wait_for_a_later_report_of_snapshots() -> None:
    world, owner = group()
    core, trimmer = owner.replica.core, owner.replica.trimmer
    core.pins = Pins(core.now, {})
    asked_us = core.wall_now_us()
    owner.feed(CompactAsked(asked_us))
    world.run(world.now + CLOCKS_APART_S + 5.0)
    assert trimmer.slots_left == 1
    assert core.logs[0].kept == 0
    core.pins = Pins(core.now, {})
    world.run(world.now + 1.0)
    assert trimmer.slots_left == 0
    assert core.logs[0].kept == core.logs[0].end


def test_rows_that_a_snapshot_pins_stay() -> None:
    world, owner = group()
    core = owner.replica.core
    owner.feed(CompactAsked(core.wall_now_us()))
    core.pins = Pins(core.now + CLOCKS_APART_S, {0: core.logs[0].end - 1})
    world.run(world.now + CLOCKS_APART_S + 1.0)
    assert core.logs[0].kept == core.logs[0].end - 1


def test_repeated_requests_do_not_keep_a_compaction_from_its_end() -> None:
    world, owner = group(slots=64)
    log = owner.replica.core.logs[63]
    asked_us = owner.replica.core.wall_now_us()
    world.run(world.now + CLOCKS_APART_S)
    for _ in range(400):
        owner.replica.core.pins = Pins(owner.replica.core.now, {})
        owner.feed(CompactAsked(asked_us))
        world.run(world.now + 0.01)
    assert log.kept == log.end > 0


def compacted(group: Batched) -> list[int]:
    """Have all replicas compact the rows replaced before now; return where each log begins."""
    for _ in range(2):  # Owners trim first, the others follow.
        for name in NAMES:
            group.feed(name, CompactAsked(int(group.now * 1e6)))
        group.run_until(lambda: False, 0.5)
    return [group.replicas[name].core.logs[0].kept for name in NAMES]


PUTS = [put(link) for link in LINKS]
ONCE = {"one": put(LINKS[0], key="once"), "a batch": batch_of(PUTS, key="once")}


@pytest.mark.parametrize("begun_anew", ["never", "before", "after"])
@pytest.mark.parametrize("once", ONCE.values(), ids=ONCE)
def test_rows_that_a_key_may_need_are_not_compacted(once: Operation, begun_anew: str) -> None:
    group = Batched()
    first = group.answer_to(frame(once, seq=1))
    group.answer_to(frame(batch_of([put(link, b'{"n":2}') for link in LINKS]), seq=2))
    end = group.log.end
    if begun_anew == "before":
        group.begin_anew()
    assert compacted(group) == [0, 0, 0]
    if begun_anew == "after":
        group.begin_anew()
    again = group.answer_to(frame(once, seq=3))
    assert (again.status, again.statuses) == (first.status, first.statuses)
    assert (again.rows or [again.row]) == (first.rows or [first.row])
    assert group.log.end == end


@pytest.mark.parametrize("operation", [PUTS[0], batch_of(PUTS)], ids=["one", "a batch"])
def test_a_retry_without_a_key_after_compaction_is_unknown_at_once(
    operation: Operation,
) -> None:
    group = Batched()
    group.answer_to(frame(operation, seq=1))
    group.answer_to(frame(batch_of([put(link, b'{"n":2}') for link in LINKS[:2]]), seq=2))
    assert compacted(group) == [group.log.end] * 3
    answer = group.answer_to(frame(operation, seq=1, attempt=2))
    assert (answer.status, answer.unknown) == (504, True)
    assert "compacted" in answer.detail


@pytest.mark.parametrize("is_begun_anew", [False, True])
def test_rows_of_a_key_are_compacted_when_the_key_has_expired(
    is_begun_anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (keys, operations, trim):
        monkeypatch.setattr(module, "KEY_LIFE_US", 3_000_000)
    group = Batched()
    group.run_until(lambda: False, 0.2)  # By now all have looked at the wall clock.
    group.answer_to(frame(ONCE["a batch"], seq=1))
    assert compacted(group) == [0, 0, 0]
    if is_begun_anew:
        group.begin_anew()
    group.run_until(lambda: False, 4)
    assert compacted(group) == [4, 4, 4]


def test_rows_of_an_expired_key_are_compacted_without_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (keys, operations, trim):
        monkeypatch.setattr(module, "KEY_LIFE_US", 3_000_000)
    group = Batched()
    group.run_until(lambda: False, 0.2)
    group.answer_to(frame(ONCE["a batch"], seq=1))
    assert compacted(group) == [0, 0, 0]
    interval_s = ReplicaConfig().retention.trim_interval_s
    logs = [group.replicas[name].core.logs[0] for name in NAMES]
    assert group.run_until(lambda: [log.kept for log in logs] == [4, 4, 4], 2 * interval_s)


def test_a_trim_ends_between_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim, "ROWS_AT_ONCE", 5)
    group = Batched()
    for seq in range(4):
        group.answer_to(frame(batch_of(PUTS), seq=seq))
    written = []
    store = group.replicas[group.owner()].core.outbox.store
    monkeypatch.setattr(
        group.replicas[group.owner()].core.outbox, "store",
        lambda write: (written.append(write), store(write)),
    )  # fmt: skip
    assert compacted(group) == [16, 16, 16]
    assert [each.kept for each in written if isinstance(each, Trim)] == [4, 8, 12, 16]
