"""Selectors, and the pages of nodes that they forward to, on one node."""

import aiohttp
import pytest

from tests.docstore.http.problem import problem_of
from tests.docstore.http.single import SingleNode
from tests.docstore.http.test_pages import get

Client = aiohttp.ClientSession
FORWARDING = "/core/node-selectors/default/forwarding"
MANAGEMENT = "path=/core/management"


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("", "a path must begin with /"),
        (MANAGEMENT, "target must be one of KEY_HASH, PEER_ID, ALL"),
        (f"{MANAGEMENT}&target=all", "target must be one of"),
        (
            f"{MANAGEMENT}&target=PEER_ID",
            "target PEER_ID requires the parameter `peer`: the id of a member",
        ),
        (
            f"{MANAGEMENT}&target=PEER_ID&peer=",
            "target PEER_ID requires the parameter `peer`: the id of a member",
        ),
        (f"{MANAGEMENT}&target=KEY_HASH", "target KEY_HASH requires the parameter `link` or `key`"),
        (f"{MANAGEMENT}&target=KEY_HASH&link=x", "a path must begin with /"),
        (
            f"{MANAGEMENT}&target=ALL&query=a",
            "there is no parameter 'query' here",
        ),
        ("target=ALL&path=http://127.0.0.1:80/", "a path must begin with /"),
        ("target=ALL&path=//127.0.0.1/stats", "an empty segment"),
        ("target=ALL&path=/core/../stats", "the segments . and .."),
        ("target=ALL&path=/core/factories", "path must be one of"),
        ("target=ALL&path=/films/1", "path must be one of"),
        ("target=ALL&path=/core/management/trace", "path must be one of"),
        (f"target=ALL&path={FORWARDING}", "path must be one of"),
    ],
)
async def test_an_invalid_forwarding_request_is_400(
    client: Client, query: str, detail: str
) -> None:
    async with client.get(f"{FORWARDING}?{query}") as response:
        assert detail in (await problem_of(response, 400))["detail"]


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
async def test_only_reads_are_forwarded(client: Client, method: str) -> None:
    url = f"{FORWARDING}?{MANAGEMENT}&target=ALL"
    async with client.request(method, url, json={}) as response:
        await problem_of(response, 405)
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS"
    async with client.options(url) as response:
        assert (response.status, response.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")


async def test_a_forwarded_answer_names_its_node(client: Client) -> None:
    for target in ("PEER_ID&peer=n1", "KEY_HASH&key=x", "KEY_HASH&link=/films/1"):
        async with client.get(f"{FORWARDING}?{MANAGEMENT}&target={target}") as response:
            assert response.headers["Docstore-Node"] == "n1"
            assert (await response.json())["path"] == "/core/management"
    async with client.get(f"{FORWARDING}?{MANAGEMENT}&target=PEER_ID&peer=n9") as response:
        await problem_of(response, 404)


async def test_a_key_without_an_owner_is_503(client: Client, node: SingleNode) -> None:
    node.why_not = "no owner"
    async with client.get(f"{FORWARDING}?{MANAGEMENT}&target=KEY_HASH&key=x") as response:
        assert (await problem_of(response, 503))["errorCode"] == "no-owner"


async def test_a_broadcast_has_the_answers_and_failures_of_all_nodes(client: Client) -> None:
    page = await get(client, f"{FORWARDING}?{MANAGEMENT}&target=ALL")
    assert page["kind"] == "NodeGroupBroadcastResponse"
    assert page["jsonResponses"]["n1"]["id"] == "n1"
    assert page["failures"]["n2"]["message"] == "node n2 is not connected"
    assert (page["totalNodeCount"], page["unavailableNodeCount"]) == (2, 1)


async def test_an_answer_that_is_too_large_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docstore.http.selectors.BYTES_MAX", 100)
    async with client.get(f"{FORWARDING}?{MANAGEMENT}&target=ALL") as response:
        await problem_of(response, 413)


async def test_an_unknown_selector_is_404(client: Client) -> None:
    for name in ("nonsense", "nonsense/forwarding", "default/nonsense", "default/forwarding/x"):
        async with client.get(f"/core/node-selectors/{name}") as response:
            await problem_of(response, 404)
