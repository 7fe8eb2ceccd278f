"""A server for tests: one in this process, or the one that DOCSTORE_TEST_URL names."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from docstore.http.fast_path import FastPath, FastRequest
from docstore.http.server import HttpServer
from docstore.model.limits import Limits
from tests.docstore.http.single import SingleNode
from tests.docstore.http.wires import Serving, serving

_numbers = itertools.count()

FAST = Limits(body_timeout_s=0.3, first_request_timeout_s=10.0, keepalive_timeout_s=5.0)


OUTSIDE = os.environ.get("DOCSTORE_TEST_URL", "").rstrip("/")


@pytest.fixture
def node() -> SingleNode:
    """Return the node of the server, for tests that set its answers."""
    if OUTSIDE:
        pytest.skip("needs the backend in this process")
    return SingleNode()


@pytest.fixture
def limits() -> Limits:
    return FAST


if OUTSIDE:

    @pytest.fixture
    def base_url() -> str:
        return OUTSIDE

else:

    @pytest.fixture
    async def base_url(node: SingleNode, limits: Limits) -> AsyncIterator[str]:
        server = HttpServer(node, limits)
        yield f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
        await server.stop(0.1)


WAYS: dict[str, dict[str, str]] = {"plain": {}, "a task": {"X-Request-Id": "unusual"}}
"""Way to serve a PUT or GET of a document -> the header that selects it (`fast_path.py`)."""

BOTH_WAYS = pytest.mark.parametrize(
    "way", ["plain", pytest.param("a task", marks=pytest.mark.thorough)], indirect=True
)
"""For tests with the same answers by either way; `make test` runs them by the plain way only."""


@pytest.fixture
def way(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the header that selects the way of a client's requests; by default the plain way."""
    return WAYS[getattr(request, "param", "plain")]


@pytest.fixture
async def client(base_url: str, way: dict[str, str]) -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(base_url, headers=way, timeout=timeout) as session:
        yield session


Declare = Callable[..., Awaitable[str]]


@pytest.fixture
def declare(client: aiohttp.ClientSession) -> Declare:
    """Return a function that declares a factory at an unused path and returns the path."""

    async def declared(**members: Any) -> str:
        path = f"/t{os.getpid()}x{next(_numbers)}"
        async with client.post("/core/factories", json={"path": path, **members}) as response:
            assert response.status == 201, await response.text()
        return path

    return declared


@pytest.fixture
async def factory(declare: Declare) -> str:
    return await declare()


Raw = Callable[..., Awaitable[bytes]]


@pytest.fixture
def raw(base_url: str) -> Raw:
    """Return a function that sends bytes, and returns all until the server closes or is silent."""
    parts = urlsplit(base_url)

    async def sent(data: bytes, *, silence_s: float = 2.0) -> bytes:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(data)
            answer = b""
            while True:
                try:
                    chunk = await asyncio.wait_for(reader.read(65536), silence_s)
                except (TimeoutError, ConnectionResetError):
                    return answer
                if not chunk:
                    return answer
                answer += chunk
        finally:
            writer.close()

    return sent


@pytest.fixture
async def served() -> AsyncIterator[Serving]:
    async with serving() as found:
        yield found


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the method and path of each request served without a task."""
    seen: list[str] = []
    serve = FastPath.serve

    def noted(self: FastPath, request: FastRequest) -> None:
        seen.append(f"{request.method} {request.raw_path}")
        serve(self, request)

    monkeypatch.setattr(FastPath, "serve", noted)
    return seen
