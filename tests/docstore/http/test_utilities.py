"""The utilities of factories and documents, such as /config and /stats, on one node."""

from typing import Any

import aiohttp
import msgpack
import orjson
import pytest
from yarl import URL

from docstore.model.operation import Answer
from docstore.model.paths import SUFFIXES
from docstore.model.service import LEVEL_3
from tests.docstore.http.conftest import Declare
from tests.docstore.http.problem import problem_of
from tests.docstore.http.single import SingleNode
from tests.docstore.http.test_pages import get

Client = aiohttp.ClientSession
READS, PATCHES = "GET, HEAD, OPTIONS", "GET, HEAD, OPTIONS, PATCH"
CALLED = "DELETE, GET, HEAD, OPTIONS, POST"
OF_DOCUMENTS = {
    "available": READS, "config": READS, "explain": READS, "stats": READS,
    "subscriptions": CALLED, "synchronization": PATCHES, "template": READS, "versions": READS,
}  # fmt: skip
OF_FACTORIES = {
    "available": READS, "config": PATCHES, "stats": READS, "subscriptions": CALLED,
    "synchronization": PATCHES, "template": READS,
}  # fmt: skip


@pytest.fixture
async def link(client: Client, factory: str) -> str:
    async with client.put(f"{factory}/a", json={"n": 1}) as response:
        assert response.status == 201
    return f"{factory}/a"


async def test_each_utility_names_its_methods(client: Client, link: str) -> None:
    factory = link.rpartition("/")[0]
    for above, offered in ((link, OF_DOCUMENTS), (factory, OF_FACTORIES)):
        for name in SUFFIXES:
            path = f"{above}/{name}"
            async with client.options(path) as response:
                assert response.headers.get("Allow", "") == offered.get(name, ""), path
            for method in ("GET", "PUT", "POST", "PATCH", "DELETE"):
                async with client.request(method, path, json={"kind": "?"}) as response:
                    if name not in offered:
                        await problem_of(response, 404)
                    elif method not in offered[name]:
                        assert (await problem_of(response, 405))["errorCode"]
                        assert response.headers["Allow"] == offered[name]
                    else:
                        assert response.status != 405, path


@pytest.mark.parametrize("name", sorted(set(OF_DOCUMENTS) - {"explain", "subscriptions"}))
async def test_a_missing_document_has_no_utilities(client: Client, link: str, name: str) -> None:
    factory = link.rpartition("/")[0]
    async with client.get(f"{factory}/none/{name}") as response:
        await problem_of(response, 404)
    async with client.get(f"/nowhere/a/{name}") as response:
        await problem_of(response, 404)
    if name == "versions":  # Versions of a deleted document remain.
        return
    await client.delete(link)
    async with client.get(f"{link}/{name}") as response:
        await problem_of(response, 404)


# Names


@pytest.mark.parametrize("name", sorted(SUFFIXES))
async def test_the_name_of_a_utility_is_reserved(
    client: Client, factory: str, name: str, plain: list[str]
) -> None:
    async with client.put(f"{factory}/{name}", json={}) as response:
        assert response.status in (404, 405)
    for said in (name, f"{factory}/{name}"):
        async with client.post(factory, json={"documentSelfLink": said}) as response:
            await problem_of(response, 400)
    line = {"op": "PUT", "link": f"{factory}/{name}", "body": {}}
    media = {"Content-Type": "application/x-ndjson"}
    raw = orjson.dumps(line)
    async with client.post("/core/bulk", data=raw, headers=media) as response:
        assert (await response.json(content_type=None))["status"] == 400
    for path in (f"{factory}/{name}", f"/{name}", f"{factory}/{name}/x"):
        async with client.post("/core/factories", json={"path": path}) as response:
            await problem_of(response, 400)
    assert plain == []
    # A longer name, or one in capitals, is an ordinary name.
    for near in (f"{name}s", name.upper()):
        async with client.put(f"{factory}/{near}", json={}) as response:
            assert response.status == 201


async def test_a_factory_at_the_path_of_a_document_has_its_own_utilities(
    client: Client, link: str
) -> None:
    async with client.post("/core/factories", json={"path": link, "kind": "inner"}) as response:
        assert response.status == 201
    assert (await get(client, f"{link}/config"))["kind"] == "inner"
    async with client.put(f"{link}/b", json={}) as response:
        assert response.status == 201
    assert (await get(client, f"{link}/b/template"))["documentKind"] == "inner"
    async with client.get(f"{link}/versions") as response:
        await problem_of(response, 404)


