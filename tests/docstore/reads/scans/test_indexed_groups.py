"""Indexes of a group of real nodes: queries equal those of a program that has all documents."""

import asyncio
import base64
import random
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from docstore.client import Client
from docstore.client.errors import Unanswered
from docstore.client.local import LocalCluster
from tests.docstore.maintenance.backup.groups import restored_group
from tests.docstore.reads.scans.asking import asked
from tests.docstore.subscriptions.receiver import receiving
from tests.docstore.watching import metrics

SLOTS, COUNT = 64, 600
INDEXES = ["year", "year desc, title", "tags[*]", "o/city", "cast[*]/name"]
TITLES = ["Alien", "Aliens", "Brazil", "Solaris", "é", "😀", ""]

Documents = dict[str, dict[str, Any]]
Kept = Callable[[dict[str, Any]], bool]


def state(rng: random.Random) -> dict[str, Any]:
    return {
        "year": rng.choice([None, 1960, 1979, 1979.0, 1986, 2002, "1986"]),
        "title": rng.choice(TITLES), "tags": rng.sample(["a", "b", 1, 2], rng.randrange(4)),
        "o": {"city": rng.choice(["Rome", "Oslo"])} if rng.random() < 0.8 else {},
        "cast": [{"name": rng.choice("xyz")} for _ in range(rng.randrange(3))],
    }  # fmt: skip


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def questions(rng: random.Random) -> tuple[str, Kept]:
    """Return a filter, and the same condition in Python."""
    year, title = rng.choice([1960, 1979, 1986, 1990]), rng.choice(TITLES[:4])
    tag, name, city = rng.choice("ab"), rng.choice("xyz"), rng.choice(["Rome", "Oslo"])
    made: list[tuple[str, Kept]] = [
        (f"year eq {year}", lambda d: is_number(d["year"]) and d["year"] == year),
        (f"year gt {year}", lambda d: is_number(d["year"]) and d["year"] > year),
        (f"year eq {year} and startswith(title,'A')",
         lambda d: is_number(d["year"]) and d["year"] == year and d["title"].startswith("A")),
        ("year eq null", lambda d: d["year"] is None),
        (f"title in ('{title}','Brazil')", lambda d: d["title"] in (title, "Brazil")),
        (f"tags/any(t: t eq '{tag}')", lambda d: tag in d["tags"]),
        (f"cast/any(c: c/name eq '{name}')", lambda d: name in [c["name"] for c in d["cast"]]),
        (f"o/city eq '{city}' or o/city eq null", lambda d: d["o"].get("city", city) == city),
        (f"not (o/city eq '{city}')", lambda d: d["o"].get("city") != city),
    ]  # fmt: skip
    return rng.choice(made)


def rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    return (3, value) if is_number(value) else (4, value)


def in_order(found: list[str], documents: Documents, order: str) -> list[str]:
    """Return links in an order of questions."""
    found = sorted(found)
    if order == "year desc,title":
        found.sort(key=lambda link: rank(documents[link]["title"]))
        found.sort(key=lambda link: rank(documents[link]["year"]), reverse=True)
    if order == "year":
        found.sort(key=lambda link: rank(documents[link]["year"]))
    return found


