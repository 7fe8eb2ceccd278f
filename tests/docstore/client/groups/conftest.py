"""Three nodes for all tests of roles and groups with the client, none of which stops a node."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count

import pytest

from docstore.client import Client, LocalCluster

NUMBERS = count()


@pytest.fixture(scope="package")
def group() -> Iterator[LocalCluster]:
    with LocalCluster(3) as nodes:
        yield nodes


@pytest.fixture
async def client(group: LocalCluster) -> AsyncIterator[Client]:
    async with Client(group.urls) as client:
        yield client


@pytest.fixture
def name() -> str:
    """Return an unused name."""
    return f"name{next(NUMBERS)}"


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


async def until_async(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await condition():
            await asyncio.sleep(0.02)