@pytest.mark.parametrize(
    ("factory", "name", "beyond"),
    [
        ("/" + "/".join(["d"] * 31), "x", "/y"),
        ("/long", "x" * 1018, "y"),
        ("/long", "%C3%A4" * 509, "y"),
    ],
    ids=["deep", "long", "encoded"],
)
async def test_the_deepest_and_the_longest_document_has_utilities(
    client: Client, factory: str, name: str, beyond: str
) -> None:
    await client.post("/core/factories", json={"path": factory})
    link = f"{factory}/{name}"
    async with client.put(URL(link, encoded=True), json={}) as response:
        assert response.status == 201
    for utility in OF_DOCUMENTS.keys() - {"conflicts"}:
        await get(client, f"{link}/{utility}")
    for longer in (link + beyond, f"{link}{beyond}/stats", f"{link}/stats/stats"):
        async with client.get(URL(longer, encoded=True)) as response:
            await problem_of(response, 400)


# Config


async def test_config_is_the_declaration_with_its_defaults(
    client: Client, declare: Declare
) -> None:
    factory = await declare(retention={"versions": 9}, indexes=["$.a"], schema={"requierd": []})
    declaration = await get(client, f"/core/factories{factory}")
    page = await get(client, f"{factory}/config")
    assert page == {**page, **declaration}
    assert page["documentSelfLink"] == f"/core/factories{factory}"
    assert [each["member"] for each in page["warnings"]] == ["schema"]
    assert page["indexes"] == ["$.a"]
    assert page["options"] == list(LEVEL_3)
    assert (page["putCreates"], page["nodeSelector"]) == (True, "default")
    assert (page["retention"], page["defaultExpirationSeconds"]) == ({"versions": 9}, 0)
    await client.put(f"{factory}/a", json={})
    assert await get(client, f"{factory}/a/config") == page
    async with client.get(
        f"{factory}/config", headers={"Accept": "application/msgpack"}
    ) as response:
        assert msgpack.unpackb(await response.read()) == page
        assert response.headers["ETag"] == '"1.0-m"'
    async with client.get(f"{factory}/config", headers={"If-None-Match": '"1.0"'}) as response:
        assert (response.status, await response.read()) == (304, b"")
    async with client.head(f"{factory}/config") as response:
        assert (response.status, await response.read()) == (200, b"")


async def test_a_change_of_config_changes_the_declaration(client: Client, declare: Declare) -> None:
    factory = await declare(schema={"required": ["n"]})
    config, link = f"{factory}/config", f"/core/factories{factory}"
    async with client.put(f"{factory}/a", json={}) as response:
        await problem_of(response, 422)
    async with client.patch(config, json={"schema": None, "retention": {"versions": 2}}) as said:
        page = await said.json()
        assert (said.status, page["documentVersion"], page["putCreates"]) == (200, 1, True)
    assert "schema" not in page
    assert (await get(client, link))["retention"] == {"versions": 2}
    async with client.put(f"{factory}/a", json={}) as response:
        assert response.status == 201
    # A client may send back the page that it read, and conditions apply.
    async with client.patch(config, json=page, headers={"If-Match": '"1.0"'}) as response:
        await problem_of(response, 412)
    async with client.patch(config, json=page, headers={"If-Match": '"1.1"'}) as response:
        assert response.status == 200
    assert (await get(client, config))["retention"] == {"versions": 2}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"retention": {"versions": 0}}, 400),
        ({"retention": {"days": 1}}, 400),
        ({"options": "ALL"}, 400),
        ({"options": [*LEVEL_3, "FASTER"]}, 400),
        ({"defaultExpirationSeconds": -1}, 400),
        ({"putCreates": "yes"}, 400),
        ({"schema": {"type": 7}}, 400),
        ({"intervalMicros": 5}, 400),
        ({"documentSelfLink": "/core/factories/other"}, 400),
        ({"path": "/elsewhere"}, 409),
        ({"options": ["PERSISTENCE", "REPLICATION"]}, 409),
        ({"nodeSelector": "default-1x"}, 422),
    ],
)
async def test_a_bad_value_changes_nothing(
    client: Client, factory: str, change: dict[str, Any], status: int
) -> None:
    before = await get(client, f"{factory}/config")
    async with client.patch(f"{factory}/config", json=change) as response:
        await problem_of(response, status)
    assert await get(client, f"{factory}/config") == before


