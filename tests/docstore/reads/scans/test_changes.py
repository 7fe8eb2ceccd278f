"""`/core/changes` of real nodes: through any node each change comes once.

Four nodes with three copies of each slot: every node has to ask others for some of them.
"""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from tests.docstore.reads.events import events
from tests.docstore.watching import start_all

SETTINGS = ["--replication-factor", "3", "--slots", "64", "--history-retention-s", "3600"]
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalCluster]:
    with LocalCluster(4, settings=SETTINGS) as group:
        yield group


@pytest.fixture
def group(nodes: LocalCluster) -> LocalCluster:
    """Return the nodes once all four serve again."""
    start_all(nodes)
    return nodes


@pytest.fixture
async def factory(store: Client, request: pytest.FixtureRequest) -> str:
    path = "/" + request.node.name.translate(str.maketrans("_[", "--", "]"))
    await store.declare(path)
    return path


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=DEADLINE_S)) as session:
        yield session


class Reader:
    """Follows a factory by its token, through one node after the other."""

    def __init__(self, session: aiohttp.ClientSession, urls: list[str], path: str) -> None:
        self._session = session
        self._urls = urls
        self._asked = 0
        self.asked: dict[str, Any] = {"prefix": path, "since": "latest"}
        self.changes: list[dict[str, Any]] = []

    async def go_on(self, wait_s: int = 0, **asked: Any) -> list[dict[str, Any]]:
        """Return the next changes."""
        self._asked += 1
        url = self._urls[self._asked % len(self._urls)]
        headers = {"Prefer": f"wait={wait_s}"} if wait_s else {}
        body = self.asked | asked
        async with self._session.post(f"{url}/core/changes", json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            *changes, ending = [json.loads(line) for line in (await answer.read()).splitlines()]
        assert ending["complete"]
        assert ending["rows"] == len(changes)
        self.asked["since"] = ending["next"]
        self.changes += changes
        return changes

    async def until(self, count: int) -> list[dict[str, Any]]:
        """Read on until `count` changes have come."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.changes) < count:
                await self.go_on(wait_s=5)
        return self.changes


def by_link(changes: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Return link -> versions, as they came."""
    found: dict[str, list[int]] = defaultdict(list)
    for each in changes:
        found[each["documentSelfLink"]].append(each["documentVersion"])
    return found


# The first test: a slot in which a test has used a key keeps its versions for ten minutes.
async def test_a_feed_over_compacted_history_is_410_and_skips_no_change(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    cut = (await store.json("GET", "/core/spark/plan"))["cut"]
    for n in range(3):  # A version under a key stays for ten minutes.
        last = await store.put(f"{factory}/a", {"n": n}, key="")
    before = {"kind": "CompactRequest", "beforeMicros": last.value["documentUpdateTimeMicros"]}
    statuses = set()
    async with asyncio.timeout(3 * DEADLINE_S):
        while statuses != {410}:
            for url in group.urls:
                async with session.patch(f"{url}/core/management", json=before) as answer:
                    assert answer.status == 202
            statuses = set()
            for url in group.urls:
                asked = {"prefix": factory, "since": cut}
                async with session.post(f"{url}/core/changes", json=asked) as answer:
                    statuses.add(answer.status)
                    assert answer.status in (200, 410)
                    if answer.status == 200:
                        *changes, _ = map(json.loads, (await answer.read()).splitlines())
                        versions = [each["documentVersion"] for each in changes]
                        assert versions == list(range(len(changes)))


@pytest.mark.parametrize("limit", [1, 50, 10_000])
async def test_a_reader_misses_no_change_through_any_node(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, factory: str, limit: int
) -> None:
    reader = Reader(session, group.urls, factory)
    reader.asked["limit"] = limit
    await reader.go_on()

    async def write() -> None:
        for version in range(6):
            lines = [{"link": f"{factory}/{limit}-{n}", "body": {"v": version}} for n in range(40)]
            assert {each["status"] for each in await store.bulk(lines)} <= {200, 201}

    writing = asyncio.create_task(write())
    changes = await reader.until(240)
    await writing
    assert by_link(changes) == {f"{factory}/{limit}-{n}": list(range(6)) for n in range(40)}
    assert all(each["body"] == {"v": each["documentVersion"]} for each in changes)
    assert await reader.go_on() == []


async def test_deletions_and_conditions_and_paths(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    await store.declare(f"{factory}/below")
    below = Reader(session, group.urls, f"{factory}/below")
    large = Reader(session, group.urls, factory)
    everything = Reader(session, group.urls, "")
    for reader in (below, large, everything):
        await reader.go_on()
    large.asked["where"] = "n >= 2"
    for n in range(4):
        await store.put(f"{factory}/{n}", {"n": n})
    await store.put(f"{factory}/below/x", {"n": 1})
    await store.delete(f"{factory}/1")
    assert by_link(await below.until(1)) == {f"{factory}/below/x": [0]}
    assert by_link(await large.until(2)) == {f"{factory}/2": [0], f"{factory}/3": [0]}
    seen = await everything.until(6)
    (gone,) = [each for each in seen if each["deleted"]]
    assert (gone["documentSelfLink"], gone["body"]) == (f"{factory}/1", None)
    assert by_link(seen)[f"{factory}/1"] == [0, 1]


async def test_from_the_beginning_from_a_snapshot_and_from_a_time(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    await store.put(f"{factory}/a", {"n": 1})
    cut = (await store.json("GET", "/core/spark/plan"))["cut"]
    second = await store.put(f"{factory}/a", {"n": 2})
    micros = second.value["documentUpdateTimeMicros"]
    await store.json("PUT", f"/core/snapshots/{factory[1:]}", {"cut": cut})
    for nonsense in ({}, {"cut": 5}, {"cut": "x"}, {"cut": cut[:-4]}):
        with pytest.raises(RequestFailed, match="400"):
            await store.json("PUT", f"/core/snapshots/{factory[1:]}-x", nonsense)
    wanted = {"earliest": [0, 1], cut: [1], factory[1:]: [1], str(micros - 1): [1], "latest": []}
    for since, versions in wanted.items():
        reader = Reader(session, group.urls, factory)
        reader.asked["since"] = since
        found = by_link(await reader.until(len(versions)))
        assert found.get(f"{factory}/a", []) == versions, since
    await store.delete(
        f"/core/snapshots/{factory[1:]}"
    )  # The history that it holds would not be trimmed.


async def test_a_change_ends_a_wait_and_so_does_time(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    reader = Reader(session, group.urls, factory)
    await reader.go_on()
    assert await reader.go_on(wait_s=1) == []
    waiting = asyncio.create_task(reader.go_on(wait_s=60))
    await store.put(f"{factory}/a", {})
    async with asyncio.timeout(30):
        (change,) = await waiting
    assert change["documentSelfLink"] == f"{factory}/a"


@pytest.mark.parametrize(
    ("form", "pushed"),
    [("/core/changes?prefix={}", {"Accept": "text/event-stream"}), ("{}?watch", {})],
    ids=["changes", "watch"],
)
async def test_events_are_pushed_and_taken_up_again(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, factory: str,
    form: str, pushed: dict[str, str],
) -> None:  # fmt: skip
    asked = form.format(factory)
    token, seen = "", []
    for turn in range(2):  # Once from the beginning, once where the first stream ended.
        headers = pushed | ({"Last-Event-ID": token} if token else {})
        async with session.get(group.urls[turn] + asked, headers=headers) as response:
            assert response.status == 200
            assert response.content_type == "text/event-stream"
            written = asyncio.create_task(store.put(f"{factory}/{turn}", {"turn": turn}))
            async for event in events(response):
                if event.get("event") == "change":
                    seen.append(json.loads(event["data"])["documentSelfLink"])
                if event.get("event") == "position":
                    token = event["id"]
                    break
            await written
        await store.put(f"{factory}/between-{turn}", {})
    reader = Reader(session, group.urls, factory)
    reader.asked["since"] = token
    rest = by_link(await reader.until(4 - len(seen)))
    assert seen[0] == f"{factory}/0"
    assert sorted([*seen, *rest]) == sorted(
        [f"{factory}/{name}" for name in ("0", "1", "between-0", "between-1")]
    )


async def test_a_client_whose_first_answer_is_lost_misses_no_change(
    store: Client, factory: str
) -> None:
    """The feed sends its position before it waits."""
    async with asyncio.timeout(DEADLINE_S):
        found = await anext(aiter(store.changes(factory, wait_s=300)))
    assert (found.changes, found.next[:1]) == ([], "~")


async def test_a_document_is_at_its_own_path(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    reader = Reader(session, group.urls, f"{factory}/a")
    await reader.go_on()
    for name in ("a", "ab", "b", "a"):
        await store.put(f"{factory}/{name}", {})
    assert by_link(await reader.until(2)) == {f"{factory}/a": [0, 1]}


async def test_the_client_follows(group: LocalCluster, store: Client, factory: str) -> None:
    seen: list[int] = []
    async with asyncio.timeout(DEADLINE_S):
        async for found in store.changes(factory, wait_s=1):
            seen += [each["body"]["n"] for each in found.changes]
            if len(seen) == 3:
                break
            await store.put(f"{factory}/a", {"n": len(seen)})
    assert seen == [0, 1, 2]
    async for found in store.changes(factory, since="earliest"):
        assert [each["body"]["n"] for each in found.changes] == [0, 1, 2][: len(found.changes)]
        break


async def test_the_watch_command_prints_existing_documents(
    group: LocalCluster, store: Client, factory: str
) -> None:
    for n in range(3):
        await store.put(f"{factory}/{n}", {"n": n})
    asked = ["watch", factory, "--since", "earliest", "--where", "n > 0", "--once"]
    command = [sys.executable, "-m", "docstore", *asked, "--url", group.urls[0]]
    done = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await done.communicate()
    assert done.returncode == 0
    links = sorted(json.loads(line)["documentSelfLink"] for line in out.splitlines())
    assert links == [f"{factory}/1", f"{factory}/2"]


async def test_a_document_is_watched_on_a_condition(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    asked = {"watch": "", "where": "n > 1", "since": "earliest"}
    async with session.get(f"{group.urls[0]}{factory}/a", params=asked) as response:
        for n in range(4):
            await store.put(f"{factory}/a", {"n": n})
            await store.put(f"{factory}/b", {"n": n})
        seen: list[tuple[str, int]] = []
        async for event in events(response):
            if event.get("event") == "change":
                change = json.loads(event["data"])
                seen.append((change["event"], change["body"]["n"]))
            if len(seen) == 2:
                break
    assert seen == [("enter", 2), ("update", 3)]


async def test_a_feed_with_a_condition_has_leave_events(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    """Replayed, it is the set of matching documents."""
    reader = Reader(session, group.urls, factory)
    reader.asked |= {"where": "n > 1", "before": True}
    await reader.go_on()
    for n in (1, 2, 3, 0, 5):
        await store.put(f"{factory}/a", {"n": n})
    await store.put(f"{factory}/b", {"n": 4})
    await store.delete(f"{factory}/b")
    await store.put(f"{factory}/never", {"n": 0})
    await store.delete(f"{factory}/never")
    changes = await reader.until(6)
    a = [each for each in changes if each["documentSelfLink"] == f"{factory}/a"]
    b = [each for each in changes if each["documentSelfLink"] == f"{factory}/b"]
    assert [(each["event"], each["body"]["n"], each["before"]) for each in a] == [
        ("enter", 2, {"n": 1}),
        ("update", 3, {"n": 2}),
        ("leave", 0, {"n": 3}),
        ("enter", 5, {"n": 0}),
    ]
    assert [(each["event"], each["body"], each["before"]) for each in b] == [
        ("enter", {"n": 4}, None),
        ("leave", None, {"n": 4}),
    ]
    assert await reader.go_on() == []


async def test_one_feed_of_several_paths(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    for name in "xyz":
        await store.declare(f"{factory}{name}")
    reader = Reader(session, group.urls, "")
    reader.asked["prefix"] = [f"{factory}x", f"{factory}z/1"]
    await reader.go_on()
    for name in "xyz":
        for n in range(2):
            await store.put(f"{factory}{name}/{n}", {"n": n})
    wanted = {f"{factory}x/0": [0], f"{factory}x/1": [0], f"{factory}z/1": [0]}
    assert by_link(await reader.until(3)) == wanted
    asked = {"prefix": [f"{factory}x", f"{factory}y"], "since": "earliest"}
    query = "&".join(f"prefix={each}" for each in asked["prefix"])
    async with session.get(f"{group.urls[0]}/core/changes?since=earliest&{query}") as answer:
        assert len((await answer.read()).splitlines()) == 5


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"since": "yesterday"}, 404), ({"since": ""}, 400),
        ({"since": "~onsense"}, 400),
        ({"since": 7}, 400), ({"since": "2999-01-01T00:00:00Z"}, 400),
        ({"where": "n ="}, 400),
        ({"limit": 0}, 400),
        ({"limit": 10_001}, 400),
        ({"limit": True}, 400),
        ({"prefix": "films"}, 400),
        ({"prefix": []}, 400),
        ({"prefix": ["/a", 1]}, 400),
        ({"prefix": [f"/a{n}" for n in range(65)]}, 400),
        ({"before": 1}, 400),
        ({"sinse": "latest"}, 400),
        ({"prefix": "/weak"}, 409),
    ],
)  # fmt: skip
async def test_a_malformed_request_for_changes_is_refused(
    group: LocalCluster, store: Client, session: aiohttp.ClientSession, asked: Any, status: int
) -> None:
    await store.declare("/weak", options=["PERSISTENCE", "REPLICATION"])
    async with session.post(f"{group.urls[0]}/core/changes", json=asked) as answer:
        assert answer.status == status, await answer.text()
        assert answer.content_type == "application/problem+json"
    async with session.put(f"{group.urls[0]}/core/changes") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, OPTIONS, POST")


async def test_a_feed_continues_at_other_nodes_when_one_is_killed(
    group: LocalCluster, session: aiohttp.ClientSession, factory: str
) -> None:
    """Acknowledged changes are seen once, through the nodes that are left."""
    async with Client(group.urls[1:]) as store:
        reader = Reader(session, group.urls[1:], factory)
        await reader.go_on()
        written: set[str] = set()
        for n in range(120):
            if n == 40:
                group.kill(group.nodes[0])
            lines = [{"link": f"{factory}/{n}", "body": {"n": n}}]
            (answer,) = await store.bulk(lines)
            if answer["status"] == 201:
                written.add(f"{factory}/{n}")
        assert len(written) > 40
        async with asyncio.timeout(DEADLINE_S):
            while not written <= set(by_link(reader.changes)):
                await reader.go_on(wait_s=1)
        assert set(map(tuple, by_link(reader.changes).values())) == {(0,)}


async def test_a_feed_without_a_majority_is_refused(
    group: LocalCluster, session: aiohttp.ClientSession, factory: str
) -> None:
    asked = f"{group.urls[0]}/core/changes?prefix={factory}"
    patience = {"Docstore-Timeout-Ms": "1500"}
    streaming = {"Accept": "text/event-stream", **patience}
    async with session.get(asked, headers=streaming) as response:
        for node in group.nodes[1:]:
            group.kill(node)
        async with asyncio.timeout(DEADLINE_S):
            (problem,) = [e async for e in events(response) if e.get("event") == "problem"]
    assert json.loads(problem["data"])["status"] == 503
    async with session.get(asked, headers=patience) as answer:
        assert (answer.status, answer.content_type) == (503, "application/problem+json")


async def test_a_stopping_node_ends_its_feeds(session: aiohttp.ClientSession) -> None:
    with LocalCluster(1) as group:
        async with Client(group.urls) as store:
            await store.declare("/kept")
        url = f"{group.urls[0]}/core/changes?prefix=/kept"
        async with session.get(url, headers={"Accept": "text/event-stream"}) as response:
            async with session.delete(f"{group.urls[0]}/core/management") as answer:
                assert answer.status == 202
            async with asyncio.timeout(10):
                await response.read()


async def test_a_client_that_reads_no_events_is_disconnected_and_resumes_from_its_token(
    session: aiohttp.ClientSession,
) -> None:
    """Such a client made the node keep changes in memory until its connection ended."""
    body = {"filling": "a" * 500_000}
    with LocalCluster(1, settings=["--send-timeout-s", "1"]) as group:
        async with Client(group.urls) as store:
            await store.declare("/slow")
            await store.put("/slow/first", {})
            asked = f"{group.urls[0]}/core/changes?prefix=/slow&since=earliest"
            async with session.get(asked, headers={"Accept": "text/event-stream"}) as response:
                async for event in events(response):
                    if event.get("event") == "position":
                        break
                for number in range(80):
                    await store.put(f"/slow/{number}", body)
                async with asyncio.timeout(DEADLINE_S):
                    while "send_timeouts_total 1" not in await _metrics(store):
                        await asyncio.sleep(0.05)
        reader = Reader(session, group.urls, "/slow")
        reader.asked["since"] = event["id"]
        rest = by_link(await reader.until(80))
    assert rest == {f"/slow/{number}": [0] for number in range(80)}


async def _metrics(store: Client) -> str:
    _, _, text = await store.request("GET", "/metrics")
    return text.decode()
