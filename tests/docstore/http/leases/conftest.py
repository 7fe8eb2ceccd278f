"""Three nodes for the tests of leases over HTTP, which do not disturb them."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from docstore.client import LocalCluster
from tests.docstore.http.leases.asking import Session


@pytest.fixture
async def node(group: LocalCluster) -> AsyncIterator[Session]:
    """Yield a session with the first node."""
    async with Session(group.urls[0], timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


@pytest.fixture
async def other(group: LocalCluster) -> AsyncIterator[Session]:
    """Yield a session with another node."""
    async with Session(group.urls[1], timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session
