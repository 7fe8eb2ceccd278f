"""Pages of factories and declarations, and of the node itself."""

import re
from typing import Any

import aiohttp
import msgpack
import pytest

from docstore import __version__
from docstore.http.core_pages import GROUP_REQUESTS
from docstore.node.members.group import KINDS
from tests.docstore.http.conftest import Declare
from tests.docstore.http.problem import problem_of

Client = aiohttp.ClientSession


async def get(client: Client, path: str) -> Any:
    async with client.get(aiohttp.client.URL(path, encoded=True)) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_a_listing_shows_live_documents_in_order_of_link(
    client: Client, factory: str
) -> None:
    assert (await get(client, factory))["documentLinks"] == []
    for name in ("b", "a", "gone", "c d"):
        async with client.post(factory, json={"documentSelfLink": name, "n": name}) as response:
            assert response.status == 201
    await client.delete(f"{factory}/gone")
    page = await get(client, f"{factory}?$count=true")
    assert page["documentLinks"] == [f"{factory}/{name}" for name in ("a", "b", "c d")]
    assert page["documentCount"] == 3
    assert "documents" not in page
    assert "nextPageLink" not in page
    for query in ("expand", "$expand=true"):
        page = await get(client, f"{factory}?{query}")
        assert list(page["documents"]) == page["documentLinks"]
        assert page["documents"][f"{factory}/c d"]["n"] == "c d"
        assert page["documents"][f"{factory}/a"]["documentVersion"] == 0


@pytest.mark.parametrize("flags", ["", "&expand"])
async def test_pages_list_each_document_once(client: Client, factory: str, flags: str) -> None:
    links = [f"{factory}/{n:03} x" for n in range(25)]
    for link in links:
        await client.post(factory, json={"documentSelfLink": link})
    seen, page = [], f"{factory}?$limit=10{flags}"
    while page:
        body = await get(client, page)
        seen += body["documentLinks"]
        assert len(body["documentLinks"]) <= 10
        assert ("documents" in body) == bool(flags)
        page = body.get("nextPageLink")
    assert seen == links
    top = await get(client, f"{factory}?$top=5")
    assert (len(top["documentLinks"]), "nextPageLink" in top) == (5, False)
    seen, page = [], f"{factory}?$limit=10&$top=24{flags}"
    while page:
        body = await get(client, page)
        seen += body["documentLinks"]
        page = body.get("nextPageLink")
    assert seen == links[:24]


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("filter", "parameter filter must be spelt $filter"),
        ("orderBy", "parameter orderBy must be spelt $orderby"),
        ("limit", "parameter limit must be spelt $limit"),
    ],
)
async def test_a_misspelt_parameter_is_refused(
    client: Client, factory: str, name: str, detail: str
) -> None:
    async with client.get(factory, params={name: "3"}) as response:
        assert (await problem_of(response, 400))["detail"] == detail


async def test_an_expanded_page_is_bounded(client: Client, factory: str) -> None:
    for n in range(20):
        async with client.put(f"{factory}/{n:02}", json={"text": "x" * 1_000_000}) as response:
            assert response.status == 201
    page = await get(client, f"{factory}?expand")
    assert len(page["documentLinks"]) == len(page["documents"]) == 16
    page = await get(client, page["nextPageLink"])
    assert len(page["documentLinks"]) == 4
    assert "nextPageLink" not in page


async def test_a_factory_is_declared_changed_and_deleted(client: Client) -> None:
    body = {
        "path": "/shop/orders",
        "options": ["PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM"],
        "schema": {"properties": {"total": {"type": "number"}}, "required": ["total"]},
        "indexes": ["$.status"],
        "documentNote": "a member that means nothing",
        "nodeSelector": "default",
        "retention": {"versions": 100},
        "defaultExpirationSeconds": 0,
        "putCreates": True,
        "kind": 'my:"Order"',
    }
    link = "/core/factories/shop:orders"
    try:
        async with client.post("/core/factories", json=body) as response:
            assert response.status == 201, await response.text()
            assert response.headers["Location"] == link
            warned = (await response.json())["warnings"]
        assert [each["member"] for each in warned] == ["documentNote"]
        async with client.post("/core/factories", json=body) as response:
            await problem_of(response, 409)
        assert link in (await get(client, "/core/factories"))["documentLinks"]
        async with client.put("/shop/orders/1", json={"total": "much"}) as response:
            refused = await problem_of(response, 422)
            assert "total" in refused["detail"]
        async with client.put("/shop/orders/1", json={"total": 1}) as response:
            assert (await response.json())["documentKind"] == 'my:"Order"'
        moved = body | {"path": "/elsewhere"}
        for verb, status in (("PUT", 400), ("PATCH", 409)):
            async with client.request(verb, link, json=moved) as response:
                await problem_of(response, status)
        merge = {"Content-Type": "application/merge-patch+json"}
        async with client.patch(link, json={"path": "/core/x"}, headers=merge) as response:
            assert response.status in (400, 409)
        patch = {"Content-Type": "application/json-patch+json"}
        async with client.patch(link, json=[], headers=patch) as response:
            await problem_of(response, 415)
        async with client.patch(link, json={"schema": None}) as response:
            assert response.status == 200
        async with client.put("/shop/orders/2", json={}) as response:
            assert response.status == 201
    finally:
        async with client.delete(link) as response:
            assert response.status == 200
    async with client.get("/shop/orders/1") as response:
        await problem_of(response, 404)


