"""Scanning processes read the node's file: they are asked only for rows that it has."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from docstore.model.operation import Operation
from docstore.model.slots import slot_of
from docstore.query.cut import Cut
from docstore.reads.scans import scanner
from docstore.reads.scans.feed import ChangeFilter, Feed
from docstore.reads.scans.scanner import Scans
from docstore.runtime.driver import Driver
from docstore.runtime.links.rpc import Rpc
from docstore.storage.store import UNBOUNDED
from tests.docstore.alone import LINK, SLOTS, SmallDisk, alone, unlinked

SLOT = slot_of(LINK, SLOTS)


class SlowFile(SmallDisk):
    """A store whose file lacks rows until it was hurried often enough."""

    def __init__(self) -> None:
        super().__init__()
        self.lacks: dict[int, int] = {}
        self.hurries = 0
        self.follows_after = UNBOUNDED

    def behind(self, slots: Iterable[int]) -> dict[int, int]:
        return {slot: self.lacks[slot] for slot in slots if slot in self.lacks}

    def hurry(self) -> None:
        self.hurries += 1
        if self.hurries >= self.follows_after:
            self.lacks.clear()


class Node:
    """A group of one node, which has one version of one document, decided and durable."""

    def __init__(self, store: SlowFile, driver: Driver, scans: Scans, rpc: Rpc) -> None:
        self.store, self.driver, self.scans, self.rpc = store, driver, scans, rpc
        self.end = driver.view.readable_until(SLOT)


@asynccontextmanager
async def node_in(directory: Path) -> AsyncIterator[Node]:
    store = SlowFile()
    driver, _ = await alone(store)
    rpc = Rpc("n1", unlinked())
    scans = Scans(driver, store, rpc, directory / "db", 1 << 20)
    try:
        put = Operation(verb="PUT", link=LINK, body=b'{"name": "a"}', creates=True)
        assert (await driver.submit(put, 5.0)).status == 201
        await driver.stored()
        yield Node(store, driver, scans, rpc)
    finally:
        await scans.stop()
        await driver.stop()


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with node_in(tmp_path) as node:
        yield node


async def test_a_scan_waits_until_the_file_has_its_cut(node: Node) -> None:
    assert await node.scans.arrived([(SLOT, node.end)], 0.0) == ([], [])
    assert node.store.hurries == 0
    node.store.lacks[SLOT] = node.end
    node.store.follows_after = 3
    assert await node.scans.arrived([(SLOT, node.end)], 0.0) == ([], [])
    assert (node.store.hurries, node.store.lacks) == (3, {})


async def test_a_scan_of_stored_rows_does_not_wait_for_later_ones(node: Node) -> None:
    node.store.lacks[SLOT] = node.end + 1
    assert await node.scans.arrived([(SLOT, node.end)], 0.0) == ([], [])
    assert node.store.hurries == 0


async def test_a_file_that_never_catches_up_is_reported_late(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "FOLLOW_S", 0.05)
    node.store.lacks[SLOT] = 0
    assert await node.scans.arrived([(SLOT, node.end)], 0.0) == ([], [SLOT])


async def test_a_feed_shows_stored_rows_and_hurries_the_file(node: Node) -> None:
    asked: list[Any] = []

    async def pages(question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        asked.extend(question["ranges"])
        return {"next": None, "rows": 0}, b""

    shown, batch_end = node.scans.shown, node.scans.batch_end
    feed = Feed(node.driver.view, node.rpc, pages, shown, batch_end, Random(1))
    since = Cut("c", ((0, 0),), SLOT, SLOTS)
    node.store.lacks[SLOT] = node.end
    before = feed.seen()
    await feed.read(ChangeFilter(["/"]), since, 9)
    assert node.store.hurries > 0
    assert (SLOT, 0, node.end) not in asked
    hurries, node.store.follows_after = node.store.hurries, 0
    async with asyncio.timeout(5):
        await feed.news(before, 5.0)
    assert node.store.hurries > hurries
    await feed.read(ChangeFilter(["/"]), since, 9)
    assert asked[-1] == (SLOT, 0, node.end)


async def test_a_feed_finds_the_links_that_changed(node: Node) -> None:
    asked: list[Any] = []

    async def pages(question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        asked.append(question["ranges"])
        return {"next": None, "rows": 1}, b'{"documentSelfLink":"%b"}\n' % LINK.encode()

    until, batch_end = node.driver.view.readable_until, node.scans.batch_end
    feed = Feed(node.driver.view, node.rpc, pages, until, batch_end, Random(1))
    looked: dict[int, int] = {}
    assert await feed.touched(looked) is None, "nothing is known before the first look"
    assert looked[SLOT] == node.end
    assert await feed.touched(looked) == set()
    assert asked == [], "no process is asked without new rows"
    put = Operation(verb="PUT", link=LINK, body=b'{"name": "b"}')
    assert (await node.driver.submit(put, 5.0)).status == 200
    assert await feed.touched(looked) == {LINK}
    assert asked == [[(SLOT, node.end, node.end + 1)]]
    del looked[SLOT]
    assert await feed.touched(looked) is None, "a slot that has come may have anything"