async def test_a_built_in_factory_has_a_read_only_config(client: Client) -> None:
    page = await get(client, "/core/examples/config")
    assert (page["path"], page["putCreates"]) == ("/core/examples", False)
    async with client.patch("/core/examples/config", json={"putCreates": True}) as response:
        await problem_of(response, 405)
        assert response.headers["Allow"] == READS
    assert (await get(client, "/core/factories/config"))["kind"] == "docstore:Factory"


# Template


async def test_a_factory_and_its_documents_have_one_template(
    client: Client, declare: Declare
) -> None:
    schema = {"properties": {"n": {"type": "integer", "description": "how many"}}}
    factory = await declare(schema=schema, kind="shop:Order")
    page = await get(client, f"{factory}/template")
    assert (page["n"], page["documentKind"]) == (0, "shop:Order")
    assert page["documentSelfLink"] == f"{factory}/template"
    description = page["documentDescription"]
    assert description["propertyDescriptions"]["n"]["propertyDocumentation"] == "how many"
    assert description["serializedStateSizeLimit"] == 1 << 20
    await client.put(f"{factory}/a", json={"n": 9})
    other = await get(client, f"{factory}/a/template")
    assert other == page | {"documentSelfLink": f"{factory}/a/template"}


async def test_the_sample_service_describes_its_documents(client: Client) -> None:
    page = await get(client, "/core/examples/template")
    described = page["documentDescription"]["propertyDescriptions"]
    assert described["name"]["usageOptions"] == ["REQUIRED"]
    assert described["counter"]["typeName"] == "LONG"


# Available, stats, synchronization


async def test_available_gives_the_reason_if_it_is_not(
    client: Client, link: str, node: SingleNode
) -> None:
    factory = link.rpartition("/")[0]
    for path in (link, factory):
        assert await get(client, f"{path}/available") == {"available": True}
        entry = (await get(client, f"{path}/stats"))["entries"]["isAvailable"]
        assert entry["latestValue"] == 1
    node.why_not = "3 slots have no owner"
    async with client.get(f"{factory}/available") as response:
        problem = await problem_of(response, 503)
    assert (problem["errorCode"], problem["detail"]) == ("not-available", "3 slots have no owner")
    node.answers = [Answer(503, "no-owner", "no owner could be reached in time")]
    async with client.get(f"{link}/available") as response:
        problem = await problem_of(response, 503)
        assert response.headers["Retry-After"]
    assert problem["detail"] == "no owner could be reached in time"
    stats = await get(client, f"{factory}/stats")
    assert stats["entries"]["isAvailable"]["latestValue"] == 0
    assert (stats["kind"], stats["nodesUnheard"]) == ("ServiceStats", ["n2"])
    page = await get(client, f"{factory}/synchronization")
    assert (page["status"], page["reason"]) == ("UNAVAILABLE", "3 slots have no owner")


async def test_a_synchronization_starts_at_a_factory_or_a_document(
    client: Client, link: str
) -> None:
    factory = link.rpartition("/")[0]
    for above in (link, factory):
        path = f"{above}/synchronization"
        page = await get(client, path)
        assert (page["status"], page["last"], page["nodesUnheard"]) == ("AVAILABLE", None, ["n2"])
        assert page.get("owner") == ("n1" if above == link else None)
        for body in (None, {}, {"kind": "SynchronizeRequest", "slotsPerSecond": 5}):
            async with client.patch(path, json=body) as response:
                assert response.status == 202
                assert response.headers["Location"] == "/core/management/synch?id=n1.1"
        wrong = ({"kind": "CompactRequest"}, {"documentSelfLink": "/x"}, {"slotsPerSecond": -1})
        for other in wrong:
            async with client.patch(path, json=other) as response:
                await problem_of(response, 400)
        async with client.patch(path, data="x", headers={"Content-Type": "text/a"}) as response:
            await problem_of(response, 415)
        async with client.patch(path, headers={"Prefer": "wait=5"}) as response:
            assert (response.status, (await response.json())["state"]) == (200, "FINISHED")
    async with client.patch(f"{factory}/none/synchronization") as response:
        await problem_of(response, 404)