async def test_warnings_of_a_declaration_are_shown_and_not_stored(
    client: Client, declare: Declare
) -> None:
    path = await declare(schema={"requierd": []})
    link = f"/core/factories{path}"
    page = await get(client, link)
    assert [each["member"] for each in page["warnings"]] == ["schema"]
    for verb in ("PUT", "PATCH"):  # A client may send back the page that it read.
        kept = page | {"indexes": ["a"], "schema": None}
        async with client.request(verb, link, json=kept) as response:
            assert response.status == 200, await response.text()
            assert "warnings" not in await response.json()
        schema = {"deprecatedly": True}
        async with client.request(verb, link, json={**page, "schema": schema}) as response:
            assert len((await response.json())["warnings"]) == 1
            page = await get(client, link)
    accept = {"Accept": "application/msgpack"}
    async with client.get(link, headers=accept) as response:
        assert msgpack.unpackb(await response.read()) == page
    async with client.delete(link) as response:
        assert "warnings" not in await response.json()


async def test_a_factory_may_forbid_creation_by_put(client: Client, declare: Declare) -> None:
    factory = await declare(putCreates=False)
    async with client.put(f"{factory}/a", json={}) as response:
        await problem_of(response, 404)


async def test_the_pages_of_the_node_are_served(client: Client) -> None:
    assert (await get(client, "/health/live")) == {"live": True}
    assert (await get(client, "/health/ready")) == {"ready": True}
    assert (await get(client, "/core/management"))["id"]
    group = await get(client, "/core/node-groups/default")
    assert group["configuration"]["voters"]
    assert (await get(client, "/core/node-groups/default/available"))["available"]
    assert (await get(client, "/core/node-selectors/default"))["slots"] >= 1
    await get(client, "/core/management/digests")
    async with client.get("/core/node-selectors/nonsense") as response:
        await problem_of(response, 404)
    async with client.get("/health/live", headers={"Accept": "text/html"}) as response:
        assert response.status == 200