class Group:
    """A group with documents, and the same documents here."""

    def __init__(self, cluster: LocalCluster, store: Client, http: aiohttp.ClientSession) -> None:
        self.cluster, self.store, self.http = cluster, store, http
        self.documents: Documents = {}
        self.rng = random.Random(7)
        self.used: dict[str, int] = {}

    async def put(self, links: list[str]) -> None:
        """Put some documents at once."""
        bodies = {link: state(self.rng) for link in links}
        left = dict(bodies)
        async with asyncio.timeout(60):
            while left:  # A node that has just been killed answers nothing, or in part.
                lines = [{"op": "PUT", "link": each, "body": left[each]} for each in sorted(left)]
                with suppress(Unanswered):
                    for line, result in zip(lines, await self.store.bulk(lines), strict=True):
                        if result["status"] in (200, 201):
                            del left[line["link"]]
        self.documents |= bodies

    async def query(self, url: str, **query: str) -> tuple[list[str], str]:
        """Return the links of all pages, and the index of the first one."""
        status, page = await asked(self.http, url, "/i", **query, **{"$explain": "true"})
        assert status == 200, page
        links, name = page["documentLinks"], page["explain"]["index"] or ""
        while "nextPageLink" in page:
            status, page = await asked(self.http, url, page["nextPageLink"])
            assert status == 200, page
            links += page["documentLinks"]
        return links, name

    async def check(self, count: int, **at: str) -> None:
        """Ask generated questions of any node, and compare."""
        documents = dict(self.documents)
        for _ in range(count):
            filter_, is_kept = questions(self.rng)
            order = self.rng.choice(["", "year", "year desc,title"])
            url = self.rng.choice([n.url for n in self.cluster.nodes if n.process is not None])
            query = {"$filter": filter_, "$limit": str(self.rng.choice([7, 100, 1000])), **at}
            query |= {"$orderby": order} if order else {}
            links, name = await self.query(url, **query)
            self.used[name] = self.used.get(name, 0) + 1
            kept = [link for link, document in documents.items() if is_kept(document)]
            assert links == in_order(kept, documents, order), (query, name)

    async def copy(self, links: list[str]) -> None:
        """Put some documents into /s, a factory without indexes."""
        lines = [
            {"op": "PUT", "link": f"/s/{link[3:]}", "body": self.documents[link]} for link in links
        ]
        assert {result["status"] for result in await self.store.bulk(lines)} <= {200, 201}

    async def counted(self, path: str, filter_: str) -> list[Any]:
        """Return `$count` of a factory, and its groups by a member."""
        url = self.rng.choice(self.cluster.urls)
        query = {"$filter": filter_, "$count": "true", "$limit": "1"}
        _, page = await asked(self.http, url, path, **query)
        body = {"path": path, "filter": filter_, "groupBy": "title",
                "aggregates": "count(*), min(year), max(title)"}  # fmt: skip
        _, grouped = await asked(self.http, url, "/core/query-tasks", body)
        return [page["documentCount"], grouped["groups"]]

    async def searched_pages(self) -> float:
        """Return the number of pages that scans have read; a search by an index reads none."""
        return sum(
            metrics(node).get("docstore_scan_pages_total", 0.0) for node in self.cluster.nodes
        )

    async def told_first(self, path: str, where: str, last: str) -> list[str]:
        """Return the links that a new subscription with a replay delivers before all changes.

        last: a document that fulfils the condition, whose next version ends the wait.
        """
        async with receiving() as receiver:
            body = {"callback": receiver.url, "where": where, "replayState": True}
            url = f"{self.rng.choice(self.cluster.urls)}{path}/subscriptions"
            async with self.http.post(url, json=body) as answer:
                made = await answer.json()
                assert answer.status == 201, made
            await self.store.put(f"{path}/{last[3:]}", self.documents[last])
            await receiver.until(
                lambda: receiver.calls and receiver.calls[-1]["type"] != "documents"
            )
            await self.store.delete(made["documentSelfLink"])
            calls = [call for call in receiver.calls if call["type"] == "documents"]
            return [each["documentSelfLink"][3:] for call in calls for each in call["changes"]]

    async def built(self) -> None:
        """Wait until a query of each node uses an index."""
        async with asyncio.timeout(60):
            for url in self.cluster.urls:
                while (await self.query(url, **{"$orderby": "year", "$limit": "1000"}))[
                    1
                ] != "year":
                    await asyncio.sleep(0.1)


@asynccontextmanager
async def group(directory: Path, indexes: list[str], *flags: str) -> AsyncIterator[Group]:
    with LocalCluster(3, directory, ["--slots", str(SLOTS), *flags]) as cluster:
        async with Client(cluster.urls) as store, aiohttp.ClientSession() as http:
            await store.declare("/i", indexes=indexes)
            made = Group(cluster, store, http)
            await made.put([f"/i/{number:04}" for number in range(COUNT)])
            yield made


@pytest.mark.thorough
async def test_queries_while_indexes_come_and_go_under_writers(
    tmp_path: Path,
) -> None:
    async with group(tmp_path, []) as nodes:
        await nodes.check(10)
        assert set(nodes.used) == {""}
        cut = (await nodes.store.json("GET", "/core/spark/plan"))["cut"]
        before = dict(nodes.documents)
        link = "/core/factories/i"
        await nodes.store.json("PATCH", link, {"indexes": INDEXES})
        await nodes.check(10)  # While they are built.
        await nodes.built()
        await nodes.check(40)
        assert len(nodes.used) > 3
        for _ in range(10):  # Each query follows a write that no index has yet.
            await nodes.put(nodes.rng.sample(sorted(nodes.documents), 40))
            await nodes.check(3)
        now, nodes.documents = nodes.documents, before
        await nodes.check(20, asOf=cut)
        nodes.documents = now
        await nodes.store.json("PATCH", link, {"indexes": ["year"]})
        await nodes.check(10)


@pytest.mark.thorough
async def test_queries_under_writers_while_an_owner_is_killed(tmp_path: Path) -> None:
    async with group(tmp_path, INDEXES) as nodes:
        await nodes.built()
        victim = nodes.cluster.nodes[0]
        for _ in range(2):
            nodes.cluster.kill(victim)
            for _ in range(4):  # The queries wait until other nodes own its slots.
                await nodes.put(nodes.rng.sample(sorted(nodes.documents), 20))
                await nodes.check(4)
            nodes.cluster.start(victim)
            nodes.cluster.wait_ready()
            await nodes.check(4)
        await nodes.built()
        await nodes.check(20)
        assert nodes.used.keys() > {"year", "tags[*]", "o/city"}


