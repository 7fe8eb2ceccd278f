"""Slots leave this node while a service reads its disk: then what is missing is missing here alone.

The protocol's own reads of this kind are in protocol/test_leaving.py.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from docstore.documents.membership import reconfigure
from docstore.documents.replica import Replica
from docstore.errors import Unavailable
from docstore.maintenance.upkeep import resync
from docstore.model.operation import Operation
from docstore.model.slots import slot_of
from docstore.ownership.configuration import Configuration, MemberEntry
from docstore.reads.local import read_here
from docstore.reads.scans.indexing import Indexing
from docstore.reads.scans.pool import Answer, ScanPool
from docstore.reads.scans.scanner import Scans
from docstore.reads.scans.searches import Searches
from docstore.runtime.driver import Driver
from docstore.runtime.links.rpc import Rpc
from docstore.services.registry import Registry
from docstore.storage.store import Erase, Query, Result
from docstore.wire.requests import FindDocuments, TotalDocuments
from tests.docstore.alone import LINK, SLOTS, SmallDisk, alone, unlinked


class ReadTooLate(SmallDisk):
    """A store that runs a function, and loses all rows, before each read."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] | None = None

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        if self.before is not None:
            self.before()
            self.keep([Erase(slot) for slot in range(SLOTS)])
        return await super().read(queries)


class Node:
    """A group of one node, which holds one version of one document."""

    def __init__(self, store: ReadTooLate, driver: Driver, replica: Replica) -> None:
        self.store, self.driver, self.replica = store, driver, replica
        self.rpc = Rpc("n1", unlinked())
        self.log = replica.core.logs[slot_of(LINK, SLOTS)]

    def leave(self) -> None:
        """Have another node take this one's place, as soon as the disk is read."""

        def left() -> None:
            self.store.before = None
            member = MemberEntry("n2", "another", "127.0.0.1", 1)
            reconfigure.use(self.replica.core, Configuration(2, "c", SLOTS, 1, None, (member,)))

        self.store.before = left


@pytest_asyncio.fixture
async def node() -> AsyncIterator[Node]:
    store = ReadTooLate()
    driver, replica = await alone(store)
    try:
        put = Operation(verb="PUT", link=LINK, body=b'{"name": "a"}', creates=True)
        assert (await driver.submit(put, 5.0)).status == 201
        await driver.stored()
        yield Node(store, driver, replica)
    finally:
        await driver.stop()
        await store.close()


async def test_a_local_read_does_not_answer_for_a_slot_that_has_left(node: Node) -> None:
    read = Operation(verb="GET", link=LINK, select=("version", 0))
    view, slot = node.driver.view, slot_of(LINK, SLOTS)
    found = await read_here(
        view, slot, node.store, read, service=None, min_version=None, timeout_s=1.0
    )
    assert found is not None
    assert found[0].status == 200
    node.leave()
    found = await read_here(
        view, slot, node.store, read, service=None, min_version=None, timeout_s=1.0
    )
    assert found is None


@pytest.mark.parametrize("is_past", [True, False])
async def test_positions_of_slots_that_have_left_are_asked_elsewhere(
    node: Node, tmp_path: Path, is_past: bool
) -> None:
    scans = Scans(node.driver, node.store, node.rpc, tmp_path / "db", 1 << 20)
    at_us = time.time_ns() // 1000 if is_past else None
    node.log.kept = 1  # As if its history were trimmed, so that the disk is asked.
    try:
        assert len(await scans.positions.of_all(at_us, 5.0)) == SLOTS
        node.leave()
        with pytest.raises(Unavailable, match="no owner that answers"):
            await scans.positions.of_all(at_us, 0.5)
    finally:
        await scans.stop()


QUERY = {"prefix": "/core/examples/", "filter": "", "where": "", "versions": "latest",
         "deleted": False}  # fmt: skip


@pytest.mark.parametrize("order", ["", "name desc", None])
async def test_a_query_fails_when_a_slot_left_meanwhile(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str | None
) -> None:
    scans = Scans(node.driver, node.store, node.rpc, tmp_path / "db", 1 << 20)
    view = node.driver.view
    indexing = Indexing(Registry(), scans, view, ("store", 1), tmp_path / "indexes.db")
    Searches(node.rpc, node.store, scans, indexing, lambda slot: None)
    before: list[Callable[[], None]] = []

    async def answer(pool: ScanPool, question: dict[str, Any]) -> Answer:
        """Answer as a process does that finds nothing in the file, since it has gone from there."""
        for each in before:
            each()
        return {"rows": 0, "until": None, "next": None}, b"" if order is None else b"[]"

    monkeypatch.setattr(ScanPool, "ask", answer)
    spans = [(slot_of(LINK, SLOTS), node.log.end)]
    if order is None:
        how = {"aggregates": "count(*)", "groupBy": ""}
        asked: Any = TotalDocuments({**QUERY, **how}, spans, 5.0)
    else:
        asked = FindDocuments({**QUERY, "orderBy": order}, None, 9, spans, 5.0)
    assert (await node.rpc.call("n1", asked, 5.0)).problem == ""
    node.leave()
    assert node.store.before is not None
    before.append(node.store.before)
    with pytest.raises(Unavailable, match="have left this node"):
        await node.rpc.call("n1", asked, 5.0)
    await scans.stop()


async def test_a_resynchronisation_passes_over_slots_that_have_left(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = resync.Resync(node.driver.view, node.store, node.rpc, node.driver.feed)
    every = range(SLOTS)
    assert await service.compare(every) == 0
    node.leave()
    await node.store.read([])
    monkeypatch.setattr(resync, "OWNER_TIMEOUT_S", 0.1)
    assert await service.compare(every) == 0
