"""Spans of a real group, as a collector receives them; and nodes without OpenTelemetry."""

import asyncio
import gzip
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from docstore.client.local import LocalCluster
from docstore.config import parse
from docstore.errors import BadConfig
from docstore.node.node import spans_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
KIND_SERVER = 2
WITH_OPENTELEMETRY = pytest.mark.skipif(
    find_spec("opentelemetry") is None, reason="docstore[otel] is not installed"
)


class Collector:
    """Receives spans by OTLP over HTTP, in protobuf. url: its address."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[dict[str, Any]] = []

    async def take(self, request: web.Request) -> web.Response:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        body = await request.read()
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            of_node = values(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans += [
                    {
                        "node": of_node["service.instance.id"], "service": of_node["service.name"],
                        "name": span.name, "kind": span.kind, "status": span.status.code,
                        "trace": span.trace_id.hex(), "id": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(), **values(span.attributes),
                    }
                    for span in scope.spans
                ]  # fmt: skip
        return web.Response(content_type="application/x-protobuf")


def values(attributes: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in attributes}


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    collector.url = f"http://{host}:{port}"
    yield collector
    await runner.cleanup()


async def declare(url: str) -> None:
    body = {"path": "/notes"}
    async with (
        aiohttp.ClientSession(url) as session,
        session.post("/core/factories", json=body) as answer,
    ):
        assert answer.status == 201


async def ask(group: LocalCluster, link: str, flags: str) -> str:
    """Send a few requests to a node that does not own a document; return the owner's name."""
    owner = await asyncio.to_thread(group.owner_of, link)
    entry = next(each for each in group.nodes if each is not owner)
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-{flags}"}
    async with aiohttp.ClientSession(entry.url) as session:
        async with session.put(link, json={"a": 1}, headers=headers) as answer:
            assert answer.status in (200, 201)
            assert answer.headers["traceparent"] == headers["traceparent"]
        async with session.get(link) as answer:  # On the fast path.
            assert answer.status == 200
        async with session.post("/core/factories", data=b"{") as answer:
            assert answer.status == 415
    return owner.name


@pytest.mark.thorough
@WITH_OPENTELEMETRY
async def test_a_request_and_its_execution_on_the_owner_are_spans_of_one_trace(
    tmp_path: Path, collector: Collector
) -> None:
    group = LocalCluster(3, tmp_path, ["--otlp-endpoint", collector.url, "--slots", "8"])
    await asyncio.to_thread(group.__enter__)
    try:
        await declare(group.urls[0])
        owner = await ask(group, "/notes/a", "01")
        await ask(group, "/notes/b", "00")
    finally:
        await asyncio.to_thread(group.stop)  # Nodes send the last spans before they end.
    [asked] = [each for each in collector.spans if each["parent"] == PARENT]
    assert (asked["name"], asked["kind"]) == ("PUT {factory}/{document}", KIND_SERVER)
    assert (asked["trace"], asked["service"]) == (TRACE, "docstore")
    assert (asked["http.request.method"], asked["url.path"]) == ("PUT", "/notes/a")
    assert asked["http.response.status_code"] in (200, 201)
    below = [each for each in collector.spans if each["parent"] == asked["id"]]
    executions = [each for each in below if each["name"] == "execute PUT"]
    # The owner hands an operation back while it does not know the new factory.
    [executed] = [each for each in executions if each.get("docstore.code") != "not-mine"]
    assert executed["trace"] == TRACE
    assert (executed["node"], executed["docstore.entry_node"]) == (owner, asked["node"])
    read = [each for each in collector.spans if each["name"] == "GET {factory}/{document}"]
    assert len(read) == 2
    assert all(each["parent"] == "" for each in read)  # No client gave them a parent.
    assert any(each["parent"] == read[0]["id"] for each in collector.spans)
    wrong = [each for each in collector.spans if each["name"] == "POST /core/factories"]
    statuses = sorted(each["http.response.status_code"] for each in wrong)
    assert statuses == [201, 415, 415]
    # The client of the second document does not want its request sampled.
    puts = [each for each in collector.spans if each["name"].endswith("execute PUT")]
    assert {each["docstore.link"] for each in puts if each["trace"] == TRACE} == {"/notes/a"}


@pytest.mark.thorough
@WITH_OPENTELEMETRY
async def test_an_unreachable_collector_does_not_delay_a_node(tmp_path: Path) -> None:
    group = LocalCluster(1, tmp_path, ["--otlp-endpoint", "http://127.0.0.1:9", "--slots", "4"])
    await asyncio.to_thread(group.__enter__)
    [node] = group.nodes
    await declare(node.url)
    async with aiohttp.ClientSession(node.url) as session:
        for _ in range(20):
            async with session.put("/notes/a", json={}) as answer:
                assert answer.status in (200, 201)
    assert node.process is not None
    node.process.terminate()
    assert await asyncio.to_thread(node.process.wait, 15) == 0
    node.process = None


def test_without_opentelemetry_the_start_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "docstore.http.spans", raising=False)
    settings = {"data": str(tmp_path), "otlp_endpoint": "http://127.0.0.1:4318"}
    with pytest.raises(BadConfig, match=r"pip install 'docstore\[otel\]'"):
        spans_of(parse(settings), "n1")
    assert spans_of(parse(settings | {"otlp_endpoint": ""}), "n1") is None


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "http://ann:secret@host:4318", "ftp://host"])
def test_an_endpoint_is_a_url_without_secrets(tmp_path: Path, url: str) -> None:
    with pytest.raises(BadConfig, match=r"otlp_endpoint: .* is not a URL"):
        parse({"data": str(tmp_path), "otlp_endpoint": url})
