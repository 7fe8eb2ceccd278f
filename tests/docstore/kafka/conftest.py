"""One real node with a Kafka listener for each file of tests."""

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from docstore.client.local import LocalCluster, claim_ports
from tests.docstore.kafka.wire import Wire, connected


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Return the port for Kafka clients."""
    with claim_ports() as claim:
        yield claim.getsockname()[1] - 1


@pytest.fixture(scope="module")
def group(port: int) -> Iterator[LocalCluster]:
    with LocalCluster(1, settings=("--kafka-listen", f"127.0.0.1:{port}")) as nodes:
        yield nodes


@pytest.fixture
async def http(group: LocalCluster) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a session with the node over HTTP."""
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(group.urls[0], timeout=timeout) as session:
        yield session


@pytest.fixture
async def wire(group: LocalCluster, port: int) -> AsyncIterator[Wire]:
    """Yield a connection of a Kafka client."""
    async with connected(port) as made:
        yield made
