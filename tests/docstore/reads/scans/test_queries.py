"""Queries of a group of real nodes: exact over all owners, during writes and kills."""

import asyncio
import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from docstore.client import Client, RequestFailed
from docstore.client.local import LocalCluster
from tests.docstore.reads.scans.asking import asked
from tests.docstore.watching import metrics, until

SLOTS, COUNT = 64, 10_001
WORDS = ["x", "xy", "y", "O'Neil", "*", None, 7, True]


def state(number: int) -> dict[str, Any]:
    rng = random.Random(number)
    return {
        "number": number, "counter": rng.randrange(20), "name": rng.choice(WORDS),
        "tags": rng.sample(["new", "old", 1, 2, 3], rng.randrange(4)),
        "address": {"city": rng.choice(["Rome", "Paris", "Oslo"])},
    }  # fmt: skip


def link(number: int) -> str:
    return f"/q/{number:05}"


STATES = {link(number): state(number) for number in range(COUNT)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes with 10,001 documents that no test changes."""
    directory = tmp_path_factory.mktemp("group")

    async def load(cluster: LocalCluster) -> None:
        async with Client(cluster.urls) as store:
            await store.declare("/q")
            await store.declare("/moving")
            lines = [{"op": "PUT", "link": link, "body": body} for link, body in STATES.items()]
            for first in range(0, COUNT, 2_000):
                results = await store.bulk(lines[first : first + 2_000])
                assert all(each["status"] == 201 for each in results)

    with LocalCluster(3, directory, ["--slots", str(SLOTS)]) as cluster:
        asyncio.run(load(cluster))
        yield cluster


async def walked(
    http: aiohttp.ClientSession, urls: list[str], path: str, **query: str
) -> list[str]:
    """Return the links of all pages, each page from another node."""
    status, page = await asked(http, urls[0], path, **query)
    assert status == 200, page
    links, turn = list(page["documentLinks"]), 0
    while "nextPageLink" in page:
        turn += 1
        status, page = await asked(http, urls[turn % len(urls)], page["nextPageLink"])
        assert status == 200, page
        links += page["documentLinks"]
    return links


Holds = Callable[[dict[str, Any]], bool]
FILTERS: dict[str, Holds] = {
    "counter ge 10 and name eq 'x*'": lambda d: d["counter"] >= 10 and d["name"] in ("x", "xy"),
    "name ne 'x'": lambda d: d["name"] != "x",
    "name eq null or address/city eq 'Oslo'": (
        lambda d: d["name"] is None or d["address"]["city"] == "Oslo"
    ),
    "not (counter lt 18) and (name eq 'O''Neil' or name eq '**')": (
        lambda d: d["counter"] >= 18 and d["name"] in ("O'Neil", "*")
    ),
    "tags/any(t: t eq 'new') and tags/any(t: t gt 1)": (
        lambda d: "new" in d["tags"] and bool({2, 3} & set(d["tags"]))
    ),
    "name eq true": lambda d: d["name"] is True,
    "startswith(documentSelfLink,'/q/099') and number gt 9950": (
        lambda d: 9950 < d["number"] < 10_000
    ),
    "documentSelfLink in ('/q/00007','/q/00008','/r/00009')": lambda d: d["number"] in (7, 8),
    "counter gt 99": lambda d: False,
}  # fmt: skip


# The first test: a slot in which a test has used a key keeps its versions for ten minutes.
async def test_history_trimmed_at_one_copy_is_read_from_another(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    async with Client(cluster.urls) as store:
        await store.declare("/gone")
        await trim_at_one(cluster, http, store, "/gone/a")


@pytest.mark.parametrize("text", FILTERS)
async def test_a_query_finds_the_same_as_brute_force(
    cluster: LocalCluster, http: aiohttp.ClientSession, text: str
) -> None:
    wanted = [link for link, body in STATES.items() if FILTERS[text](body)]
    query = {"$filter": text, "$count": "true", "$limit": "400"}
    assert await walked(http, cluster.urls, "/q", **query) == wanted
    for url in cluster.urls:
        assert (await asked(http, url, "/q", **query))[1]["documentCount"] == len(wanted)


async def test_the_order_is_total_over_all_owners(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    ranks = {type(None): 0, bool: 1, int: 2, str: 3}

    def key(link: str) -> tuple[Any, ...]:
        body = STATES[link]
        name = body["name"]
        return (-body["counter"], ranks[type(name)], name if isinstance(name, str) else "", link)

    wanted = sorted((link for link, body in STATES.items() if body["counter"] > 13), key=key)
    query = {"$filter": "counter gt 13", "$orderby": "counter desc,name"}
    assert await walked(http, cluster.urls, "/q", **{**query, "$limit": "700"}) == wanted
    status, page = await asked(http, cluster.urls[1], "/q", **{**query, "$top": "5"})
    assert (status, page["documentLinks"], "nextPageLink" in page) == (200, wanted[:5], False)
    top = await walked(http, cluster.urls, "/q", **{**query, "$top": "25", "$limit": "10"})
    assert top == wanted[:25]


async def test_more_hits_than_a_page_are_never_truncated_silently(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    status, page = await asked(http, cluster.urls[0], "/q", **{"$filter": "number ge 0"})
    assert (status, len(page["documentLinks"]), "nextPageLink" in page) == (200, 1000, True)
    links = await walked(http, cluster.urls, "/q", **{"$filter": "number ge 0"})
    assert links == list(STATES)


async def test_an_acknowledged_write_is_found_through_any_node(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    async with Client(cluster.urls[:1]) as store:
        for number in range(12):
            await store.put("/moving/mine", {"turn": number})
            query = {"$filter": f"turn eq {number}"}
            for url in cluster.urls:
                status, page = await asked(http, url, "/moving", **query)
                assert (status, page["documentLinks"]) == (200, ["/moving/mine"])
        await store.delete("/moving/mine")
        for url in cluster.urls:
            assert (await asked(http, url, "/moving", **query))[1]["documentLinks"] == []


@pytest.mark.parametrize("order", ["", "n desc"])
async def test_pages_show_one_moment_despite_concurrent_writes(
    cluster: LocalCluster, order: str
) -> None:
    stable = {f"/moving/s{number:03}": number for number in range(150)}
    done = asyncio.Event()

    async def write(store: Client, writer: int) -> None:
        """Make, change and delete documents that the query would find, and some that it finds."""
        turn = 0
        while not done.is_set():
            turn += 1
            await store.put(f"/moving/m{writer}{turn % 20:02}", {"n": turn, "kind": "hit"})
            await store.put(f"/moving/t{writer}{turn % 20:02}", {"n": turn % 7, "kind": "hit"})
            if turn % 3 == 0:
                await store.delete(f"/moving/m{writer}{turn % 20:02}")

    async with Client(cluster.urls) as store:
        lines = [{"op": "PUT", "link": link, "body": {"n": number % 11, "kind": "hit"}}
                 for link, number in stable.items()]  # fmt: skip
        await store.bulk(lines)
        writers = [asyncio.create_task(write(store, writer)) for writer in range(4)]
        try:
            for _ in range(3):
                query = store.query("/moving", filter="kind eq 'hit'", order_by=order, page=13)
                found = [document async for document in query]
                links = [document["documentSelfLink"] for document in found]
                assert len(set(links)) == len(links)
                assert [each for each in links if each in stable] == sorted(
                    stable, key=lambda each: (-(stable[each] % 11) if order else 0, each)
                )
                keys = [(-document["n"] if order else 0, document["documentSelfLink"])
                        for document in found]  # fmt: skip
                assert keys == sorted(keys)
        finally:
            done.set()
            await asyncio.gather(*writers)
        async for document in store.query("/moving", where="kind = 'hit'"):
            await store.delete(document["documentSelfLink"])
        assert [each async for each in store.query("/moving")] == []


async def test_members_are_selected_and_documents_are_those_of_a_get(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    query = {"$filter": "number in (3, 4)", "$select": "number,address/city,documentVersion"}
    _, page = await asked(http, cluster.urls[0], "/q", **query)
    assert page["documents"] == {
        link(number): {
            "number": number, "address": STATES[link(number)]["address"], "documentVersion": 0,
        }
        for number in (3, 4)
    }  # fmt: skip
    _, page = await asked(http, cluster.urls[0], "/q", **{"$filter": "number eq 3", "expand": ""})
    async with http.get(cluster.urls[1] + link(3)) as answer:
        assert page["documents"] == {link(3): await answer.json()}


async def test_aggregates_are_exact_and_group_documents_without_a_value(
    cluster: LocalCluster,
) -> None:
    async with Client(cluster.urls) as store:
        groups = await store.aggregate(
            "/q", "count(*) as hits, sum(cast(counter as bigint)) as total, avg(counter) as mean",
            group_by="name", filter="counter lt 15",
        )  # fmt: skip
        few = [body for body in STATES.values() if body["counter"] < 15]
        text = {None: None, 7: "7", True: "true"}
        wanted = {}
        for name in WORDS:
            counters = [body["counter"] for body in few
                        if body["name"] is name or body["name"] == name != 1]  # fmt: skip
            total = sum(counters)
            wanted[name if isinstance(name, str) else text[name]] = (  # type: ignore[index]
                len(counters), total, total / len(counters),
            )  # fmt: skip
        found = {each["name"]: (each["hits"], each["total"], each["mean"]) for each in groups}
        assert found == wanted
        assert [each["name"] for each in groups] == sorted(
            found, key=lambda n: (n is not None, n or "")
        )
        assert await store.aggregate("/q", "count(*)") == [{"count": COUNT}]
        assert await store.aggregate("/moving", "count(*), max(n)", where="n > 1e9") == [
            {"count": 0, "max(n)": None}
        ]
        with pytest.raises(RequestFailed, match="groups"):
            await store.aggregate("/q", "count(*)", group_by="number, counter")


async def test_groups_of_the_empty_text_and_of_none_come_before_other_texts(
    cluster: LocalCluster,
) -> None:
    async with Client(cluster.urls) as store:
        await store.declare("/texts")
        for number, body in enumerate(({"v": "b"}, {"v": ""}, {}, {"v": "a"}, {"v": ""})):
            await store.put(f"/texts/{number}", body)
        groups = await store.aggregate("/texts", "count(*) as hits", group_by="v")
        assert [(each["v"], each["hits"]) for each in groups] == [
            (None, 1), ("", 2), ("a", 1), ("b", 1),
        ]  # fmt: skip


async def test_a_query_finds_past_versions_and_deleted_documents(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    async with Client(cluster.urls) as store:
        first = await store.put("/moving/past", {"n": 1})
        await store.put("/moving/past", {"n": 2})
        await store.delete("/moving/past")
        body = {"path": "/moving", "filter": "documentSelfLink eq '/moving/past'"}
        everything = {**body, "versions": "all", "deleted": True, "expand": True, "limit": 2}
        _, page = await asked(http, cluster.urls[0], "/core/query-tasks", everything)
        assert page["documentLinks"] == [f"/moving/past?documentVersion={n}" for n in (0, 1)]
        assert page["documents"]["/moving/past?documentVersion=1"]["n"] == 2
        _, page = await asked(http, cluster.urls[1], page["nextPageLink"])
        assert page["documentLinks"] == ["/moving/past?documentVersion=2"]
        at = {**body, "asOf": str(first.value["documentUpdateTimeMicros"]), "expand": True}
        _, page = await asked(http, cluster.urls[2], "/core/query-tasks", at)
        assert [each["n"] for each in page["documents"].values()] == [1]
        _, page = await asked(
            http, cluster.urls[2], "/core/query-tasks", {**body, "asOf": "barrier"}
        )
        assert page == {"documentLinks": []}


async def test_a_page_ends_before_it_gets_too_large(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    async with Client(cluster.urls) as store:
        await store.declare("/large")
        links = [f"/large/{number:02}" for number in range(26)]
        for each in links:
            await store.put(each, {"text": "x" * 900_000})
        async with http.get(f"{cluster.urls[0]}/large?$orderby=text&expand") as answer:
            content = await answer.read()
        page = json.loads(content)
        assert page["documentLinks"] == links[: len(page["documents"])]
        assert "nextPageLink" in page
        assert len(content) < 17 << 20
        found = [each["documentSelfLink"] async for each in store.query("/large", order_by="text")]
        assert found == links


async def test_a_walk_continues_when_an_owner_is_killed_between_pages(tmp_path: Path) -> None:
    wanted = [f"/f/{number:03}" for number in range(300)]
    with LocalCluster(3, tmp_path, ["--slots", str(SLOTS)]) as cluster:
        async with Client(cluster.urls) as store, aiohttp.ClientSession() as http:
            await store.declare("/f")
            await store.bulk([{"op": "PUT", "link": link, "body": {"n": 1}} for link in wanted])
            for order in ("", "n"):
                query = store.query("/f", filter="n eq 1", order_by=order, page=20)
                links: list[str] = []
                async for document in query:
                    links.append(document.link)
                    if len(links) == 50 and not order:
                        owner = await asyncio.to_thread(cluster.owner_of, wanted[100])
                        await asyncio.to_thread(cluster.kill, owner)
                        await store.put(wanted[200], {"n": 2})
                        await store.put("/f/new", {"n": 1})
                assert links == (wanted if not order else sorted([*wanted, "/f/new"]))
                await store.put(wanted[200], {"n": 1})
            _, page = await asked(
                http, survivors(cluster)[0], "/f", **{"$filter": "n eq 1", "$limit": "5"}
            )
            await asyncio.to_thread(cluster.kill, next(n for n in cluster.nodes if n.process))
            status, page = await asked(http, survivors(cluster)[0], "/f", **{"$filter": "n eq 1"})
            assert (status, page["outcome"]) == (503, "not_applied")


def survivors(cluster: LocalCluster) -> list[str]:
    return [node.url for node in cluster.nodes if node.process is not None]


async def test_a_query_reads_another_copy_when_one_is_damaged(tmp_path: Path) -> None:
    links = [f"/f/{number:02}" for number in range(40)]
    with LocalCluster(3, tmp_path, ["--slots", "4"]) as cluster:
        async with Client(cluster.urls) as store:
            await store.declare("/f")
            await store.bulk([{"op": "PUT", "link": link, "body": {"n": 1, "text": "precious"}}
                              for link in links])  # fmt: skip
        cluster.stop()  # So that the rows are in the file, and nowhere else.
        with cluster:
            await asyncio.to_thread(until, lambda: owns_some(cluster, links), 30.0)
            with sqlite3.connect(cluster.nodes[0].data / "docstore.db") as disk:
                disk.execute(
                    "UPDATE history SET state = replace(state, 'precious', 'precioux')"
                    " WHERE link GLOB '/f/*'"
                )
            disk.close()
            async with Client(cluster.urls) as store:
                found = [each async for each in store.query("/f", filter="n eq 1", page=7)]
            assert metrics(cluster.nodes[0])["docstore_protocol_faulty_total"] > 0
    assert [each["documentSelfLink"] for each in found] == links
    assert {each["text"] for each in found} == {"precious"}


def owns_some(cluster: LocalCluster, links: list[str]) -> bool:
    """Say whether the first node owns one of these documents."""
    return any(cluster.owner_of(link) is cluster.nodes[0] for link in links[:10])


async def trim_at_one(
    cluster: LocalCluster, http: aiohttp.ClientSession, store: Client, link: str
) -> None:
    for n in range(3):  # A version under a key stays for ten minutes.
        last = await store.put(link, {"n": n}, key="")
    cut = (await store.json("GET", "/core/spark/plan"))["cut"]
    for n in range(3, 6):
        last = await store.put(link, {"n": n}, key="")
    owner = (await store.json("GET", f"{link}/explain"))["owner"]
    urls = {await node_at(http, url): url for url in cluster.urls}
    last_us = last.value["documentUpdateTimeMicros"]
    old = f"{link}?documentVersion=3"  # Up to the last but one, only that one stays.
    stale = {"Docstore-Consistency": "stale"}
    is_gone: set[str] = set()
    async with asyncio.timeout(180):
        while not is_gone:  # One of four nodes has no copy, and asks the others.
            for name, url in sorted(urls.items(), key=lambda each: each[0] != owner):
                # The owner tells the others how far all copies are, and trims no version.
                before = {"kind": "CompactRequest", "beforeMicros": 1 if name == owner else last_us}
                async with http.patch(f"{url}/core/management", json=before) as answer:
                    assert answer.status == 202
                async with http.get(f"{url}{old}", headers=stale) as answer:
                    is_gone |= {name} if answer.status == 410 else set()
    for url in cluster.urls:
        for since in (cut, "earliest"):
            asked = {"prefix": "/gone", "since": since}
            async with http.post(f"{url}/core/changes", json=asked) as answer:
                assert answer.status == 200, await answer.text()
                *changes, _ = map(json.loads, (await answer.read()).splitlines())
            versions = [each["documentVersion"] for each in changes]
            assert versions == list(range(3 if since == cut else 0, 6))


async def node_at(http: aiohttp.ClientSession, url: str) -> str:
    async with http.get(f"{url}/core/management") as answer:
        return str((await answer.json())["id"])
