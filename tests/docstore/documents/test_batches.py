"""A client's batch of separate operations: one event, each operation handled on its own."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from docstore.documents.events import BatchRequested
from docstore.documents.timing import WaitingBounds
from docstore.documents.write_path.forward import NO_ROOM, Pending, bundles
from docstore.machines.effects import Give, Read
from docstore.machines.events import QueriesAnswered, Received, TurnEnded
from docstore.model.operation import Operation
from docstore.storage.store import Corrupt, Newest, NewestOfMany
from docstore.wire.messages import Forward, Forwarded
from tests.docstore.documents.trio import Trio

FIRST = 1000


def puts(*links: str) -> list[Operation]:
    return [Operation(verb="PUT", link=link, body=b'{"n":1}', creates=True) for link in links]


class Loaded(Trio):
    """A group whose owner is loaded."""

    def __init__(self) -> None:
        super().__init__()
        assert self.run_until(self.owner, 10)

    @property
    def core(self) -> Any:
        return self.replicas[self.owner()].core

    def load(self, name: str, operations: Sequence[Operation]) -> dict[int, tuple[int, int | None]]:
        """Return place -> (status, version), once each is answered."""
        before = len(self.answers)
        self.feed(name, BatchRequested(FIRST, operations, self.now + 5))
        assert self.run_until(lambda: len(self.answers) == before + len(operations), 6)
        given_answers = [respond for _, respond in self.answers[before:]]
        return {
            each.request - FIRST: (
                each.outcome.status,
                each.outcome.row and each.outcome.row.version,
            )
            for each in given_answers
        }


def test_a_batch_is_read_in_one_query_and_each_operation_is_answered() -> None:
    group = Loaded()
    links = [f"/t/{number}" for number in range(5)]
    found = group.load(group.owner(), puts(*links))
    assert found == dict.fromkeys(range(5), (201, 0))
    assert [type(query) for query in group.queries] == [NewestOfMany]
    assert group.load(group.owner(), puts(*links)) == dict.fromkeys(range(5), (200, 1))
    assert len(group.queries) == 1, "the documents are in the cache"


def test_operations_on_one_document_follow_each_other() -> None:
    group = Loaded()
    found = group.load(group.owner(), puts("/t/a", "/t/b", "/t/a", "/t/a"))
    assert found == {0: (201, 0), 1: (201, 0), 2: (200, 1), 3: (200, 2)}


def test_a_batch_at_another_node_is_forwarded_and_answered() -> None:
    group = Loaded()
    entry = next(name for name in group.replicas if name != group.owner())
    found = group.load(entry, puts("/t/a", "/t/b", "/t/c", "/t/d"))
    assert found == dict.fromkeys(range(4), (201, 0))
    assert [type(query) for query in group.queries] == [NewestOfMany]


def test_operations_beyond_the_waiting_bound_are_refused_and_the_rest_executed() -> None:
    group = Loaded()
    core = group.core
    core.config = replace(core.config, waiting=WaitingBounds(operations_max=2))
    found = group.load(group.owner(), puts("/t/a", "/t/b", "/t/c", "/t/d"))
    assert found == {0: (201, 0), 1: (201, 0), 2: (503, None), 3: (503, None)}
    refused = [each for _, each in group.answers if each.outcome is NO_ROOM]
    assert [each.request for each in refused] == [FIRST + 2, FIRST + 3]


def test_a_query_that_meets_damage_is_repeated_for_each_document() -> None:
    group = Loaded()
    replica, links = group.replicas[group.owner()], ["/t/a", "/t/b", "/t/c", "/t/d"]
    asked = replica.step(BatchRequested(FIRST, puts(*links), group.now + 5), group.now)
    [look_up] = [effect for effect in asked if isinstance(effect, Read)]
    assert isinstance(look_up.query, NewestOfMany)
    assert [link for _, link, _ in look_up.query.asked] == links
    again = replica.step(QueriesAnswered([(look_up.token, Corrupt(-1))]), group.now)
    reads = [effect for effect in again if isinstance(effect, Read)]
    assert [each.query for each in reads] == [Newest(0, link, 0) for link in links]
    assert not any(isinstance(effect, Give) for effect in again)
    rest = [(each.token, []) for each in reads[1:]]
    replica.step(QueriesAnswered(rest), group.now)
    assert len(group.core.logs[0].term.fresh) == 3, "the sound ones go on"
    replica.step(QueriesAnswered([(reads[0].token, Corrupt(0))]), group.now)
    assert not replica.core.logs[0].full, "and the damaged one's slot abstains"


def test_a_batch_continues_the_versions_of_stored_documents() -> None:
    group = Loaded()
    owner = group.owner()
    group.load(owner, puts("/t/a", "/t/b"))
    group.core.logs[0].term.cache.clear()
    found = group.load(owner, puts("/t/b", "/t/new", "/t/a", "/t/newer"))
    assert found == {0: (200, 1), 1: (201, 0), 2: (200, 1), 3: (201, 0)}
    assert isinstance(group.queries[-1], NewestOfMany)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from((1, 3)))))
def test_bundles_keep_the_order_and_have_one_slot_and_level(places: list[tuple[int, Any]]) -> None:
    queued = [
        Pending(number, number, slot, replace(puts("/t/a")[0], level=level), 1.0, 0.0)
        for number, (slot, level) in enumerate(places)
    ]
    found = list(bundles(queued))
    assert [each for bundle in found for each in bundle] == queued
    ends = [{(each.slot, each.operation.level) for each in bundle} for bundle in found]
    assert all(len(each) == 1 for each in ends)
    assert all(one != next_one for one, next_one in pairwise(ends))


def test_two_attempts_that_wait_for_one_query_make_one_row() -> None:
    group = Loaded()
    owner = group.owner()
    entry = next(name for name in group.replicas if name != owner)
    replica, [put] = group.replicas[owner], puts("/t/a")
    asked = [Forwarded(7, 1, 0, attempt, 5000, put.packed()) for attempt in (1, 2)]
    effects = replica.step(Received(entry, Forward(asked), group.core.configuration.id), group.now)
    [look_up] = [effect for effect in effects if isinstance(effect, Read)]
    assert look_up.query == Newest(0, "/t/a", 0)
    replica.step(QueriesAnswered([(look_up.token, [])]), group.now)
    replica.step(TurnEnded(), group.now)
    assert group.core.logs[0].end == 1
