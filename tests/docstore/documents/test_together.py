"""Batches at their owner: judged first, made together, and found again by a retry."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.documents import parts
from docstore.documents.events import Event, Requested
from docstore.documents.timing import ReplicaConfig
from docstore.documents.write_path.propose import pages
from docstore.machines.effects import Read
from docstore.machines.events import QueriesAnswered, Received, TurnEnded
from docstore.model.batch import BYTES_MAX, CURRENT_BYTES_MAX, batch_of
from docstore.model.document import Row
from docstore.model.identity import OperationIdentity, has_created
from docstore.model.operation import ANY_TOMBSTONE, Answer, Conditions, Operation
from docstore.storage.store import Corrupt, Newest, NewestOfMany
from docstore.testing.simulation.world import World
from docstore.wire.messages import Answered, Forward, Forwarded
from tests.docstore.documents.test_recalling import BOOT, Group
from tests.docstore.documents.trio import NAMES
from tests.sim.cluster import Cluster
from tests.sim.process import Appending

LINKS = [f"/t:/k~{letter}" for letter in "abcd"]


LARGE = json.dumps({"x": "x" * 300_000}).encode()


def put(link: str, body: bytes = b'{"n":1}', **members: Any) -> Operation:
    return Operation(verb="PUT", link=link, body=body, creates=True, **members)


def frame(batch: Operation, seq: int = 5, attempt: int = 1) -> Forwarded:
    return Forwarded(BOOT, seq, 0, attempt, 60_000, batch.packed())


class Batched(Group):
    """A group that is asked for batches by a member that does not own the slot."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: dict[int, Answer] = {}

    def feed(self, name: str, event: Event) -> None:
        if isinstance(event, Received) and isinstance(event.message, Answered):
            for seq, _, answer, *_ in event.message.answers:
                if answer is not None:
                    self.answered[seq] = Answer(*answer)
        super().feed(name, event)

    def answer_to(self, asked: Forwarded) -> Answer:
        self.ask(asked)
        return self.answered[asked.seq]


def made(answer: Answer) -> list[tuple[str, int, int]]:
    """Return link, status and version of each part of a batch."""
    assert answer.rows is not None
    rows = zip(answer.rows, answer.statuses, strict=True)
    return [(row.link, status, row.version) for row, status in rows]


def test_the_rows_of_a_batch_are_adjacent_and_have_one_time() -> None:
    group = Batched()
    answer = group.answer_to(frame(batch_of([put(link) for link in LINKS])))
    assert made(answer) == [(link, 201, 0) for link in LINKS]
    [looked_up] = [each for each in group.queries if isinstance(each, NewestOfMany)]
    assert [link for _, link, _ in looked_up.asked] == LINKS
    rows = answer.rows or ()
    assert [row.n for row in rows] == [1, 2, 3, 4]
    assert len({row.updated_us for row in rows}) == 1
    assert [parts.span_of(row) for row in rows] == [(1, 4)] * 4
    assert [row.state for row in rows] == [b""] * 4
    deleting = [Operation(verb="DELETE", link=LINKS[0]), put(LINKS[1])]
    answer = group.answer_to(frame(batch_of(deleting), seq=6))
    assert made(answer) == [(LINKS[0], 200, 1), (LINKS[1], 200, 1)]
    answer = group.answer_to(frame(batch_of([put(LINKS[0]), put("/t:/k~e")]), seq=7))
    assert made(answer) == [(LINKS[0], 201, 2), ("/t:/k~e", 201, 0)]


