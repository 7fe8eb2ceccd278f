"""A node with content for the pages of the console, and a browser."""

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from cryptography.fernet import Fernet

from docstore.client import LocalCluster
from tests.docstore.http.console.browser import Browser, browsing, running
from tests.docstore.http.console.world import furnish, put

EXACT = '{"big":9007199254740993,"exact":1.50}'


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_bytes(Fernet.generate_key())
    settings = [
        "--callback-hosts", "http://127.0.0.1", "--callback-networks", "127.0.0.0/8",
        "--callback-key-file", str(keys), "--service", "examples.bank_accounts:Accounts",
    ]  # fmt: skip
    with LocalCluster(1, settings=settings) as group:
        yield group.urls[0]


@pytest.fixture
async def session(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Return a session with the node, which has content for the pages."""
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(url, headers=headers) as found:
        await furnish(found)
        await put(found, "/notes/a", EXACT)
        yield found


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a browser, which takes seconds to start."""
    with running(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
async def browser(address: str) -> AsyncIterator[Browser]:
    async with browsing(address) as found:
        yield found
