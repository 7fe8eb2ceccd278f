"""Measures of the operations that nodes execute, in a simulated group."""

from collections import Counter
from dataclasses import replace

import pytest

from docstore.documents.clients import Inflight
from docstore.documents.events import Requested
from docstore.documents.measures import PATHS_MAX, Measures
from docstore.documents.timing import ReplicaConfig
from docstore.model.operation import Answer, Operation, Verb
from docstore.model.service import Level
from docstore.testing.simulation.world import World
from tests.sim.cluster import Cluster
from tests.sim.process import Process

LINK = "/t/a"
PUT = Operation(verb="PUT", link=LINK, body=b'{"log":[]}', creates=True)
GET = Operation(verb="GET", link=LINK)


def group(level: int = 3, *measured: str) -> list[Process]:
    """Return the nodes of a group that measures some factories."""
    world = World(1)

    def prepare(process: Process) -> None:
        process.level, process.measured = level, set(measured)

    cluster = Cluster(world, 3, factor=None, slots=1, config=ReplicaConfig(), prepare=prepare)
    cluster.network.weather.loss = cluster.network.weather.straggle = 0.0
    world.run(4.0)
    return list(cluster.processes.values())


def asked(node: Process, operation: Operation) -> Answer:
    world = node._world
    answers: list[object] = []
    node.request(lambda request: Requested(request, operation, world.now + 3.0), answers.append)
    world.run(world.now + 0.5)
    [answer] = answers
    assert isinstance(answer, Answer)
    return answer


def counts(nodes: list[Process], path: str) -> Counter[str]:
    """Return method -> how many requests all nodes together have measured."""
    found: Counter[str] = Counter()
    for node in nodes:
        for verb, measure in node.replica.measures.of(path).items():
            found[verb] += measure.count
    return found


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_executing_node_measures_an_operation_from_any_entry_node(level: Level) -> None:
    nodes = group(level, "/t")
    for node in nodes:
        assert asked(node, replace(PUT, level=level)).is_success
        assert asked(node, replace(GET, level=level)).status == 200
    for path in ("/t", LINK):
        assert counts(nodes, path) == {"PUT": 3, "GET": 3}
    if level == 3:
        assert sum(bool(node.replica.measures.of("/t")) for node in nodes) == 1


def test_a_measured_time_includes_the_quorum() -> None:
    nodes = group(3, "/t")
    assert asked(nodes[0], PUT).is_success
    [owner] = [node for node in nodes if node.replica.measures.of("/t")]
    [measure] = owner.replica.measures.of(LINK).values()
    assert 100 < measure.latest_us == measure.total_us < 500_000
    assert measure.updated_us > 0


def test_refusals_count_as_failures_and_operations_handed_back_do_not_count() -> None:
    nodes = group(3, "/t")
    refused = Operation(verb="PATCH", link="/t/none", body=b"{}", media="merge")
    assert asked(nodes[0], refused).status == 404
    measures = [m for n in nodes for m in n.replica.measures.of("/t/none").values()]
    assert [(each.count, each.failed) for each in measures] == [(1, 1)]
    # A node that is not the owner hands it back: the entry node asks again, answered once.
    measured = Measures({"/t"})
    inflight = Inflight("n0", 1, 1, 1, 1, 9.0, 0, PUT)
    measured.arrived(inflight, 1.0)
    measured.answered([(inflight, None, False)], 2.0, 5)
    assert measured.of("/t") == {}
    measured.answered([(inflight, Answer(200), False)], 2.5, 5)
    assert measured.of(LINK)["PUT"].latest_us == 1_500_000


@pytest.mark.parametrize("verb", ["BATCH", "RESOLVE"])
def test_operations_on_several_documents_are_not_measured(verb: Verb) -> None:
    inflight = Inflight("n0", 1, 1, 1, 1, 9.0, 0, replace(PUT, verb=verb))
    Measures({"/t"}).arrived(inflight, 1.0)
    assert inflight.arrived_at is None


def test_other_factories_and_history_reads_are_not_measured() -> None:
    nodes = group(3)
    assert asked(nodes[0], PUT).is_success
    assert counts(nodes, "/t") == counts(nodes, LINK) == {}
    nodes = group(3, "/t")
    asked(nodes[0], Operation(verb="GET", link=LINK, select=("history", None, 1)))
    assert counts(nodes, "/t") == {}
    asked(nodes[0], Operation(verb="GET", link=LINK, select=("version", 0)))
    assert counts(nodes, "/t") == {"GET": 1}


def test_a_factory_is_measured_from_its_request_on() -> None:
    nodes = group(3)
    assert asked(nodes[0], PUT).is_success
    for node in nodes:
        node.measured.add("/t")
    assert asked(nodes[0], PUT).is_success
    assert counts(nodes, "/t") == {"PUT": 1}
    for node in nodes:
        node.measured.discard("/t")
    assert asked(nodes[0], PUT).is_success
    assert counts(nodes, "/t") == {"PUT": 1}


def test_the_least_recently_used_path_is_evicted() -> None:
    measures = Measures({"/t"})

    def note(link: str) -> None:
        inflight = Inflight("n0", 1, 1, 1, 1, 9.0, 0, Operation(verb="GET", link=link))
        measures.arrived(inflight, 1.0)
        measures.answered([(inflight, Answer(200), False)], 1.0, 5)

    for number in range(PATHS_MAX):
        note(f"/t/{number}")
    note("/t/0")
    note("/t/more")
    assert not measures.of("/t/1")
    assert measures.of("/t/0")["GET"].count == 2
    assert measures.of("/t")["GET"].count == PATHS_MAX + 2
