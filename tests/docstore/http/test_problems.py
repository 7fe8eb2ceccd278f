"""Answers of a cluster and their HTTP form: status, code, outcome and headers."""

import asyncio
import re
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from structlog.testing import capture_logs

from docstore.errors import StoreBroken, Unavailable
from docstore.model.document import Row
from docstore.model.operation import Answer
from tests.docstore.http.problem import problem_of
from tests.docstore.http.single import SingleNode

Client = aiohttp.ClientSession
LINK = "/core/examples/x"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ROW = Row(0, 1, 3, "n2", LINK, 7, "PUT", 1, False, b"s" * 16, b"", b"", b'{"name":"x"}')

SAID = [
    (Answer(404, "not-found"), 404, "not_applied"),
    (Answer(409, "version-conflict", "no", row=ROW), 409, "not_applied"),
    (Answer(410, "gone", "kept from version 5 on"), 410, "not_applied"),
    (Answer(412, "precondition-failed", "no", row=ROW), 412, "not_applied"),
    (Answer(413, "too-large", "no"), 413, "not_applied"),
    (Answer(422, "refused-by-service", "no", row=ROW), 422, "not_applied"),
    (Answer(422, "key-reused", "no"), 422, "not_applied"),
    (Answer(429, "too-many-keys", "no"), 429, "not_applied"),
    (Answer(503, "no-owner", "no owner was reached"), 503, "not_applied"),
    (Answer(503, "no-quorum", "no majority"), 503, "not_applied"),
    (Answer(503, "disk-full", "no room"), 503, "not_applied"),
    (Answer(504, "undecided", "it may have happened", unknown=True), 504, "unknown"),
]


@pytest.mark.parametrize(("answer", "status", "outcome"), SAID)
async def test_a_refusal_of_the_cluster_is_a_problem(
    client: Client, node: SingleNode, answer: Answer, status: int, outcome: str
) -> None:
    node.answers = [answer._replace(owner="n2", epoch=4)]
    async with client.put(LINK, json={"name": "x"}) as response:
        body = await problem_of(response, status)
        assert response.headers["Docstore-Owner"] == "n2"
        assert response.headers["Docstore-Epoch"] == "4"
        assert response.headers.get("Docstore-Version") == ("7" if answer.row else None)
    assert (body["outcome"], body["errorCode"]) == (outcome, answer.code)
    assert body["detail"] == (answer.detail or f"there is nothing at {LINK}")
    assert body["documentKind"] == "example:ExampleService"


