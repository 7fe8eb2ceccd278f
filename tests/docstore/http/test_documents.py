"""Requests to documents over HTTP, through real sockets."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from tests.docstore.http.conftest import BOTH_WAYS, Declare
from tests.docstore.http.problem import problem_of

pytestmark = BOTH_WAYS

Client = aiohttp.ClientSession
MERGE = {"Content-Type": "application/merge-patch+json"}
PATCH = {"Content-Type": "application/json-patch+json"}


async def put(client: Client, link: str, state: Any, **headers: str) -> tuple[int, Any]:
    async with client.put(link, json=state, headers=headers) as response:
        return response.status, await response.json()


async def test_post_creates_a_document_at_a_generated_link(client: Client, factory: str) -> None:
    async with client.post(factory, json={"a": 1}) as response:
        body = await response.json()
        assert response.status == 201
        assert response.headers["Location"] == body["documentSelfLink"]
        assert response.headers["Docstore-Version"] == "0"
        assert int(response.headers["Docstore-Replicas"]) >= 1
        assert response.headers["Docstore-Owner"] == body["documentOwner"]
        assert int(response.headers["Docstore-Epoch"]) >= body["documentEpoch"]
    assert body["a"] == 1
    assert body["documentSelfLink"].startswith(factory + "/")
    assert body["documentKind"] == factory[1:]
    assert (body["documentVersion"], body["documentUpdateAction"]) == (0, "POST")
    assert body["documentUpdateTimeMicros"] > 0
    assert len(body["documentSignature"]) == 32


async def test_generated_ids_increase_with_time(client: Client, factory: str) -> None:
    links = []
    for _ in range(3):
        async with client.post(factory, json={}) as response:
            links.append((await response.json())["documentSelfLink"])
        await asyncio.sleep(0.002)
    assert links == sorted(links)


@pytest.mark.parametrize("name", ["{factory}/mine", "mine"])
async def test_post_takes_the_link_from_the_body(client: Client, factory: str, name: str) -> None:
    body = {"documentSelfLink": name.format(factory=factory), "x": 1}
    async with client.post(factory, json=body) as response:
        assert response.status == 201
        assert response.headers["Location"] == f"{factory}/mine"
    async with client.post(factory, json=body) as response:
        refused = await problem_of(response, 409)
        assert refused["errorCode"] == "already-exists"
        assert response.headers["Docstore-Version"] == "0"


@pytest.mark.parametrize(
    "link", ["../x", "/core/x", "http://a/b", "", "a/b", "x" * 4096, 7, "stats", "/else/x", ".."]
)
async def test_post_refuses_a_link_outside_the_factory(
    client: Client, factory: str, link: Any
) -> None:
    async with client.post(factory, json={"documentSelfLink": link}) as response:
        await problem_of(response, 400)


async def test_put_creates_then_replaces_and_versions_grow(client: Client, factory: str) -> None:
    status, first = await put(client, f"{factory}/a", {"n": 1})
    assert (status, first["documentVersion"]) == (201, 0)
    status, second = await put(client, f"{factory}/a", {"m": 2})
    assert (status, second["documentVersion"], second["documentUpdateAction"]) == (200, 1, "PUT")
    assert "n" not in second
    assert second["documentUpdateTimeMicros"] > first["documentUpdateTimeMicros"]


async def test_put_does_not_create_examples(client: Client) -> None:
    async with client.put("/core/examples/never", json={"name": "x"}) as response:
        await problem_of(response, 404)


async def test_examples_need_a_name_and_nothing_is_stored_without(client: Client) -> None:
    async with client.post("/core/examples", json={}) as response:
        refused = await problem_of(response, 400)
        assert "name" in refused["message"]
    for wrong in ({"name": 1}, {"name": "x", "counter": "1"}, {"name": "x", "keyValues": {"a": 1}}):
        async with client.post("/core/examples", json=wrong) as response:
            await problem_of(response, 400)


async def test_an_example_is_created_replaced_and_patched(client: Client) -> None:
    async with client.post("/core/examples", json={"name": "a", "counter": 1}) as response:
        made = await response.json()
        assert made["documentKind"] == "example:ExampleService"
    link = made["documentSelfLink"]
    status, _ = await put(client, link, {"name": "b"})
    assert status == 200
    async with client.patch(link, json={"counter": 5}) as response:
        assert (await response.json())["documentVersion"] == 2
    async with client.patch(link, json={"counter": 5}) as response:
        assert (await response.json())["documentVersion"] == 2, "nothing changed"
    async with client.patch(link, json={"name": None}) as response:
        await problem_of(response, 400)


async def test_members_that_the_store_sets_are_ignored_in_requests(
    client: Client, factory: str
) -> None:
    link = f"{factory}/a"
    await put(client, link, {"n": 1})
    async with client.get(link) as response:
        state = await response.json()
    state |= {"n": 2, "documentOwner": "me", "documentEpoch": 99, "documentVersion": 0}
    status, after = await put(client, link, state)
    assert (status, after["n"], after["documentVersion"]) == (200, 2, 1)
    assert after["documentOwner"] != "me"
    assert after["documentEpoch"] != 99


async def test_the_authors_bytes_are_kept(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    raw = '{ "b" : 1.50, "a" : "\\u00e4\\ud83d\\ude00 ä" }'
    async with client.put(link, data=raw, headers={"Content-Type": "application/json"}) as response:
        assert response.status == 201
    async with client.get(link) as response:
        text = await response.text()
    assert text.startswith(raw[:-1])


async def test_equal_content_has_an_equal_signature(client: Client, factory: str) -> None:
    signatures = set()
    for number, raw in enumerate(['{"a":1,"b":[2.0]}', '{ "b": [2], "a": 1 }']):
        link, headers = f"{factory}/s{number}", {"Content-Type": "application/json"}
        async with client.put(link, data=raw, headers=headers) as response:
            signatures.add((await response.json())["documentSignature"])
    assert len(signatures) == 1


async def test_patches_of_each_media_type_are_applied(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    await put(client, link, {"a": 1, "b": {"c": 2}})
    async with client.patch(link, json={"a": None, "b": {"d": 3}}) as response:
        after = await response.json()
        assert (after["b"], "a" in after) == ({"c": 2, "d": 3}, False)
    async with client.patch(link, json={"x": 1}, headers=MERGE) as response:
        assert (await response.json())["documentUpdateAction"] == "PATCH"
    operations = [{"op": "test", "path": "/x", "value": 1}, {"op": "remove", "path": "/x"}]
    async with client.patch(link, json=operations, headers=PATCH) as response:
        assert "x" not in await response.json()
    async with client.patch(link, json=operations, headers=PATCH) as response:
        await problem_of(response, 409)
    async with client.patch(link, json={}, headers=PATCH) as response:
        await problem_of(response, 400)
    async with client.patch(f"{factory}/none", json={}) as response:
        await problem_of(response, 404)


async def test_delete_leaves_a_tombstone_with_a_version(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    await put(client, link, {"n": 1})
    async with client.delete(link) as response:
        gone = await response.json()
        assert response.status == 200
        assert (gone["n"], gone["documentVersion"], gone["documentUpdateAction"]) == (
            1,
            1,
            "DELETE",
        )
    for verb in ("GET", "DELETE", "PATCH"):
        async with client.request(verb, link, json={}) as response:
            await problem_of(response, 404)
            assert response.headers["Docstore-Version"] == "1"
    async with client.delete(f"{factory}/never") as response:
        await problem_of(response, 404)
        assert "Docstore-Version" not in response.headers
    status, again = await put(client, link, {"n": 2})
    assert (status, again["documentVersion"]) == (201, 2)


async def test_post_on_a_tombstone_needs_a_version_or_recreate(
    client: Client, factory: str
) -> None:
    body = {"documentSelfLink": "a"}
    async with client.post(factory, json=body) as response:
        assert response.status == 201
    await client.delete(f"{factory}/a")
    async with client.post(factory, json=body) as response:
        refused = await problem_of(response, 409)
        assert "marked deleted" in refused["message"]
    async with client.post(factory, json=body | {"documentVersion": 1}) as response:
        await problem_of(response, 409)
    async with client.post(factory, json=body | {"documentVersion": 2}) as response:
        assert (response.status, (await response.json())["documentVersion"]) == (201, 2)
    await client.delete(f"{factory}/a")
    async with client.post(factory, json=body, headers={"Prefer": "recreate"}) as response:
        assert (response.status, (await response.json())["documentVersion"]) == (201, 4)


async def test_preconditions_compare_etags(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    status, _ = await put(client, link, {}, **{"If-Match": "*"})
    assert status == 412
    status, _ = await put(client, link, {}, **{"If-None-Match": "*"})
    assert status == 201
    status, _ = await put(client, link, {}, **{"If-None-Match": "*"})
    assert status == 412
    async with client.get(link) as response:
        tag = response.headers["ETag"]
    for verb in ("GET", "HEAD"):
        headers = {"If-None-Match": f'"other,tag", W/{tag}'}
        async with client.request(verb, link, headers=headers) as response:
            assert (response.status, response.headers["ETag"]) == (304, tag)
            assert await response.read() == b""
    async with client.get(link, headers={"If-None-Match": '"9.9"'}) as response:
        assert response.status == 200
    status, _ = await put(client, link, {"n": 1}, **{"If-Match": f"W/{tag}"})
    assert status == 412, "weak tags do not match strongly"
    status, _ = await put(client, link, {"n": 1}, **{"If-Match": f'"x", {tag}'})
    assert status == 200
    async with client.delete(link, headers={"If-Match": tag}) as response:
        refused = await problem_of(response, 412)
        assert refused["errorCode"] == "precondition-failed"
        assert response.headers["Docstore-Version"] == "1"


async def test_a_patch_removes_an_expiry_by_null(client: Client, factory: str) -> None:
    link, later = f"{factory}/a", 4_000_000_000_000_000
    assert (await put(client, link, {"documentExpirationTimeMicros": later}))[0] == 201
    merge = {"Content-Type": "application/merge-patch+json"}
    without = json.dumps({"documentExpirationTimeMicros": None})
    async with client.patch(link, data=without, headers=merge) as response:
        assert response.status == 200
    async with client.get(link) as response:
        assert "documentExpirationTimeMicros" not in await response.json()
    assert (await put(client, link, {"documentExpirationTimeMicros": None}))[0] == 400
    steps = [{"op": "add", "path": "/documentExpirationTimeMicros", "value": "soon"}]
    patch = {"Content-Type": "application/json-patch+json"}
    async with client.patch(link, data=json.dumps(steps), headers=patch) as response:
        await problem_of(response, 400)


async def test_digits_of_other_alphabets_match_no_version(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    assert (await put(client, link, {}))[0] == 201
    async with client.get(link) as response:
        tag = response.headers["ETag"]
    other = tag.translate({ord("0"): "\uff10", ord("1"): "\uff11"})
    assert (await put(client, link, {}, **{"If-Match": other}))[0] == 412
    assert (await put(client, link, {}, **{"If-Match": tag}))[0] == 200


@pytest.mark.parametrize("tag", ["", "x", '"x', "1.2", '"1.2" "1.3"', '"1.2",', "*, *", '"a\tb"'])
async def test_malformed_etags_are_refused(client: Client, factory: str, tag: str) -> None:
    for name in ("If-Match", "If-None-Match"):
        async with client.put(f"{factory}/a", json={}, headers={name: tag}) as response:
            await problem_of(response, 400)


async def test_a_factory_may_require_a_precondition(client: Client, declare: Declare) -> None:
    factory = await declare(requiresPrecondition=True)
    link = f"{factory}/a"
    for verb in ("PUT", "PATCH", "DELETE"):
        async with client.request(verb, link, json={}) as response:
            await problem_of(response, 428)
    status, _ = await put(client, link, {}, **{"If-None-Match": "*"})
    assert status == 201


async def test_strict_update_checking_needs_a_version(client: Client, declare: Declare) -> None:
    factory = await declare(options=[*LEVEL_3, "STRICT_UPDATE_CHECKING"])
    link = f"{factory}/a"
    assert (await put(client, link, {}))[0] == 201
    for verb in ("PUT", "PATCH", "DELETE"):
        for headers in ({}, {"If-Match": "*"}):
            async with client.request(verb, link, json={}, headers=headers) as response:
                refused = await problem_of(response, 428)
                assert refused["errorCode"] == "precondition-required"
                assert response.headers["Docstore-Version"] == "0"
    for version in (1, 7):
        async with client.patch(link, json={"documentVersion": version}) as response:
            refused = await problem_of(response, 409)
            assert refused["errorCode"] == "version-conflict"
    async with client.patch(link, json={"x": 1, "documentVersion": 0}) as response:
        assert (await response.json())["documentVersion"] == 1
        tag = response.headers["ETag"]
    assert (await put(client, link, {"y": 1}, **{"If-Match": tag}))[0] == 200
    async with client.get(link) as response:
        state, tag = await response.json(), response.headers["ETag"]
    again = await declare(options=[*LEVEL_3, "STRICT_UPDATE_CHECKING", "IDEMPOTENT_POST"])
    for version, status in ((None, 201), (None, 428), (3, 409), (0, 200)):
        body = {"documentSelfLink": "a"} | ({} if version is None else {"documentVersion": version})
        async with client.post(again, json=body) as response:
            assert response.status == status
    async with client.delete(link, headers={"If-Match": tag}) as response:
        assert response.status == 200
    assert (await put(client, link, state | {"documentVersion": 3}))[0] == 409
    assert (await put(client, link, {}, **{"If-None-Match": "*"}))[0] == 201


async def test_a_version_in_the_body_is_ignored_elsewhere(client: Client, factory: str) -> None:
    await put(client, f"{factory}/a", {})
    status, _ = await put(client, f"{factory}/a", {"documentVersion": 77})
    assert status == 200


LEVEL_3 = ["PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM"]


async def test_immutable_and_idempotent_factories_keep_their_options(
    client: Client, declare: Declare
) -> None:
    stone = await declare(options=[*LEVEL_3, "IMMUTABLE"])
    await put(client, f"{stone}/a", {})
    status, _ = await put(client, f"{stone}/a", {"x": 1})
    assert status == 409
    again = await declare(options=[*LEVEL_3, "IDEMPOTENT_POST"])
    for version, action, status in ((0, "POST", 201), (1, "PUT", 200)):
        async with client.post(again, json={"documentSelfLink": "a"}) as response:
            body = await response.json()
            assert response.status == status
            assert (body["documentVersion"], body["documentUpdateAction"]) == (version, action)


async def test_posts_with_one_idempotency_key_have_one_link(client: Client, factory: str) -> None:
    links = set()
    for _ in range(2):
        headers = {"Idempotency-Key": "k-1"}
        async with client.post(factory, json={"n": 1}, headers=headers) as response:
            if response.status == 201:
                links.add((await response.json())["documentSelfLink"])
    async with client.get(factory) as response:
        assert (await response.json())["documentLinks"] == list(links)


async def test_a_document_is_not_created_at_the_path_of_a_factory(
    client: Client, factory: str
) -> None:
    async with client.post("/core/factories", json={"path": f"{factory}/inner"}) as response:
        assert response.status == 201
    async with client.post(factory, json={"documentSelfLink": "inner"}) as response:
        assert "is a factory" in (await problem_of(response, 409))["detail"]
    async with client.get(factory) as response:
        assert (await response.json())["documentLinks"] == []


async def test_a_404_names_the_path_and_query_of_the_request(client: Client, factory: str) -> None:
    await put(client, f"{factory}/a", {})
    for query in ("documentVersion=9", "at=0"):
        async with client.get(f"{factory}/a?{query}") as response:
            problem = await problem_of(response, 404)
        assert problem["detail"] == f"there is nothing at {factory}/a?{query}"
        assert problem["instance"] == f"{factory}/a"


async def test_an_invalid_limit_is_named_as_in_the_request(client: Client, factory: str) -> None:
    for name in ("$limit", "$top"):
        async with client.get(factory, params={name: "0"}) as response:
            assert (await problem_of(response, 400))["detail"].startswith(f"{name} must be a whole")
