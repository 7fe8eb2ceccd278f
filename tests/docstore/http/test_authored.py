"""Services of authors over HTTP: each answer is the handler's, other methods are refused."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from docstore.http.server import HttpServer
from docstore.model.limits import Limits
from docstore.model.service import State
from docstore.node.registration import ServiceRegistration
from docstore.service import UNCHANGED, Refused, Request, Service
from docstore.services.registry import Registry
from tests.docstore.http.conftest import BOTH_WAYS, OUTSIDE
from tests.docstore.http.lines import bulk
from tests.docstore.http.problem import problem_of
from tests.docstore.http.single import SingleNode

pytestmark = BOTH_WAYS

Client = aiohttp.ClientSession


class Letters(Service):
    """Letters are created and patched, and neither replaced nor deleted."""

    path = "/letters"
    kind = "post:Letter"
    methods = ("POST", "PATCH")

    def on_create(self, body: State, request: Request) -> State:
        if not body.get("to"):
            raise Refused(400, "to whom?")
        return body | {"answers": []}

    def on_patch(self, state: State, body: State, request: Request) -> Any:
        if not body:
            return UNCHANGED
        state["answers"].append(body["answer"])
        return state


class Notices(Service):
    """Notices are created by PUT."""

    path = "/notices"
    methods = ("PUT",)


class Balances(Service):
    """Balances are created and patched, and never replaced."""

    path = "/balances"

    def on_create(self, body: State, request: Request) -> State:
        return {"balance": 0}

    def on_patch(self, state: State, body: State, request: Request) -> State:
        return {"balance": state["balance"] + body["amount"]}


AUTHORS = (Letters(), Notices(), Balances())


async def nothing(declaration: object, timeout_s: float) -> None:
    """Accept any declaration, and call it effective at once."""


@pytest.fixture
async def base_url() -> AsyncIterator[str]:
    if OUTSIDE:
        pytest.skip("needs services in this process")
    node = SingleNode(Registry(AUTHORS))
    registration = ServiceRegistration(AUTHORS, node.submit, nothing, nothing)
    registration.start()
    server = HttpServer(node, Limits())
    yield f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    assert registration.why_not() == ""
    await server.stop(0.1)


@pytest.fixture
async def letter(client: Client) -> str:
    async with client.post("/letters", json={"to": "ann"}) as response:
        assert response.status == 201, await response.text()
        body = await response.json()
    assert (body["answers"], body["documentKind"]) == ([], "post:Letter")
    return str(body["documentSelfLink"])


async def test_a_handler_makes_the_next_state(client: Client, letter: str) -> None:
    async with client.patch(letter, json={"answer": "yes"}) as response:
        assert response.status == 200
        body = await response.json()
    assert (body["to"], body["answers"], body["documentVersion"]) == ("ann", ["yes"], 1)


async def test_an_unchanged_state_returns_the_present_version(client: Client, letter: str) -> None:
    async with client.get(letter) as response:
        before, tag = await response.json(), response.headers["ETag"]
    async with client.patch(letter, json={}) as response:
        assert (response.status, response.headers["ETag"]) == (200, tag)
        assert await response.json() == before
    async with client.get(letter, headers={"If-None-Match": tag}) as response:
        assert (response.status, await response.read()) == (304, b"")
    async with client.get(f"{letter}/versions") as response:
        assert len((await response.json())["versions"]) == 1


async def test_a_refusal_is_a_problem_with_its_message(client: Client) -> None:
    async with client.post("/letters", json={}) as response:
        problem = await problem_of(response, 400)
    assert (problem["errorCode"], problem["message"]) == ("refused-by-service", "to whom?")
    assert (problem["outcome"], problem["documentKind"]) == ("not_applied", "post:Letter")


async def test_a_failing_handler_is_a_500_without_details(client: Client, letter: str) -> None:
    async with client.patch(letter, json={"question": "why?"}) as response:
        problem = await problem_of(response, 500)
    assert problem["errorCode"] == "internal"
    assert "answer" not in problem["detail"], "no member name of the author"
    async with client.get(letter) as response:
        assert (await response.json())["documentVersion"] == 0


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
async def test_methods_without_a_handler_are_405(client: Client, letter: str, method: str) -> None:
    async with client.request(method, letter, json={"to": "bob"}) as response:
        problem = await problem_of(response, 405)
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS, PATCH"
    assert problem["errorCode"] == "method-not-allowed"
    async with client.options(letter) as response:
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS, PATCH"


async def test_a_factory_allows_post_if_its_service_does(client: Client) -> None:
    async with client.options("/letters") as response:
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS, POST"
    async with client.post("/notices", json={}) as response:
        await problem_of(response, 405)
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS"
    async with client.put("/notices/a", json={}) as response:
        assert response.status == 201


async def test_lines_of_bulk_are_restricted_alike(client: Client, letter: str) -> None:
    lines = [
        {"op": "PUT", "link": letter, "body": {"to": "bob"}},
        {"op": "DELETE", "link": letter},
        {"op": "PATCH", "link": letter, "body": {"answer": "no"}},
        {"op": "PATCH", "link": letter, "body": [{"op": "remove", "path": "/to"}]},
        {"op": "POST", "link": "/letters", "body": {}},
    ]
    results = await bulk(client, lines)
    assert [each["status"] for each in results] == [405, 405, 200, 415, 400]


async def test_unhandled_methods_are_refused_and_undocumented(client: Client) -> None:
    async with client.post("/balances", json={"documentSelfLink": "a"}) as response:
        assert response.status == 201
    for method in ("PUT", "DELETE"):
        async with client.request(method, "/balances/a", json={"balance": 9}) as response:
            await problem_of(response, 405)
            assert method == "PUT" or "DELETE" not in response.headers["Allow"]
        line = {"op": method, "link": "/balances/a", "body": {"balance": 9}}
        [result] = await bulk(client, [line])
        assert result["status"] == 405
    async with client.options("/balances/a") as response:
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS, PATCH, PUT"  # PUT creates.
    async with client.get("/core/openapi.json") as response:
        paths = (await response.json())["paths"]
    assert "delete" not in paths["/balances/{id}"]
    async with client.get("/balances/a") as response:
        assert (await response.json())["balance"] == 0
