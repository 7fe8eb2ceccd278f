"""`/core/changes` of a group with many slots: long tokens are taken, positions come often."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from docstore.client import Client, LocalCluster
from docstore.http.changes import _events
from docstore.query.cut import Cut, cut_of, unpack_cut
from docstore.reads.scans.feed import ChangePage
from tests.docstore.reads.events import events

SLOTS = 4096
PUSHED = {"Accept": "text/event-stream"}
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalCluster(1, settings=["--slots", str(SLOTS)]) as group:
        yield group.urls[0]


@pytest.fixture
async def store(url: str) -> AsyncIterator[Client]:
    async with Client([url]) as store:
        yield store


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=DEADLINE_S)) as session:
        yield session


@pytest.fixture
async def factory(store: Client, request: pytest.FixtureRequest) -> str:
    path = "/" + request.node.name.split("[")[0].replace("_", "-")
    await store.declare(path)
    return path


async def long_cut(store: Client) -> Cut:
    """Return where all slots stand, under epochs that make its token as long as tokens get."""
    cut = unpack_cut((await store.json("GET", "/core/spark/plan"))["cut"])
    dealt = random.Random(0)
    return Cut(cut.cluster, tuple((dealt.randrange(100_000), n) for _, n in cut.positions))


async def pushed(
    session: aiohttp.ClientSession, url: str, path: str, token: str, count: int = 1
) -> tuple[list[str], str]:
    """Resume a stream from a token; return the links up to a position after `count`, and that.

    Changes in two slots may come with a position between them.
    """
    links: list[str] = []
    headers = PUSHED | {"Last-Event-ID": token}
    async with session.get(f"{url}/core/changes?prefix={path}", headers=headers) as response:
        assert response.status == 200, await response.text()
        async for event in events(response):
            if event.get("event") == "position" and len(links) >= count:
                return links, event["id"]
            if event.get("event") == "change":
                links.append(json.loads(event["data"])["documentSelfLink"])
    raise AssertionError("the stream ended")


async def test_the_longest_tokens_are_taken_in_headers_and_urls(
    url: str, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    token = (await long_cut(store)).pack()
    assert len(token) > 9_044
    await store.put(f"{factory}/a", {})
    links, following = await pushed(session, url, factory, token)
    assert links == [f"{factory}/a"]
    asked = {"prefix": factory, "since": following}
    async with session.get(f"{url}/core/changes", params=asked | {"since": token}) as answer:
        assert answer.status == 200, await answer.text()
        change, ending = (await answer.read()).splitlines()
    assert json.loads(change)["documentSelfLink"] == links[0]
    assert unpack_cut(json.loads(ending)["next"]) == unpack_cut(following)


async def test_the_feed_of_one_document_has_a_short_token(
    url: str, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    link = f"{factory}/a"
    whole = (await long_cut(store)).pack()
    for version in range(3):
        await store.put(link, {"v": version})
        await store.put(f"{factory}/{version}", {})
    versions, token = [], "earliest"
    while len(versions) < 3:  # From the beginning, one at a time.
        asked = {"prefix": link, "since": token, "limit": 1}
        async with session.post(f"{url}/core/changes", json=asked) as answer:
            assert answer.status == 200, await answer.text()
            *changes, ending = map(json.loads, (await answer.read()).splitlines())
        versions += [each["body"]["v"] for each in changes]
        token = ending["next"]
        assert len(token) < 100
    assert versions == [0, 1, 2]
    await store.put(link, {"v": 3})
    assert (await pushed(session, url, link, token))[0] == [link]
    links, from_whole = await pushed(session, url, link, whole, 4)
    assert (links, len(from_whole) < 100) == ([link] * 4, True)
    asked = {"prefix": factory, "since": from_whole}  # It has no position in other slots.
    async with session.post(f"{url}/core/changes", json=asked) as answer:
        *changes, ending = map(json.loads, (await answer.read()).splitlines())
    assert {each["documentSelfLink"] for each in changes} == {f"{factory}/{n}" for n in range(3)}
    assert unpack_cut(ending["next"]).is_whole
    for place in (f"plan?asOf={token}", f"plan?asOf={token}&path={factory}"):
        async with session.get(f"{url}/core/spark/{place}") as answer:
            assert (answer.status, "one document" in await answer.text()) == (400, True)


async def test_a_feed_includes_a_factory_created_below_its_document(
    url: str, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    link = f"{factory}/a"
    await store.put(link, {})
    async with asyncio.timeout(DEADLINE_S):
        async for found in store.changes(link, since="earliest", wait_s=1):
            token = found.next
            break
    assert len(token) < 100
    await store.declare(f"{link}/deep/below")
    await store.put(f"{link}/deep/below/x", {})
    await store.put(link, {})
    links, following = await pushed(session, url, link, token, 2)
    assert sorted(links) == [link, f"{link}/deep/below/x"]
    assert unpack_cut(following).slots == SLOTS


async def test_a_document_without_a_log_has_no_feed(
    url: str, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    weak = f"{factory}-weak"
    await store.declare(weak, options=["PERSISTENCE", "REPLICATION"])
    async with session.get(f"{url}/core/changes?prefix={weak}/a") as answer:
        assert answer.status == 409, await answer.text()


async def test_a_stream_that_breaks_off_at_any_point_is_resumed_without_a_loss(
    url: str, store: Client, session: aiohttp.ClientSession, factory: str
) -> None:
    """A position comes before the first change, and after every 50 changes at the latest."""
    asked, pushed = f"{url}{factory}?watch", dict(PUSHED)
    async with session.get(asked, headers=pushed) as response:
        async for event in events(response):
            if "id" in event:
                break
    links = [f"{factory}/{number}" for number in range(120)]
    await asyncio.gather(*(store.put(link, {}) for link in links))
    seen: list[str] = []
    since_position = 0
    pushed["Last-Event-ID"] = event["id"]
    async with session.get(asked, headers=pushed) as response:
        async for event in events(response):
            if event.get("event") == "change":
                seen.append(json.loads(event["data"])["documentSelfLink"])
            since_position = 0 if "id" in event else since_position + 1
            assert since_position <= 50
            if len(seen) >= len(links) and "id" in event:
                break
    assert sorted(seen) == sorted(links)


def test_a_heartbeat_of_a_stream_has_the_position() -> None:
    """Changes that a condition left out are not read again after a reconnect."""
    cut = cut_of("c", 2, {0: (1, 7), 1: (1, 9)})
    assert f"\nid: {cut.pack()}\n\n" in _events(ChangePage(b"", 0, cut, 0)).decode()
