"""The broker, once for all tests of a worker, and the ledger of each test."""

import importlib.util
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from docstore.client import LocalCluster
from docstore.client.local import claim_ports
from tests.kafka.broker import Broker, library

if TYPE_CHECKING:
    from tests.kafka.ledgers import Ledger, Listener

PARTITIONS = 4
if importlib.util.find_spec("aiokafka") is None:
    collect_ignore_glob = ["test_[!z]*.py"]  # They cannot even be imported.


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "ledger" in metafunc.fixturenames:
        from tests.kafka.ledgers import LEDGERS

        longer = {"listener": [pytest.mark.thorough]}
        names = [pytest.param(each, marks=longer.get(each, [])) for each in sorted(LEDGERS)]
        metafunc.parametrize("ledger", names, indirect=True)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    try:
        library()
    except LookupError as missing:
        pytest.skip(str(missing))
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def node() -> Iterator[str]:
    """Give the URL of a group of one node."""
    with LocalCluster(1) as nodes:
        yield nodes.urls[0]


@pytest.fixture(scope="session")
def listener() -> Iterator["Listener"]:
    """Give a node that Kafka clients reach by a road."""
    from tests.kafka.ledgers import Listener

    with claim_ports() as claim:
        advertised = claim.getsockname()[1] - 1
        port = advertised - 1
        settings = (
            "--kafka-listen", f"127.0.0.1:{port}", "--kafka-advertise", f"127.0.0.1:{advertised}",
        )  # fmt: skip
        with LocalCluster(1, settings=settings) as nodes:
            yield Listener(nodes.urls[0], port, advertised)


@pytest_asyncio.fixture
async def ledger(request: pytest.FixtureRequest) -> AsyncIterator["Ledger"]:
    from tests.kafka.ledgers import LEDGERS

    async with LEDGERS[request.param](request, PARTITIONS) as ledger:
        yield ledger