@pytest.mark.thorough
async def test_queries_after_slots_were_copied_anew(tmp_path: Path) -> None:
    async with group(tmp_path, INDEXES) as nodes:
        await nodes.built()
        victim = nodes.cluster.nodes[0]
        owned = [each for each in nodes.documents if nodes.cluster.owner_of(each) is victim]
        connection = sqlite3.connect(victim.data / "docstore.db")
        with connection:
            connection.execute("UPDATE history SET state = state || ' ' WHERE link GLOB '/i/*'")
        connection.close()
        await nodes.put(owned[:10])
        async with asyncio.timeout(60):
            while not metrics(victim).get("docstore_protocol_faulty_total"):
                await nodes.query(victim.url, **{"$expand": "true"})
        await nodes.put(nodes.rng.sample(sorted(nodes.documents), 40))
        await nodes.check(20)
        await nodes.built()
        await nodes.check(20)


@pytest.mark.thorough
async def test_queries_of_a_restored_group(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    async with group(tmp_path / "group", INDEXES) as nodes:
        await nodes.built()
        urls = ",".join(nodes.cluster.urls)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "docstore", "backup", "create", str(backups), "--url", urls
        )
        assert await process.wait() == 0
        documents = nodes.documents
    with restored_group(backups, tmp_path / "anew", 3, SLOTS) as cluster:
        async with Client(cluster.urls) as store, aiohttp.ClientSession() as http:
            nodes = Group(cluster, store, http)
            nodes.documents = documents
            await nodes.check(5)
            await nodes.put([f"/i/{number:04}" for number in range(COUNT, COUNT + 50)])
            await nodes.built()
            await nodes.check(20)


@pytest.mark.thorough
async def test_a_declared_index_is_used_and_gives_the_same_answers(tmp_path: Path) -> None:
    async with group(tmp_path, ["year", "tags[*]"]) as nodes:
        await nodes.built()
        await nodes.check(12)
        await nodes.put(sorted(nodes.documents)[:30])
        await nodes.check(6)
        assert "year" in nodes.used
        url = f"{nodes.cluster.urls[1]}/i"
        async with nodes.http.get(url, params={"$filter": "year eq 1979"}) as answer:
            assert answer.headers["Docstore-Query-Plan"] == "index"
        _, page = await asked(nodes.http, url, **{"$filter": "title eq 'x'", "$explain": "true"})
        assert page["explain"]["index"] is None
        assert page["explain"]["why"] == "no index is title"
        assert page["explain"]["looked"] == COUNT


@pytest.mark.thorough
async def test_counts_and_groups_by_an_index_are_those_of_a_scan(tmp_path: Path) -> None:
    async with group(tmp_path, INDEXES) as nodes:
        await nodes.store.declare("/s")
        await nodes.copy(sorted(nodes.documents))
        await nodes.built()
        rng, documents = random.Random(3), nodes.documents
        scanned = await nodes.searched_pages()
        filters = [questions(rng) for _ in range(12)]
        for filter_, is_kept in filters:
            if not filter_.startswith(("not", "title")):  # No index helps these.
                count, _ = await nodes.counted("/i", filter_)
                assert count == sum(map(is_kept, documents.values())), filter_
        assert await nodes.searched_pages() == scanned
        for filter_, _ in filters:  # Each follows a write that no index has yet.
            await nodes.put(some := rng.sample(sorted(documents), 20))
            await nodes.copy(some)
            by_index, by_scan = [await nodes.counted(path, filter_) for path in ("/i", "/s")]
            assert by_index == by_scan, filter_
        assert await nodes.searched_pages() > scanned


@pytest.mark.thorough
async def test_a_feed_starts_by_an_index_with_the_documents_of_a_scan(tmp_path: Path) -> None:
    keys = tmp_path / "callback.keys"
    keys.write_text(base64.b64encode(bytes(32)).decode())
    keys.chmod(0o600)
    flags = ("--callback-hosts", "http://127.0.0.1", "--callback-networks", "127.0.0.0/8",
             "--callback-key-file", str(keys))  # fmt: skip
    async with group(tmp_path, INDEXES, *flags) as nodes:
        await nodes.store.declare("/s")
        await nodes.copy(sorted(nodes.documents))
        await nodes.built()
        for _ in range(4):
            where, is_kept = questions(nodes.rng)
            kept = sorted(link for link, each in nodes.documents.items() if is_kept(each))
            by_index, by_scan = [
                await nodes.told_first(path, where, kept[0]) for path in ("/i", "/s")
            ]
            assert by_index == by_scan == [link[3:] for link in kept], where
            await nodes.put(some := nodes.rng.sample(sorted(nodes.documents), 20))
            await nodes.copy(some)
