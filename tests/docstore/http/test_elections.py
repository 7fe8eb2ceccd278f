"""Requests to elections and locks: their operations on the cluster, and their refusals."""

import asyncio
from typing import Any

import aiohttp
import pytest

from docstore.model import json
from docstore.model.operation import Answer, Operation
from docstore.ownership.by_store import QUEUE_MAX, Candidate, Turns
from docstore.services.leases import LeasePhase, LeaseState
from docstore.services.lock_queue import state_of
from tests.docstore.http.problem import problem_of
from tests.docstore.http.single import SingleNode

Client = aiohttp.ClientSession
LINK = "/core/elections/billing"


def lease(name: str) -> str:
    return f"/core/leases/{name}"


async def put(node: SingleNode, link: str, state: Any) -> None:
    answer = await node.submit(
        Operation(verb="PUT", link=link, body=json.dump(state), creates=True), 1
    )
    assert answer.is_success


@pytest.fixture
async def leases(node: SingleNode) -> None:
    """Create the live leases a, b and c, and one that has ended."""
    for name in "abc":
        await put(node, lease(name), LeaseState(ttl_ms=1000).state())
    await put(node, lease("ended"), LeaseState(ttl_ms=1000, phase=LeasePhase.ENDED).state())


async def ask(
    client: Client, kind: str, link: str = LINK, *, key: str = "", **members: Any
) -> tuple[int, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"kind": f"{kind}Request", **members}
    async with client.patch(link, json=body, headers=headers) as response:
        if response.status < 400:
            return response.status, await response.json()
        problem = await problem_of(response, response.status)
        return response.status, problem["errorCode"]


async def campaign(client: Client, name: str, **members: Any) -> tuple[int, Any]:
    return await ask(client, "Campaign", candidate=name, lease=lease(name), **members)


@pytest.mark.usefixtures("leases")
async def test_l01_the_first_campaign_creates_the_election_and_others_see_its_value(
    client: Client, node: SingleNode
) -> None:
    status, page = await campaign(client, "a", value={"url": "here"})
    assert (status, page["won"], page["token"], page["position"]) == (200, True, 1, 0)
    status, page = await campaign(client, "b")
    assert (status, page["won"], page["position"]) == (202, False, 1)
    assert page["holder"] == {"candidate": "a", "lease": lease("a"), "value": {"url": "here"}}
    async with client.get(LINK) as response:
        assert (await response.json())["holder"]["candidate"] == "a"
        assert response.headers["ETag"]
    found = await node.submit(Operation(verb="GET", link=lease("a")), 1)
    assert found.row is not None
    assert json.load(found.row.state)["attached"] == [LINK]


@pytest.mark.usefixtures("leases")
async def test_a_lease_is_named_by_its_link_or_by_its_id(client: Client) -> None:
    first = await campaign(client, "a")
    again = await ask(client, "Campaign", candidate="a", lease="a")
    assert again == first
    assert again[1]["holder"]["lease"] == lease("a")
    assert (await ask(client, "Resign", candidate="a", lease="a"))[0] == 200
    for wrong in ("", "/core/locks/a", "/a/b/c/", 7):
        asked = await ask(client, "Campaign", candidate="a", lease=wrong)
        assert asked == (400, "refused-by-service")


@pytest.mark.usefixtures("leases")
async def test_an_ended_or_unknown_lease_cannot_campaign(client: Client, node: SingleNode) -> None:
    assert await campaign(client, "ended") == (410, "lease-ended")
    assert await campaign(client, "unknown") == (404, "no-such-lease")
    assert LINK not in node.histories


@pytest.mark.usefixtures("leases")
async def test_a_candidate_that_does_not_hold_changes_nothing(client: Client) -> None:
    assert (await ask(client, "Resign", candidate="a", token=1))[0] == 404
    for name in "ab":
        await campaign(client, name)
    assert await ask(client, "Resign", candidate="b", token=1) == (409, "not-holder")
    assert await ask(client, "Resign", candidate="a", token=2) == (409, "other-token")
    assert await ask(client, "Proclaim", candidate="b", token=1, value=1) == (409, "not-holder")
    assert await ask(client, "Transfer", candidate="a", token=1, to="c") == (409, "not-queued")
    status, page = await ask(client, "Transfer", candidate="a", token=1, to="b")
    assert (status, page["holder"]["candidate"], page["token"]) == (200, "b", 3)
    assert await ask(client, "Proclaim", candidate="a", token=1, value=1) == (409, "not-holder")


