"""Three real nodes for Kafka clients, which all tests of this folder share."""

import importlib.util
import shutil
from collections.abc import Iterator

import pytest

from docstore.client.local import LocalCluster
from tests.docstore.kafka.clients.listening import listen

LIBRARIES = ("aiokafka", "confluent_kafka", "kafka", "kio")
if not all(map(importlib.util.find_spec, LIBRARIES)):
    collect_ignore_glob = ["test_*.py"]  # They cannot even be imported.


@pytest.fixture(scope="session")
def listeners() -> Iterator[tuple[LocalCluster, str]]:
    group = LocalCluster(3, settings=("--streams-retention-check-s", "0.2"))
    with listen(group) as bootstrap, group:
        yield group, bootstrap


@pytest.fixture
def group(listeners: tuple[LocalCluster, str]) -> LocalCluster:
    return listeners[0]


@pytest.fixture
def bootstrap(listeners: tuple[LocalCluster, str]) -> str:
    """Yield the addresses of the listeners of all three nodes, for clients."""
    return listeners[1]


@pytest.fixture(params=["kcat", "confluent", "aiokafka", "kafka-python"])
def client(request: pytest.FixtureRequest) -> str:
    """Return the name of a client."""
    if request.param == "kcat" and shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    return str(request.param)
