"""A request that takes longer than the threshold is logged, with the template of its path."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from structlog.testing import capture_logs

from docstore.http.request_log import SLOW_LINES_A_SECOND
from docstore.http.routes.table import template_of
from docstore.http.server import HttpServer
from tests.docstore.http.conftest import FAST
from tests.docstore.http.single import SingleNode

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def client(
    request: pytest.FixtureRequest, node: SingleNode
) -> AsyncIterator[aiohttp.ClientSession]:
    server = HttpServer(node, FAST, slow_request_s=request.param)
    url = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    async with aiohttp.ClientSession(url) as session:
        yield session
    await server.stop(0.1)


@pytest.mark.parametrize("client", [1e-9], indirect=True)
async def test_a_slow_request_is_logged(client: aiohttp.ClientSession) -> None:
    with capture_logs() as logs:
        for path in ("/core/examples/a", "/core/management"):
            await client.get(path, headers={"traceparent": TRACE})
        await client.get("/core/examples/a")  # On the fast path.
    slow = [each for each in logs if each["event"] == "a request is slow"]
    assert [(each["method"], each["route"], each["traceparent"]) for each in slow] == [
        ("GET", "/core/examples/{document}", TRACE),
        ("GET", "/core/management", TRACE),
        ("GET", "/core/examples/{document}", ""),
    ]
    assert all(each["ms"] > 0 and each["loop_lag_ms"] == 0 for each in slow)


@pytest.mark.parametrize("client", [1e-9], indirect=True)
async def test_log_lines_of_slow_requests_are_bounded(client: aiohttp.ClientSession) -> None:
    with capture_logs() as logs:
        for _ in range(5 * SLOW_LINES_A_SECOND):
            await client.get("/health/live")
    assert len(logs) < 5 * SLOW_LINES_A_SECOND


@pytest.mark.parametrize("client", [60.0], indirect=True)
async def test_a_fast_request_is_not_logged(client: aiohttp.ClientSession) -> None:
    with capture_logs() as logs:
        await client.get("/core/management")
    assert not logs


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/films/1", "{factory}/{document}"),
        ("/films", "{factory}"),
        ("/core/factories", "/core/factories"),
        ("/core/factories/films", "/core/factories/{document}"),
        ("/films/1/stats", "{factory}/{document}/stats"),
        ("/films/config", "{factory}/config"),
        ("/core/streams/clicks/records", "/core/streams/{topic}/records"),
        ("/core/streams/clicks/nonsense/x/y/z", ""),
    ],
)
def test_each_path_has_its_template(path: str, template: str) -> None:
    assert template_of(path) == template