@pytest.mark.usefixtures("leases")
async def test_a_full_queue_is_409(client: Client, node: SingleNode) -> None:
    queue = tuple(Candidate(f"{n}", lease("b")) for n in range(QUEUE_MAX))
    await put(node, LINK, state_of(Turns(Candidate("b", lease("b")), 1, queue)))
    assert await campaign(client, "a") == (409, "queue-full")


@pytest.mark.usefixtures("leases")
async def test_an_election_is_not_deleted_while_held_and_never_put(
    client: Client,
) -> None:
    await campaign(client, "a")
    async with client.delete(LINK) as response:
        assert (await problem_of(response, 409))["errorCode"] == "held"
    async with client.put(LINK, json={"holder": None}) as response:
        await problem_of(response, 405)
        assert response.headers["Allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"
    await ask(client, "Resign", candidate="a", token=1)
    async with client.delete(LINK, headers={"If-Match": '"1.1"'}) as response:
        await problem_of(response, 412)
    async with client.delete(LINK) as response:
        assert response.status == 200
    status, page = await campaign(client, "b")
    assert (status, page["token"]) == (200, page["documentVersion"])
    assert page["token"] > 3  # Versions continue after the deletion.


async def meanwhile(
    client: Client, node: SingleNode, state: Any, **headers: str
) -> tuple[int, str]:
    """Delete LINK while another version comes between the node's read and its update."""
    read = asyncio.get_running_loop().create_future()
    node.waits = [read]
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        answered = tasks.create_task(client.delete(LINK, headers=sent))
        while node.waits:
            await asyncio.sleep(0)
        await put(node, LINK, state)
        read.set_result(None)
    async with answered.result() as response:
        page = await response.json()
        return response.status, str(page.get("errorCode", ""))


async def test_a_deletion_without_a_condition_accepts_a_concurrent_version(
    client: Client, node: SingleNode
) -> None:
    free = [state_of(Turns(grace_ms=each)) for each in (0, 1, 2)]
    held = state_of(Turns(Candidate("a", lease("a")), 1))
    await put(node, LINK, free[0])
    assert await meanwhile(client, node, held) == (409, "held"), "it is never deleted unseen"
    await put(node, LINK, free[1])
    assert await meanwhile(client, node, free[2]) == (200, "")
    await put(node, LINK, free[0])
    assert await meanwhile(client, node, free[1], If_Match="*") == (200, "")


async def test_a_deletion_keeps_the_conditions_of_its_client(
    client: Client, node: SingleNode
) -> None:
    await put(node, LINK, state_of(Turns()))
    for sent in ({"If_None_Match": "*"}, {"If_Match": '"1.7"'}, {"If_None_Match": '"1.0"'}):
        headers = {name.replace("_", "-"): value for name, value in sent.items()}
        async with client.delete(LINK, headers=headers) as response:
            await problem_of(response, 412)
    after = state_of(Turns(grace_ms=1))
    assert await meanwhile(client, node, after, If_Match='"1.0"') == (412, "precondition-failed")
    assert await meanwhile(client, node, after, If_None_Match='"1.0"') == (200, "")


@pytest.mark.usefixtures("leases")
async def test_a_campaign_recreates_an_election_that_is_deleted_meanwhile(
    client: Client, node: SingleNode
) -> None:
    ready, made = [asyncio.get_running_loop().create_future() for _ in range(2)]
    ready.set_result(None)
    node.waits = [ready, ready, made]
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        campaigned = tasks.create_task(campaign(client, "a"))
        while node.waits:
            await asyncio.sleep(0)
        async with client.delete(LINK) as response:
            assert response.status == 200
        made.set_result(None)
    status, page = campaigned.result()
    assert (status, page["won"]) == (200, True)


async def test_a_change_or_deletion_of_a_role_accepts_a_concurrent_version(
    client: Client, node: SingleNode
) -> None:
    link = "/core/roles/r"
    async with client.post("/core/roles", json={"name": "r", "partitions": 2}) as response:
        assert response.status == 201
    for number, (method, body) in enumerate((("PATCH", {"revokeMs": 10}), ("DELETE", None))):
        between = {"heartbeatMs": 77 + number}
        read = asyncio.get_running_loop().create_future()
        node.waits = [read]
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            answered = tasks.create_task(client.request(method, link, json=body))
            while node.waits:
                await asyncio.sleep(0)
            async with client.patch(link, json=between) as response:
                assert response.status == 200
            read.set_result(None)
        async with answered.result() as response:
            assert response.status == 200, await response.text()
            settings = (await response.json())["settings"]
            assert settings["heartbeatMs"] == 77 + number, "the concurrent change is kept"


async def test_a_patch_that_changes_no_setting_of_a_role_writes_nothing(client: Client) -> None:
    async with client.post("/core/roles", json={"name": "same", "partitions": 2}) as response:
        assert response.status == 201
    for _ in range(2):
        async with client.patch("/core/roles/same", json={"revokeMs": 10}) as response:
            assert response.status == 200, await response.text()
            assert (await response.json())["documentVersion"] == 1


@pytest.mark.usefixtures("leases")
async def test_a_lock_with_a_grace_is_created_by_post(client: Client) -> None:
    asked = {"name": "printer", "graceMs": 5_000}
    async with client.post("/core/locks", json=asked) as response:
        assert response.status == 201
        assert response.headers["Location"] == "/core/locks/printer"
        assert (await response.json())["graceMs"] == 5_000
    async with client.post("/core/locks", json=asked) as response:
        assert (await problem_of(response, 409))["errorCode"] == "already-exists"
    status, page = await ask(
        client, "Acquire", "/core/locks/printer", candidate="a", lease=lease("a")
    )
    assert (status, page["won"], page["graceMs"]) == (200, True, 5_000)
    for wrong in ({}, {"name": "a/b"}, {"name": "versions"}, {"name": "a", "graceMs": -1},
                  {"name": "a", "more": 1}):  # fmt: skip
        async with client.post("/core/locks", json=wrong) as response:
            await problem_of(response, 400)


@pytest.mark.usefixtures("leases")
@pytest.mark.parametrize("kind", ["Gone", "Promote"])
async def test_requests_that_only_nodes_send_are_refused_from_clients(
    client: Client, kind: str
) -> None:
    await campaign(client, "a")
    status, code = await ask(client, kind, lease=lease("a"))
    assert (status, code) == (400, "refused-by-service")
    line = {"op": "PATCH", "link": LINK, "body": {"kind": "GoneRequest", "lease": lease("a")}}
    lines = {"Content-Type": "application/x-ndjson"}
    async with client.post("/core/bulk", data=json.dump(line), headers=lines) as response:
        assert json.load(await response.read())["status"] == 405
    async with client.get(LINK) as response:
        assert (await response.json())["holder"]["candidate"] == "a"


@pytest.mark.usefixtures("leases")
@pytest.mark.parametrize("kind", [[], {}, ["CampaignRequest"], 7, None], ids=str)
@pytest.mark.parametrize("link", [LINK, "/core/locks/a", lease("a")])
async def test_a_kind_that_is_not_a_string_is_400(client: Client, link: str, kind: Any) -> None:
    async with client.patch(link, json={"kind": kind}) as response:
        await problem_of(response, 400)


@pytest.mark.usefixtures("leases")
async def test_an_unknown_outcome_is_504(client: Client, node: SingleNode) -> None:
    await campaign(client, "a")
    attached = Answer(200, row=node.histories[lease("b")][-1])
    node.answers = [attached, Answer(504, "undecided", "lost", unknown=True)]
    assert await campaign(client, "b") == (504, "undecided")


@pytest.mark.usefixtures("leases")
async def test_a_repeated_campaign_returns_the_present_state(
    client: Client, node: SingleNode
) -> None:
    """The state at the first request is not returned: another candidate may hold by now."""
    for name in "ab":
        await campaign(client, name)
    first = node.histories[LINK][1]
    await ask(client, "Resign", candidate="a", token=1)
    attached = Answer(200, row=node.histories[lease("a")][-1])
    node.answers = [attached, Answer(200, "repeated", row=first)]
    assert await campaign(client, "a") == (409, "not-queued")


@pytest.mark.usefixtures("leases")
@pytest.mark.parametrize("wait", ["0", "301", "x"])
async def test_a_wait_has_bounds(client: Client, wait: str) -> None:
    body = {"kind": "CampaignRequest", "candidate": "a", "lease": lease("a")}
    async with client.patch(LINK, json=body, headers={"Prefer": f"wait={wait}"}) as response:
        await problem_of(response, 400)


@pytest.mark.usefixtures("leases")
async def test_elections_are_listed(client: Client) -> None:
    async with client.get("/core/elections") as response:
        assert (await response.json())["documentLinks"] == []
    await campaign(client, "a")
    async with client.get("/core/elections?expand") as response:
        page = await response.json()
        assert page["documentLinks"] == [LINK]
        assert page["documents"][LINK]["token"] == 1
    async with client.get(f"{LINK}/versions") as response:
        assert len((await response.json())["versions"]) == 2
