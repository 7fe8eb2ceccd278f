"""Three nodes for each file of tests about streams over HTTP."""

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from docstore.client import LocalCluster
from tests.docstore.http.streams.asking import Session, created


@pytest.fixture(scope="module")
def group() -> Iterator[LocalCluster]:
    with LocalCluster(3, settings=("--streams-retention-check-s", "0.2")) as nodes:
        yield nodes


@pytest.fixture
async def node(group: LocalCluster) -> AsyncIterator[Session]:
    """Yield a session with the first node."""
    async with Session(group.urls[0], timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


@pytest.fixture
async def topic(node: Session) -> str:
    """Return the path of a new topic with two partitions."""
    return await created(node, partitions=2)