def test_a_refused_update_refuses_its_batch_and_is_named() -> None:
    group = Batched()
    group.answer_to(frame(batch_of([put(LINKS[1])])))
    stale = put(LINKS[1], conditions=Conditions(version=7))
    answer = group.answer_to(frame(batch_of([put(LINKS[0]), stale, put(LINKS[2])]), seq=6))
    assert (answer.status, answer.code) == (409, "version-conflict")
    assert list(answer.statuses) == [0, 409, 0]
    assert group.log.end == 1
    large = [put(link, json.dumps({"x": "x" * (BYTES_MAX // 2)}).encode()) for link in LINKS[:2]]
    answer = group.answer_to(frame(batch_of(large), seq=7))
    assert (answer.status, answer.statuses) == (413, ())
    many = [put(f"/t:/k~{number}") for number in range(5)]  # Pages of this group have four rows.
    assert group.answer_to(frame(batch_of(many), seq=8)).status == 413
    assert group.log.end == 1


def test_a_batch_with_an_update_that_changes_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Batched()
    group.answer_to(frame(batch_of([put(LINKS[0])])))
    monkeypatch.setattr(Appending, "patch", lambda *_: None)
    patch = Operation(verb="PATCH", link=LINKS[0], body=b"{}", media="handler")
    answer = group.answer_to(frame(batch_of([put(LINKS[1]), patch]), seq=6))
    assert (answer.status, answer.code, list(answer.statuses)) == (409, "unchanged", [0, 409])
    assert group.log.end == 1


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_retry_finds_all_rows_of_its_batch(is_restarted: bool) -> None:
    group = Batched()
    group.answer_to(frame(batch_of([put(LINKS[2])]), seq=4))
    batch = batch_of([put(link) for link in LINKS])
    first = group.answer_to(frame(batch))
    group.answer_to(frame(batch_of([put(link, b'{"n":2}') for link in LINKS[:2]]), seq=6))
    if is_restarted:
        group.begin_anew()
    again = group.answer_to(frame(batch, attempt=2))
    assert made(again) == made(first)
    assert made(first)[2] == (LINKS[2], 200, 1)
    assert group.log.end == 7


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_key_belongs_to_the_whole_batch(is_restarted: bool) -> None:
    group = Batched()
    batch = batch_of([put(link) for link in LINKS], key="once")
    first = group.answer_to(frame(batch))
    if is_restarted:
        group.begin_anew()
    assert made(group.answer_to(frame(batch, seq=6))) == made(first)
    other = batch_of([put(link) for link in LINKS[:3]], key="once")
    assert group.answer_to(frame(other, seq=7)).code == "key-reused"
    assert group.log.end == 4
    # Only the first document remembers the key: a batch that begins elsewhere is another one.
    assert group.answer_to(frame(batch_of([put(LINKS[3])], key="once"), seq=8)).status == 200


def test_a_retry_packed_by_another_version_is_the_same_batch() -> None:
    """Pack a further member as a later version may, or a PUT that no longer creates."""
    group = Batched()
    batch = batch_of([put(link) for link in LINKS], key="once")
    first = group.answer_to(frame(batch))
    later = msgpack.packb([[*packed, "later"] for packed in msgpack.unpackb(batch.body)])
    assert made(group.answer_to(frame(replace(batch, body=later), seq=6))) == made(first)
    others = batch_of([replace(put(link), creates=False) for link in LINKS], key="once")
    assert made(group.answer_to(frame(others, seq=7))) == made(first)
    bodies = [b'{"n":1}', b'{"n":1}', b'{"n":1}', b'{"n":2}']
    moved = batch_of([put(*each) for each in zip(LINKS, bodies, strict=True)], key="once")
    assert group.answer_to(frame(moved, seq=8)).code == "key-reused"
    deleting = [put(link) for link in LINKS[:3]] + [Operation(verb="DELETE", link=LINKS[3])]
    assert group.answer_to(frame(batch_of(deleting, key="once"), seq=9)).code == "key-reused"
    assert group.log.end == 4


def test_a_fence_covers_the_whole_batch_and_is_no_part_of_its_identity() -> None:
    group = Batched()
    puts = [put(link) for link in LINKS[:2]]
    first = group.answer_to(frame(batch_of(puts, key="once", fence=("lock", 7))))
    later = batch_of(puts, key="once", fence=("lock", 8))
    assert made(group.answer_to(frame(later, seq=6))) == made(first)
    for seq, link in enumerate(LINKS[:2], 7):
        lower = batch_of([put(link)], fence=("lock", 6))
        assert group.answer_to(frame(lower, seq=seq)).code == "fenced"
    assert group.log.end == 2


def test_updates_of_a_document_wait_for_the_read_of_an_earlier_one() -> None:
    """Have a batch wait for an earlier update, and a later update wait for the batch."""
    group = Batched()
    owner = group.owner()
    replica, disk = group.replicas[owner], group.disks[owner]
    operations = [put(LINKS[3]), batch_of([put(link) for link in LINKS]), put(LINKS[2])]
    reads: list[Read] = []
    for number, operation in enumerate(operations):
        effects = replica.step(Requested(number, operation, group.now + 9), group.now)
        reads += [each for each in effects if isinstance(each, Read)]
    asked = []
    while reads:
        read = reads.pop(0)
        asked.append(read.query)
        found = QueriesAnswered([(read.token, disk.answer(read.query))])
        effects = replica.step(found, group.now)
        reads += [each for each in effects if isinstance(each, Read)]
    assert len(asked) == len(LINKS)
    written = [row.link for row in replica.core.logs[0].pending.values()]
    assert written[0] == LINKS[3]
    assert sorted(written[1:]) == sorted([*LINKS, LINKS[2]])


def test_a_batch_that_meets_damage_is_retried() -> None:
    group = Batched()
    owner = group.owner()
    replica = group.replicas[owner]
    batch = batch_of([put(link) for link in LINKS[:2]])
    effects = replica.step(Requested(1, batch, group.now + 9), group.now)
    reads = [each for each in effects if isinstance(each, Read)]
    for read, result in zip(reads, ([], Corrupt(0)), strict=True):
        replica.step(QueriesAnswered([(read.token, result)]), group.now)
    assert not replica.core.logs[0].full
    assert replica.core.logs[0].end == 0
    assert len(replica.gateway.pending) == 1


def with_large_documents(count: int) -> Batched:
    """Return a group, in a new term, with documents too large for its owner's memory."""
    group = Batched()
    for number, link in enumerate(LINKS[:count]):
        group.answer_to(frame(batch_of([put(link, LARGE)]), seq=10 + number))
    group.begin_anew()
    return group


def test_a_batch_of_large_documents_is_executed() -> None:
    group = with_large_documents(2)
    answer = group.answer_to(frame(batch_of([put(link) for link in LINKS[:2]]), seq=20))
    assert made(answer) == [(link, 200, 1) for link in LINKS[:2]]
    assert [each.link for each in group.queries if isinstance(each, Newest)] == LINKS[:2]
    assert not group.log.term.cache.pinned


def test_a_batch_that_deletes_large_documents_is_refused_for_its_states() -> None:
    group = with_large_documents(2)
    deleting = [Operation(verb="DELETE", link=link) for link in LINKS[:2]]
    assert group.answer_to(frame(batch_of(deleting), seq=20)).status == 413
    assert [each.link for each in group.queries if isinstance(each, Newest)] == LINKS[:2]
    assert group.log.end == 2
    assert group.answer_to(frame(batch_of(deleting[:1]), seq=21)).status == 200


def alone(operation: Operation, seq: int) -> Forwarded:
    return Forwarded(BOOT, seq, 0, 1, 60_000, operation.packed())


def of_size(size: int) -> list[Operation]:
    """Return updates whose documents have this size in bytes together."""
    body = json.dumps({"x": "x" * (size // len(LINKS))}).encode()
    return [put(link, body) for link in LINKS]


def test_a_batch_of_documents_that_take_too_long_to_read_is_refused() -> None:
    group = Batched()
    for seq, operation in enumerate(of_size(CURRENT_BYTES_MAX)):
        group.answer_to(alone(operation, seq))
    answer = group.answer_to(frame(batch_of(list(map(put, LINKS))), seq=20))
    assert (answer.status, answer.statuses, group.log.end) == (413, (), 4)
    assert "the stored documents of a batch" in answer.detail
    group.answer_to(alone(Operation(verb="DELETE", link=LINKS[0]), seq=21))
    born = Operation(verb="POST", link=LINKS[0], body=b"{}", recreate_below=ANY_TOMBSTONE)
    answer = group.answer_to(frame(batch_of([born, *map(put, LINKS[1:])]), seq=22))
    assert (answer.status, group.log.end) == (200, 9)


@pytest.mark.parametrize("size", [BYTES_MAX, CURRENT_BYTES_MAX])
def test_a_batch_is_too_large_only_once_earlier_rows_are_decided(size: int) -> None:
    group = Batched()
    owner = group.owner()
    entry, other = (name for name in NAMES if name != owner)
    group.cut_off = {entry, other}
    alones = [alone(operation, seq) for seq, operation in enumerate(2 * of_size(size))]
    deleting = frame(batch_of([Operation(verb="DELETE", link=link) for link in LINKS]), seq=9)
    group.feed(owner, Received(entry, Forward([*alones, deleting])))
    assert group.run_until(lambda: group.log.durable == 8, 0.2)
    assert not group.sent[entry, Answered]
    group.cut_off = set()
    assert group.run_until(lambda: 9 in group.answered, 5)
    assert (group.answered[9].status, group.log.decided) == (413, 8)


def test_a_document_in_memory_stays_there_while_a_batch_waits_for_another() -> None:
    group = with_large_documents(3)
    owner = group.owner()
    replica, disk = group.replicas[owner], group.disks[owner]

    def step(event: Event) -> list[Read]:
        return [e for e in replica.step(event, group.now) if isinstance(e, Read)]

    def found(read: Read) -> list[Read]:
        return step(QueriesAnswered([(read.token, disk.answer(read.query))]))

    [first] = step(Requested(1, put(LINKS[0], LARGE), group.now + 9))
    found(first)
    group.feed(owner, TurnEnded())
    assert group.run_until(lambda: group.log.decided == group.log.end == group.log.durable, 5)
    [second] = step(Requested(2, batch_of([put(link) for link in LINKS[:2]]), group.now + 9))
    [third] = step(Requested(3, put(LINKS[2], LARGE), group.now + 9))
    assert not found(third)
    assert LINKS[0] in group.log.term.cache
    assert not found(second)
    assert group.log.end == 3 + 4


def test_a_batch_of_several_slots_is_refused() -> None:
    world = World(1)
    cluster = Cluster(world, 3, factor=None, slots=64, config=ReplicaConfig())
    world.run(3.0)
    answers: list[Answer] = []
    batch = batch_of([put("/t:/a"), put("/t:/b")])
    cluster.processes["n0"].request(lambda request: Requested(request, batch, 9.0), answers.append)
    world.run(6.0)
    assert [(answer.status, answer.code) for answer in answers] == [(422, "several-slots")]


def row(n: int, part: Sequence[int], size: int) -> Row:
    identity = OperationIdentity("n1", 1, n, 0, part=part).pack()
    return Row(0, n, 1, "n1", "/t:/k", n, "PUT", 1, False, b"", identity, b"", b"x" * size)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30)), min_size=1, max_size=12))
def test_no_page_ends_within_a_batch(batches: list[tuple[int, int]]) -> None:
    rows: list[Row] = []
    for count, size in batches:
        places = [(index, count) for index in range(count)] if count > 1 else [()]
        rows += [row(len(rows) + 1 + index, part, size) for index, part in enumerate(places)]
    found = pages(rows, 5, 130)
    assert [each for page in found for each in page] == rows
    for page in found:
        assert 0 < len(page) <= 5
        assert parts.span_of(page[-1])[1] == page[-1].n
    assert len(found) <= len(batches)


def test_a_row_of_a_batch_keeps_its_created_flag_and_its_part() -> None:
    identity = OperationIdentity("n1", 1, 2, 0, created=True, part=(1, 3))
    made = row(7, (1, 3), 0)._replace(operation=identity.pack(), version=3)
    assert has_created(made)
    assert parts.part_of(made) == (1, 3)
