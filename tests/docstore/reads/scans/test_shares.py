"""The nodes whose rows a limited feed brings, and how many of each."""

from collections import Counter, deque
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from docstore.documents.view import ReplicaView
from docstore.query.cut import Cut
from docstore.reads.scans.feed import ChangeFilter, Feed
from docstore.runtime.links.rpc import Rpc
from docstore.wire.requests import ChangeLines, ReadChanges
from tests.docstore.alone import unlinked

HOLDERS = ("b", "c", "d")


class Others:
    """Nodes that hold a slot each, and the node that asks them for it."""

    def __init__(self, rows: Sequence[int]) -> None:
        """rows: the number that each of them has."""
        self.rows = dict(zip(HOLDERS, rows, strict=True))
        self.brought = 0
        self.feed = Feed(
            cast("ReplicaView", self._view()), cast("Rpc", self),
            cast("Any", None), cast("Any", None), cast("Any", None), Random(1),
        )  # fmt: skip

    def _view(self) -> object:
        placement = SimpleNamespace(replicas=lambda slot: [HOLDERS[slot]])
        return SimpleNamespace(
            members=SimpleNamespace(me="a", lacks_quorum=False, placement=placement),
            owners=SimpleNamespace(owner_of=lambda slot: ""),
            logs={},
        )

    def serve(self, kind: type, handler: object) -> None:
        pass

    def reaches(self, peer: str) -> bool:
        return True

    async def call(self, peer: str, asked: ReadChanges, timeout_s: float) -> ChangeLines:
        [(slot, after)] = asked.after
        until = min(self.rows[peer], after + asked.rows)
        self.brought += until - after
        lines = b"".join(b"%b%d\n" % (peer.encode(), n) for n in range(after + 1, until + 1))
        return ChangeLines(lines, until - after, [(slot, 1, until)])

    async def read(self, rows: int) -> deque[list[str]]:
        """Return all lines, stretch by stretch."""
        cut, stretches = Cut("c", ((1, 0),) * len(HOLDERS)), deque[list[str]]()
        while not stretches or stretches[-1]:
            stretch = await self.feed.read(ChangeFilter(["/"]), cut, rows)
            stretches.append(stretch.lines.decode().split())
            assert stretch.rows == len(stretches[-1])
            cut = stretch.until
        assert [n for _, n in cut.positions] == list(self.rows.values())
        return stretches


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 100])
async def test_a_stretch_has_no_more_rows_than_were_asked_for(rows: int) -> None:
    others = Others([40, 50, 60])
    stretches = await others.read(rows)
    assert max(map(len, stretches)) <= rows
    brought = [each for stretch in stretches for each in stretch]
    wanted = [f"{name}{n + 1}" for name, count in others.rows.items() for n in range(count)]
    assert sorted(brought) == sorted(wanted), "each once"
    assert others.brought == len(wanted), "no node reads rows in vain"


async def test_each_node_has_its_turn() -> None:
    stretches = await Others([400, 500, 600]).read(1)
    begun = Counter(line[0] for n in range(300) for line in stretches[n])
    assert min(begun[name] for name in HOLDERS) > 50


async def test_a_node_without_rows_does_not_end_a_feed() -> None:
    assert list(await Others([0, 0, 3]).read(1)) == [["d1"], ["d2"], ["d3"], []]


async def test_each_slot_has_its_turn() -> None:
    """New rows of one node do not wait for the backlog of the others."""
    ends = dict.fromkeys(range(8), 1_000)

    async def pages(question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        there, _, begin = question["after"]
        rows = [
            (slot, n)
            for slot, after, until in question["ranges"]
            for n in range(after + 1, until + 1)
            if (slot, n) > (there, begin)
        ][: question["rows"]]
        lines = b"".join(b"%d %d\n" % row for row in rows)
        return {"next": (rows[-1][0], "", rows[-1][1]), "rows": len(rows)}, lines

    async def batch_end(slot: int, n: int) -> int:
        return n

    log = SimpleNamespace(full=True, ballots=())
    view = SimpleNamespace(
        members=SimpleNamespace(me="a", lacks_quorum=False), logs=dict.fromkeys(ends, log)
    )
    rpc = Rpc("a", unlinked())
    feed = Feed(cast("ReplicaView", view), rpc, pages, ends.__getitem__, batch_end, Random(1))
    cut = Cut("c", ((1, 0),) * len(ends))
    for _ in range(100):
        stretch = await feed.read(ChangeFilter(["/"]), cut, 4)
        assert stretch.rows == 4
        cut = stretch.until
    assert sum(n for _, n in cut.positions) == 400
    assert min(n for _, n in cut.positions) > 10
