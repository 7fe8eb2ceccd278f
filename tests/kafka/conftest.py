"""The broker, once for all tests of a worker, and the ledger that each test gets of it."""

import importlib.util
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from docstore.client import LocalCluster
from tests.kafka.broker import Broker, library

if TYPE_CHECKING:
    from tests.kafka.ledgers import Ledger

PARTITIONS = 4
if importlib.util.find_spec("aiokafka") is None:
    collect_ignore_glob = ["test_[!z]*.py"]  # They cannot even be imported.


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "ledger" in metafunc.fixturenames:
        from tests.kafka.ledgers import LEDGERS

        metafunc.parametrize("ledger", sorted(LEDGERS), indirect=True)


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
    """The URL of a group of one node."""
    with LocalCluster(1) as nodes:
        yield nodes.urls[0]


@pytest_asyncio.fixture
async def ledger(request: pytest.FixtureRequest) -> AsyncIterator["Ledger"]:
    from tests.kafka.ledgers import LEDGERS

    async with LEDGERS[request.param](request, PARTITIONS) as ledger:
        yield ledger
