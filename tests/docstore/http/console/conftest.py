"""A node with what the pages of the console show, and a browser."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from docstore.client import LocalCluster
from tests.docstore.http.console.browser import Browser, browsing
from tests.docstore.http.console.world import furnish, put

EXACT = '{"big":9007199254740993,"exact":1.50}'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalCluster(1) as group:
        yield group.urls[0]


@pytest.fixture
async def session(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Return a session with the node, which has what the pages show."""
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(url, headers=headers) as found:
        await furnish(found)
        await put(found, "/notes/a", EXACT)
        yield found


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    async with browsing(tmp_path) as found:
        yield found
