"""Queries that are refused: foreign cursors, malformed texts, impossible bodies."""

import asyncio
import base64
from collections.abc import Iterator

import aiohttp
import pytest

from docstore.client import Client
from docstore.client.local import LocalCluster
from docstore.query.cursors import pack_cursor, unpack_cursor
from tests.docstore.reads.scans.asking import Page, asked


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node with 40 documents."""

    async def load(cluster: LocalCluster) -> None:
        async with Client(cluster.urls) as store:
            await store.declare("/q")
            await store.declare("/moving")
            links = [f"/q/{number:05}" for number in range(40)]
            await store.bulk([{"op": "PUT", "link": link, "body": {"n": 1}} for link in links])

    with LocalCluster(1, tmp_path_factory.mktemp("one"), ["--slots", "4"]) as cluster:
        asyncio.run(load(cluster))
        yield cluster


async def test_cursors_of_others_and_forged_ones_are_refused(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    [url, *_] = cluster.urls
    _, page = await asked(http, url, "/q", **{"$filter": "n eq 1", "$limit": "10"})
    cursor = page["nextPageLink"].partition("cursor=")[2]
    at = len(cursor) // 2
    packed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    forged = [
        "", "abc", cursor[:-4], cursor + "AAAA", cursor[:at] + ("A" if cursor[at] != "A" else "B")
        + cursor[at + 1 :], base64.urlsafe_b64encode(packed[16:]).decode(), "é",
        pack_cursor("another group", {"path": "/q"}), "A" * 3000,
    ]  # fmt: skip
    for text in forged:
        for path in ("/q", "/core/query-tasks"):
            status, page = await asked(http, url, path, cursor=text)
            assert (status, page["errorCode"]) == (400, "malformed"), text
    group = (await asked(http, url, "/core/node-groups/default"))[1]["configuration"]["clusterId"]
    said = unpack_cursor(group, cursor)
    for wrong in (
        {"after": ["/q/00001"]}, {"after": [None, 0]}, {"after": "x"}, {"counted": "7"},
        {"said": {**said["said"], "limit": "x"}}, {"said": {**said["said"], "path": "/q/../x"}},
        {"said": {**said["said"], "asOf": 7}}, {"said": [1]}, {"more": 1},
    ):  # fmt: skip
        made = pack_cursor(group, {**said, **wrong})  # Packed as a node does it.
        assert (await asked(http, url, "/q", cursor=made))[0] == 400, wrong
    assert (await asked(http, url, "/moving", cursor=cursor))[0] == 400
    assert (await asked(http, url, "/q", cursor=cursor, **{"$limit": "5"}))[0] == 400
    assert (await asked(http, url, "/core/query-tasks", {"cursor": cursor, "limit": 5}))[0] == 400
    assert (await asked(http, url, "/core/query-tasks", {"cursor": cursor}))[0] == 200


@pytest.mark.parametrize(
    "query",
    [
        {"$filter": "' OR 1=1 --"}, {"$filter": "n/any(x: " + "x eq 1 or " * 200 + "x eq 1)"},
        {"$filter": "not " * 100 + "n eq 1"}, {"$filter": "(a+)+$"},
        {"$filter": "n eq 1", "$skip": "1"},
        {"$filter": "n eq 1", "$limit": "-1"}, {"$filter": "n eq 1", "$limit": "1000000000"},
        {"$filter": "n eq 1", "$top": "abc"}, {"$filter": "n eq 1", "after": "/q/1"},
        {"$orderby": "n sideways"}, {"$select": "a b"}, {"$filter": "n eq 1", "versions": "some"},
        {"$filter": "n eq 1", "asOf": "2999-01-01T00:00:00Z"},
        {"$filter": "n eq 1", "asOf": "~abc"}, {"$filter": "n eq 1", "asOf": ""}, {"asOf": ""},
    ],
)  # fmt: skip
async def test_a_query_that_does_not_parse_is_400(
    cluster: LocalCluster, http: aiohttp.ClientSession, query: dict[str, str]
) -> None:
    status, page = await asked(http, cluster.urls[0], "/q", **query)
    assert (status, page["outcome"]) == (400, "not_applied"), page


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"path": "/nowhere"}), (404, {"path": "/q/00001"}),
        (400, {}), (400, {"path": "/q/../q"}),
        (400, {"path": "/q", "else": 1}), (400, {"path": "/q", "where": "n eq"}),
        (400, {"path": "/q", "filter": 1}), (400, {"path": "/q", "limit": True}),
        (400, {"path": "/q", "expand": "yes"}), (400, {"path": "/q", "aggregates": "mean(n)"}),
        (400, {"path": "/q", "aggregates": "count(*)", "orderBy": "n"}),
        (400, {"path": "/q", "versions": ["all"]}), (404, {"path": "/q", "asOf": "no-such-name"}),
    ],
)  # fmt: skip
async def test_a_malformed_body_of_a_query_is_refused(
    cluster: LocalCluster, http: aiohttp.ClientSession, status: int, body: Page
) -> None:
    found, page = await asked(http, cluster.urls[0], "/core/query-tasks", body)
    assert found == status, page


async def test_a_query_of_a_member_outside_a_closed_schema_is_refused(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    schema = {"type": "object", "properties": {"n": {}}, "additionalProperties": False}
    async with Client(cluster.urls) as store:
        await store.declare("/closed", schema=schema)
        await store.put("/closed/a", {"n": 1})
    for query, status in (
        ({"$filter": "n eq 1 and documentVersion eq 0"}, 200),
        ({"$filter": "documentExpirationTimeMicros eq null"}, 200),
        ({"$filter": "n eq 1 or m eq 1"}, 400),
        ({"$orderby": "m/n"}, 400),
        ({"$orderby": "n/m"}, 200),
    ):  # fmt: skip
        found, page = await asked(http, cluster.urls[0], "/closed", **query)
        assert (found, page.get("documentLinks")) == (
            status,
            ["/closed/a"] if status == 200 else None,
        )


async def test_documents_in_no_log_are_not_queried(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    async with Client(cluster.urls) as store:
        await store.declare("/weak", options=["PERSISTENCE", "REPLICATION"])
    assert (await asked(http, cluster.urls[0], "/weak", **{"$filter": "n eq 1"}))[0] == 409
