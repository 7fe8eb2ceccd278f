"""Documents whose factory counts versions: the owner hides old ones before it trims them."""

from docstore.documents.events import Requested
from docstore.documents.timing import ReplicaConfig
from docstore.model.operation import Answer, Operation, Select
from docstore.testing.simulation.world import World
from tests.sim.cluster import Cluster
from tests.sim.process import Process

LINK = "/t/a"


def group(versions: int) -> Process:
    """Return a node of a group whose document has versions 0 to 4."""
    world = World(1)

    def prepare(process: Process) -> None:
        process.versions = versions

    cluster = Cluster(world, 3, factor=None, slots=1, config=ReplicaConfig(), prepare=prepare)
    cluster.network.weather.loss = cluster.network.weather.straggle = 0.0
    world.run(4.0)
    node = cluster.processes["n0"]
    for number in range(5):
        body = b'{"log":["%d"]}' % number
        answer = asked(node, Operation(verb="PUT", link=LINK, body=body, creates=True))
        assert answer.is_success
    return node


def asked(node: Process, operation: Operation) -> Answer:
    world, answers = node._world, []
    node.request(lambda request: Requested(request, operation, world.now + 3.0), answers.append)
    world.run(world.now + 0.5)
    [answer] = answers
    assert isinstance(answer, Answer)
    return answer


def read(node: Process, *select: object) -> Answer:
    chosen: Select = select  # type: ignore[assignment]
    return asked(node, Operation(verb="GET", link=LINK, select=chosen))


def test_the_past_has_as_many_versions_as_the_factory_says() -> None:
    node = group(versions=2)
    assert [read(node, "version", n).status for n in range(6)] == [410, 410, 410, 200, 200, 404]
    rows = read(node, "history", None, 9).rows
    assert [row.version for row in rows or ()] == [4, 3]
    log = node.replica.core.logs[0]
    assert (log.kept, log.end) == (0, 5), "no row was trimmed"


def test_all_versions_are_shown_without_a_version_count() -> None:
    node = group(versions=0)
    assert [read(node, "version", n).status for n in range(6)] == [200] * 5 + [404]
