"""Requests of pages in browsers that a node refuses; other clients are served as before."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from docstore.access.authenticator import Authenticator
from docstore.access.rules import rules_of
from docstore.client import LocalCluster
from docstore.config import parse
from docstore.http.access import Access
from docstore.http.server import HttpServer
from docstore.model.limits import Limits
from docstore.node.node import Node
from tests.docstore.access.tokens import digest
from tests.docstore.http.conftest import Raw
from tests.docstore.http.problem import problem_of
from tests.docstore.http.single import SingleNode

Client = aiohttp.ClientSession
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
EVIL = "http://evil.example"
FROM_ELSEWHERE = [
    {"Origin": EVIL}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
    {"Origin": "chrome-extension://abc"}, {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "of-tomorrow"},
    {"Origin": EVIL, "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "document"},
]  # fmt: skip


def everything(factory: str) -> list[tuple[str, str, bytes, dict[str, str]]]:
    """Return a request of each kind: method, path, body, headers."""
    line = b'{"link":"%b/a","body":{}}' % factory.encode()
    return [
        ("PUT", f"{factory}/a", b"{}", JSON), ("POST", factory, b"{}", JSON),
        ("PATCH", f"{factory}/a", b"{}", JSON), ("DELETE", f"{factory}/kept", b"", {}),
        ("POST", "/core/bulk", line, NDJSON), ("PATCH", "/core/management", b"{}", JSON),
        ("PATCH", "/core/node-groups/default", b"{}", JSON),
        ("DELETE", "/core/management", b"", {}), ("GET", f"{factory}/kept", b"", {}),
        ("GET", factory, b"", {}), ("GET", "/metrics", b"", {}),
        ("OPTIONS", f"{factory}/a", b"", {}), ("GET", "/core/changes?since=earliest", b"", {}),
    ]  # fmt: skip


async def links(client: Client, factory: str) -> list[str]:
    async with client.get(factory) as response:
        found: list[str] = (await response.json())["documentLinks"]
        return found


async def refused(client: Client, factory: str, headers: dict[str, str], status: int) -> set[str]:
    """Send a request of each kind; return the error codes of the refusals."""
    async with client.put(f"{factory}/kept", json={}) as response:
        assert response.status in (200, 201)
    codes = set()
    for method, path, body, kind in everything(factory):
        async with client.request(method, path, data=body, headers=kind | headers) as response:
            codes.add((await problem_of(response, status))["errorCode"])
            assert not [name for name in response.headers if name.lower().startswith("access-")]
    assert await links(client, factory) == [f"{factory}/kept"]
    return codes


@pytest.mark.parametrize("headers", FROM_ELSEWHERE, ids=str)
async def test_a_page_of_another_site_neither_writes_nor_reads(
    client: Client, factory: str, headers: dict[str, str]
) -> None:
    assert await refused(client, factory, headers, 403) == {"cross-site"}


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8001", "127.0.0.1.evil.example", "localhost.evil.example",
     "127.0.0.1@evil.example", "", "[::1", "::1", "a b", "x.localhost", "0x7f.1"],
)  # fmt: skip
async def test_a_host_that_is_not_the_nodes_own_is_421(
    client: Client, factory: str, host: str
) -> None:
    assert await refused(client, factory, {"Host": host}, 421) == {"foreign-host"}


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:99", "localhost.", "127.0.0.1", "127.0.0.1:7", "[::1]", "[::1]:8001",
     "192.168.7.9:8001", "[fe80::1%25eth0]:8001"],
)  # fmt: skip
async def test_addresses_and_localhost_reach_a_node(client: Client, host: str) -> None:
    for _ in range(2):
        async with client.get("/health/live", headers={"Host": host}) as response:
            assert response.status == 200


@pytest.mark.parametrize(("allowed", "stranger"), [("DB.example,other", 421), ("*", 200)])
async def test_a_node_serves_its_machines_name_and_its_allowed_hosts(
    tmp_path: Path, allowed: str, stranger: int
) -> None:
    url = LocalCluster(1, tmp_path).urls[0]
    settings = {"data": tmp_path, "listen": url.removeprefix("http://"), "allowed_hosts": allowed}
    node = Node(parse(settings))
    await node.start()
    try:
        async with aiohttp.ClientSession(url) as client:
            hosts = [socket.gethostname(), "db.example", "Db.Example.:80", "evil.example"]
            found = []
            for host in hosts:
                async with client.get("/health/live", headers={"Host": host}) as response:
                    found.append(response.status)
    finally:
        await node.stop()
    assert found == [200, 200, 200, stranger]


async def test_the_nodes_own_pages_and_links_to_it_are_served(
    client: Client, base_url: str, factory: str
) -> None:
    own: list[dict[str, str]] = [
        {"Origin": base_url, "Sec-Fetch-Site": "same-origin"}, {"Origin": base_url.upper()},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, {"Sec-Fetch-Site": "same-origin"},
    ]  # fmt: skip
    for headers in own:
        async with client.put(f"{factory}/a", json={}, headers=headers) as response:
            assert response.status in (200, 201)
    link = {
        "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
    }  # fmt: skip
    async with client.get(f"{factory}/a", headers=link) as response:
        assert response.status == 200
    async with client.delete(f"{factory}/a", headers=link) as response:
        await problem_of(response, 403)


async def test_an_http_1_0_request_needs_no_host(raw: Raw) -> None:
    assert b" 200 OK" in await raw(b"GET /health/live HTTP/1.0\r\n\r\n")


async def test_a_body_needs_a_content_type(raw: Raw, client: Client, factory: str) -> None:
    head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    forms = [f"{head}Content-Length: 2\r\n\r\n{{}}"]
    forms.append(f"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n")
    for method, path, body, _ in everything(factory):
        for form in forms if body or method == "DELETE" else []:
            answer = await raw(f"{method} {path} {form}".encode())
            assert b" 415 " in answer.partition(b"\r\n")[0], (method, path)
            assert b"Content-Type" in answer.partition(b"\r\n\r\n")[2]
    assert await links(client, factory) == []
    empty = f"DELETE {factory}/a {head}Content-Length: 0\r\n\r\n"
    assert b" 404 " in (await raw(empty.encode())).partition(b"\r\n")[0]


async def test_a_form_is_415_and_the_problem_names_the_accepted_type(
    client: Client, factory: str
) -> None:
    form: Any = {"Content-Type": "application/x-www-form-urlencoded"}
    async with client.put(f"{factory}/a", data=b"{}", headers=form) as response:
        assert "application/json" in (await problem_of(response, 415))["detail"]


SHOP = "https://shop.example"
TOKEN = {"Authorization": "Bearer right"}
RULES = f"[roles.r]\n'/' = 'admin'\n[users.u]\ntokens = ['{digest('right')}']\nroles = ['r']"
PREFLIGHT = {
    "Access-Control-Request-Method": "PUT",
    "Access-Control-Request-Headers": "authorization,content-type",
}


@pytest.fixture
async def shared(node: SingleNode, limits: Limits) -> AsyncIterator[Client]:
    """Yield a client of a node whose operator allows the pages of one site."""
    server = HttpServer(node, limits, origins=[SHOP], access=Access(Authenticator(rules_of(RULES))))
    async with Client(f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}") as client:
        yield client
    await server.stop(0.1)


async def test_a_page_of_an_allowed_origin_writes_and_reads(shared: Client) -> None:
    headers = {"Origin": SHOP, "Sec-Fetch-Site": "cross-site"}
    async with shared.options("/core/examples/a", headers=headers | PREFLIGHT) as answer:
        assert answer.status == 204, "a preflight has no token"
        assert "PUT" in answer.headers["Access-Control-Allow-Methods"]
        assert answer.headers["Access-Control-Allow-Headers"] == "*, Authorization"
        assert answer.headers["Access-Control-Allow-Origin"] == SHOP
    async with shared.put("/core/examples/a", json={}, headers=headers) as answer:
        assert answer.status == 401, "an origin is no token"
        assert answer.headers["Access-Control-Allow-Origin"] == SHOP, "the page reads the reason"
    for method, path in (("POST", "/core/factories"), ("GET", "/core/factories/pages")):
        body = {"json": {"path": "/pages"}} if method == "POST" else {}
        async with shared.request(method, path, headers=headers | TOKEN, **body) as answer:
            assert answer.status in (200, 201), await answer.text()
            assert answer.headers["Access-Control-Allow-Origin"] == SHOP
            assert answer.headers["Access-Control-Expose-Headers"] == "*"
            assert "Origin" in answer.headers.getall("Vary")
            assert answer.headers["ETag"]


@pytest.mark.parametrize(
    "origin", ["https://shop.example.evil", "http://shop.example", f"{SHOP}:444", "null", EVIL]
)
async def test_a_page_of_no_allowed_origin_is_403(shared: Client, origin: str) -> None:
    for method in ("OPTIONS", "PUT", "GET"):
        headers = {"Origin": origin, **PREFLIGHT, **TOKEN, **JSON}
        async with shared.request(method, "/core/examples/a", headers=headers) as answer:
            await problem_of(answer, 403)
            assert not [name for name in answer.headers if name.lower().startswith("access-")]


async def test_an_answer_without_an_origin_has_no_cors_headers(shared: Client) -> None:
    async with shared.get("/health/live") as answer:
        assert answer.status == 200
        assert not [name for name in answer.headers if name.lower().startswith("access-")]
    async with shared.options("/core/examples/a", headers=PREFLIGHT | TOKEN) as answer:
        assert answer.headers["Allow"], "without an Origin it is a plain OPTIONS"