async def test_the_date_follows_a_wall_clock_that_is_set_back(
    client: Client, node: SingleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wall, date in ((7_200.0, "02:00:00"), (3_600.5, "01:00:00")):
        monkeypatch.setattr("docstore.http.reply.time", SimpleNamespace(time=lambda at=wall: at))
        node.answers = [Answer(200, row=ROW)]
        async with client.put(LINK, json={"name": "x"}) as response:
            assert response.headers["Date"] == f"Thu, 01 Jan 1970 {date} GMT"


async def test_a_success_names_its_owner_and_its_replicas(client: Client, node: SingleNode) -> None:
    node.answers = [Answer(200, row=ROW, replicas=3, owner="n3", epoch=5)]
    async with client.put(LINK, json={"name": "x"}) as response:
        assert response.status == 200
        assert response.headers["ETag"] == '"3.7"'
        expected = {"Owner": "n3", "Epoch": "5", "Replicas": "3", "Version": "7"}
        for name, value in expected.items():
            assert response.headers[f"Docstore-{name}"] == value
        body = await response.json()
    assert (body["documentOwner"], body["documentEpoch"]) == ("n2", 3), (
        "owner and epoch of the version"
    )


async def test_a_quorum_must_fit_the_number_of_copies(
    client: Client, node: SingleNode, factory: str
) -> None:
    copies = {f"{factory}/five": range(3, 6), f"{factory}/nine": range(5, 10)}
    node.copies_of = copies.__getitem__  # type: ignore[assignment, method-assign]
    for link, some in copies.items():
        body = {"documentSelfLink": link}
        for wanted in range(1, 11):
            headers = {"Docstore-Quorum": str(wanted)}
            made = 201 if wanted == some.start else 409
            async with client.post(factory, json=body, headers=headers) as response:
                assert response.status == (made if wanted in some else 400)
            async with client.put(link, json={}, headers=headers) as response:
                assert response.status == (200 if wanted in some else 400)


async def test_pages_that_need_unavailable_owners_are_503(client: Client, node: SingleNode) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise Unavailable("slot 7 has no owner now")

    node.listing = node.counting = node.explain = away  # type: ignore[method-assign, assignment]
    for path in ("/core/examples", "/core/examples/x/explain"):
        async with client.get(path) as response:
            await problem_of(response, 503)


async def test_a_node_that_is_not_ready_is_503(client: Client, node: SingleNode) -> None:
    node.why_not = "3 of 1024 slots have no open owner yet"
    for path in (
        "/health/ready",
        "/core/node-groups/default/available",
        "/core/examples/available",
    ):
        async with client.get(path) as response:
            await problem_of(response, 503)
    async with client.get("/health/live") as response:
        assert response.status == 200


async def test_a_client_that_disconnects_while_it_waits_affects_no_other(
    client: Client, node: SingleNode
) -> None:
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    node.waits = [waiting]
    task = asyncio.create_task(client.get(LINK))
    async with asyncio.timeout(5):
        while node.waits:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    waiting.set_result(None)
    async with client.get(LINK) as response:
        await problem_of(response, 404)


async def test_a_drain_is_accepted_and_passed_to_the_node(client: Client, node: SingleNode) -> None:
    async with client.delete("/core/management") as response:
        assert response.status == 202
    assert node.draining


async def counter(client: Client, name: str) -> int:
    async with client.get("/metrics") as response:
        page = await response.text()
    [value] = re.findall(rf"^docstore_http_{name}_total (\d+)$", page, re.MULTILINE)
    return int(value)


async def test_an_internal_error_is_counted_and_logged_with_its_request(
    client: Client, node: SingleNode
) -> None:
    assert await counter(client, "internal_errors") == 0
    node.answers = [Answer(500, "refused-by-service", "the service failed: KeyError")]
    traced = {"traceparent": TRACE, "X-Request-Id": "of-the-client"}
    failures = [(LINK, None), (LINK, RuntimeError("x")), (LINK, StoreBroken("/secret/disk"))]
    for path, error in failures:

        def fail(*_: Any, error: Exception | None = error) -> Any:
            raise error or AssertionError

        if error is not None:
            node.submit = fail  # type: ignore[method-assign]
        with capture_logs() as logs:
            async with client.get(path, headers=traced) as response:
                problem = await problem_of(response, 500)
        assert "secret" not in problem["detail"]
        [line] = [line for line in logs if line["log_level"] == "error"]
        said = (line["method"], line["path"], line["traceparent"], line["request_id"])
        assert said == ("GET", path, TRACE, "of-the-client")
        assert line["exc_info"] is error
    assert await counter(client, "internal_errors") == len(failures)


async def test_an_unfinished_answer_is_cut_off_and_counted(
    base_url: str, client: Client, node: SingleNode
) -> None:
    parts = urlsplit(base_url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    line = b'{"link":"/core/examples/x","op":"POST","body":{"name":"x"}}\n'
    head = b"POST /core/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    writer.write(head + b"Content-Length: %d\r\n\r\n%b" % (2 * len(line), line))
    async with asyncio.timeout(10):
        await reader.readuntil(b'"status":201')
        node.fails = True
        with capture_logs() as logs:
            writer.write(line)
            rest = await reader.read()
    writer.close()
    assert b"HTTP/" not in rest
    assert not rest.endswith(b"0\r\n\r\n")
    assert [line["path"] for line in logs if line["log_level"] == "error"] == ["/core/bulk"]
    assert (await counter(client, "internal_errors"), await counter(client, "malformed")) == (1, 0)
