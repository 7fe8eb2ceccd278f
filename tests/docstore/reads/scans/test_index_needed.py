"""Searches that would look at too many documents are refused, if an index would help."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from docstore.reads.scans.indexing import Indexing
from docstore.reads.scans.pool import Answer, ScanPool
from docstore.reads.scans.scanner import Scans
from docstore.reads.scans.searches import LOOKED_MAX, Searches
from docstore.runtime.links.rpc import Rpc
from docstore.services.registry import Registry
from docstore.wire.requests import FindDocuments, FromCopy
from tests.docstore.alone import SmallDisk, alone, unlinked

QUERY = {"prefix": "/core/examples/", "filter": "", "where": "", "versions": "latest",
         "deleted": False, "orderBy": ""}  # fmt: skip


class Node:
    """A node with a scanning process that answers as the test sets it."""

    def __init__(self, rpc: Rpc) -> None:
        self.rpc = rpc
        self.live, self.fits = 0, False
        self.found: list[list[Any]] = []

    async def ask(self, question: dict[str, Any]) -> Answer:
        if "indexes" in question:
            said = {"index": "", "why": "no index is a", "looked": self.live, "rows": 0}
            return {**said, "fits": self.fits}, b""
        until = None if question["orderBy"] else ["/core/examples/1", 0]
        return {"rows": 0, "until": until}, b"[]"

    async def find(self, **how: str) -> FromCopy:
        asked = FindDocuments({**QUERY, **how}, None, 9, [(0, 0)], 5.0, 2)
        return await self.rpc.call("n1", asked, 5.0)


@pytest_asyncio.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    store, rpc = SmallDisk(), Rpc("n1", unlinked())
    driver, _ = await alone(store)
    scans = Scans(driver, store, rpc, tmp_path / "db", 1 << 20)
    indexing = Indexing(Registry(), scans, driver.view, ("store", 1), tmp_path / "indexes.db")
    Searches(rpc, store, scans, indexing, lambda slot: None)
    node = Node(rpc)
    monkeypatch.setattr(ScanPool, "ask", node.ask)
    yield node
    await scans.stop()
    await driver.stop()


async def test_an_order_without_an_index_is_refused_above_the_limit_by_name(node: Node) -> None:
    node.live = LOOKED_MAX
    found = await node.find(orderBy="a desc", filter="b eq 1")
    assert found.problem == ""
    assert found.answer[2] == ("", LOOKED_MAX, 0, "no index is a")
    node.live += 1
    refused = await node.find(orderBy="a desc", filter="b eq 1")
    assert refused.problem == "index-needed"
    assert f"more than {LOOKED_MAX} documents (no index is a): declare" in refused.answer
    assert "the index 'b, a desc' (`indexes` of /core/examples)" in refused.answer
    node.fits = True  # An index that has too many documents in its ranges does not help.
    assert (await node.find(orderBy="a desc", filter="b eq 1")).problem == ""


async def test_a_walk_in_the_order_of_links_is_refused_once_it_has_looked_at_too_many(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docstore.reads.scans.searches.LOOKED_MAX", 2_000)
    monkeypatch.setattr("docstore.reads.scans.searches.LOOK_S", 0.2)
    refused = await node.find(filter="status eq 'x'")
    assert refused.problem == "index-needed"
    assert "declare the index 'status'" in refused.answer
    for unhelped in ("contains(status,'x')", "not (status eq 'x')", ""):
        found = await node.find(filter=unhelped)
        assert found.problem == ""
        assert found.answer[2].looked > 2_000