async def test_the_root_page_describes_the_node(client: Client) -> None:
    page = await get(client, "/")
    assert (page["name"], page["version"]) == ("docstore", __version__)
    assert page["id"] == (await get(client, "/core/management"))["id"]
    assert {"/health/ready", "/metrics", "/core/factories"} <= page["links"].keys()
    for path in page["links"]:
        async with client.get(path) as response:
            assert response.status in (200, 503), path  # This node has no streams.
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Site": "none"}
    async with client.get("/?from=here", headers=browser) as response:
        assert (response.status, await response.json()) == (200, page)
    async with client.head("/") as response:
        assert (response.status, await response.read()) == (200, b"")
    async with client.options("/") as response:
        assert (response.status, response.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
    for verb in ("PUT", "POST", "PATCH", "DELETE"):
        async with client.request(verb, "/", json={}) as response:
            await problem_of(response, 405)
            assert response.headers["Allow"] == "GET, HEAD, OPTIONS"


async def test_explain_exists_for_documents_only(client: Client, factory: str) -> None:
    await client.put(f"{factory}/a", json={})
    assert (await get(client, f"{factory}/a/explain"))["owner"]
    for path in (f"{factory}/a/conflicts", f"{factory}/versions", f"{factory}/explain"):
        async with client.get(path) as response:
            await problem_of(response, 404)


async def test_a_resynchronisation_starts_and_reports_its_state(
    client: Client, factory: str
) -> None:
    await client.put(f"{factory}/a", json={})
    for link in (None, factory, f"{factory}/a"):
        body = {"kind": "SynchronizeRequest"} | ({"documentSelfLink": link} if link else {})
        async with client.patch("/core/management", json=body) as response:
            assert response.status == 202
            location = response.headers["Location"]
        assert (await get(client, location))["state"]
    headers = {"Prefer": "respond-async, wait=20"}
    body = {"kind": "SynchronizeRequest"}
    async with client.patch("/core/management", json=body, headers=headers) as response:
        assert response.status == 200
        assert (await response.json())["state"] != "RUNNING"
    body = {"kind": "SynchronizeRequest", "documentSelfLink": f"{factory}/none"}
    async with client.patch("/core/management", json=body) as response:
        await problem_of(response, 404)
    async with client.get("/core/management/synch?id=nobody.1") as response:
        await problem_of(response, 404)
    async with client.get("/core/management/synch") as response:
        assert (
            "id must be that of a resynchronisation" in (await problem_of(response, 400))["detail"]
        )
    body = {"kind": "SynchronizeControlRequest", "id": "nobody.1", "action": "pause"}
    async with client.patch("/core/management", json=body) as response:
        await problem_of(response, 404)
    body = {"kind": "CompactRequest", "beforeMicros": 1}
    async with client.patch("/core/management", json=body) as response:
        assert response.status == 202
        assert (await response.json())["beforeMicros"] == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/core/management", {}, 400), ("/core/management", {"kind": "Nonsense"}, 400),
        ("/core/management", [], 400),
        ("/core/management", {"kind": "SynchronizeRequest", "documentSelfLink": 7}, 400),
        ("/core/management", {"kind": "SynchronizeRequest", "slotsPerSecond": -1}, 400),
        ("/core/management", {"kind": "SynchronizeRequest", "slotsPerSecond": True}, 400),
        ("/core/management", {"kind": "SynchronizeControlRequest", "id": "n1.1"}, 400),
        ("/core/management", {"kind": "CompactRequest"}, 400),
        ("/core/management", {"kind": "CompactRequest", "beforeMicros": "now"}, 400),
        ("/core/management", {"kind": "CompactRequest", "beforeMicros": 9e15}, 400),
        ("/core/management", {"kind": "CompactRequest", "beforeMicros": True}, 400),
        ("/core/management", {"kind": "SynchronizeControlRequest", "id": 1, "action": "pause"},
         400),
        ("/core/management", {"kind": "SynchronizeRequest", "documentSelfLink": "../x"}, 400),
        ("/core/node-groups/default", {"kind": "UpdateQuorumRequest", "membershipQuorum": 1}, 409),
        ("/core/node-groups/default", {"kind": "RemoveMemberRequest", "id": "n1"}, 409),
        ("/core/node-groups/default", {"kind": "x"}, 400),
    ],
)  # fmt: skip
async def test_invalid_administrative_requests_are_refused(
    client: Client, path: str, body: Any, status: int
) -> None:
    async with client.patch(path, json=body) as response:
        await problem_of(response, status)
    headers = {"Content-Type": "text/plain"}
    async with client.patch(path, data="x", headers=headers) as response:
        await problem_of(response, 415)
    for wait in ("0", "301", "x", ""):
        body = {"kind": "SynchronizeRequest"}
        headers = {"Prefer": f"wait={wait}"}
        async with client.patch("/core/management", json=body, headers=headers) as response:
            await problem_of(response, 400)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/core/management", {"kind": "LogLevelRequest", "level": "info"}),
        ("/core/management", {"kind": "CompactRequest", "beforeMicros": 1}),
        ("/core/management", {"kind": "SynchronizeRequest"}),
        (
            "/core/management",
            {"kind": "SynchronizeControlRequest", "id": "n1.1", "action": "pause"},
        ),
        ("/core/node-groups/default", {"kind": "RemoveMemberRequest", "id": "n1"}),
        ("/core/node-groups/default", {"kind": "CancelChangeRequest"}),
        ("/core/examples/synchronization", {"kind": "SynchronizeRequest"}),
        ("/core/examples/synchronization", {}),
    ],
)
async def test_an_unknown_member_of_a_request_is_refused(
    client: Client, path: str, body: dict[str, Any]
) -> None:
    async with client.patch(path, json={**body, "Force": True}) as response:
        detail = (await problem_of(response, 400))["detail"]
    kind = body.get("kind", "SynchronizeRequest")
    assert detail == f"a {kind} has no member 'Force'"


SAMPLE = re.compile(r'[a-z_]+(\{([a-z]+="[^"\n]*",?)+\})? [-+0-9.eE]+(inf|nan)?\Z')


async def test_metrics_are_prometheus_text(client: Client) -> None:
    await get(client, "/health/live")
    async with client.request("PURGE", "/pot") as response:
        await problem_of(response, 405)
    async with client.get("/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = (await response.text()).splitlines()
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families)), "one type a family"
    assert all(SAMPLE.match(line) for line in lines if not line.startswith("#"))
    text = "\n".join(lines)
    assert 'docstore_http_requests_total{method="GET",status="200"}' in text
    assert 'method="other",status="405"' in text
    assert "PURGE" not in text
    assert 'docstore_http_request_seconds_bucket{method="GET",le="+Inf"}' in text


def test_the_members_of_each_request_of_a_group_are_known() -> None:
    assert set(GROUP_REQUESTS) == {*KINDS, "JoinPeerRequest"}
