"""Answers to queries are limited: each must fit into a frame of a link between nodes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from docstore.errors import BadRequest
from docstore.model.operation import Operation
from docstore.query.aggregates import Totals, grouping_of
from docstore.reads.scans import searches
from docstore.reads.scans.indexing import Indexing
from docstore.reads.scans.queries import GroupQueries
from docstore.reads.scans.scanner import Scans
from docstore.reads.scans.searches import VERSIONS_AT_ONCE, Searches, insist_on_few
from docstore.runtime.driver import Driver
from docstore.runtime.links.rpc import Rpc
from docstore.services.registry import Registry
from docstore.wire.requests import ReadVersions
from tests.docstore.alone import SLOTS, SmallDisk, alone, unlinked

LINKS = [f"/core/examples/{number:02}" for number in range(2 * VERSIONS_AT_ONCE + 3)]


class Node(NamedTuple):
    """A group of one node with some documents."""

    driver: Driver
    rpc: Rpc
    scans: Scans


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    store, rpc = SmallDisk(), Rpc("n1", unlinked())
    driver, _ = await alone(store)
    scans = Scans(driver, store, rpc, tmp_path / "db", 1 << 20)
    view = driver.view
    indexing = Indexing(Registry(), scans, view, ("store", 1), tmp_path / "indexes.db")
    Searches(rpc, store, scans, indexing, lambda slot: None)
    for link in LINKS:
        put = Operation(verb="PUT", link=link, body=b'{"name": "a"}', creates=True)
        assert (await driver.submit(put, 5.0)).status == 201
    await driver.stored()
    yield Node(driver, rpc, scans)
    await scans.stop()
    await driver.stop()


async def test_versions_are_answered_as_far_as_they_fit(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = await node.scans.cut("latest", 5.0)
    wanted = [(node.driver.view.slot_of(link), link, 0) for link in LINKS]
    queries = GroupQueries(node.driver.view, node.rpc)
    assert [row.link for row in await queries.read(wanted, cut, 5.0)] == LINKS
    monkeypatch.setattr(searches, "BYTES_MAX", 1)
    spans = [(slot, cut.by_slot()[slot][1]) for slot in range(SLOTS)]
    answer = await node.rpc.call("n1", ReadVersions(wanted, spans, 5.0), 5.0)
    assert len(answer.answer) == VERSIONS_AT_ONCE
    found: list[str] = []
    while len(found) < len(LINKS):
        rows = await queries.read(wanted[len(found) :], cut, 5.0)
        assert 0 < len(rows) <= VERSIONS_AT_ONCE
        found += [row.link for row in rows]
    assert found == LINKS


@pytest.mark.parametrize("aggregates", ["count(*)", "max(name)"])
def test_groups_of_long_texts_are_refused(monkeypatch: pytest.MonkeyPatch, aggregates: str) -> None:
    grouping = grouping_of(aggregates, "title")
    assert grouping is not None
    totals = Totals(grouping)
    is_counted = aggregates == "count(*)"
    for number in range(10):
        title = str(number) * (10 if is_counted else 1)
        totals.put((title,), [1] if is_counted else ["x" * 10])
    monkeypatch.setattr(searches, "BYTES_MAX", 110)
    insist_on_few(totals)
    monkeypatch.setattr(searches, "BYTES_MAX", 99)
    with pytest.raises(BadRequest, match="at most 99 characters"):
        insist_on_few(totals)
