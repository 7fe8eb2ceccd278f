"""A feed of slots that several nodes hold: how many rows it brings, and whose."""

from collections import Counter, deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from docstore.links.requests import ChangeLines, ReadChanges
from docstore.links.rpc import Rpc
from docstore.protocol.view.replica import ReplicaView
from docstore.scans.cut import Cut
from docstore.scans.feed import Feed, Wanted

HOLDERS = ("b", "c", "d")


class Others:
    """Nodes that hold a slot each, and the node that asks them for it."""

    def __init__(self, rows: Sequence[int]) -> None:
        """rows: how many each of them has."""
        self.rows = dict(zip(HOLDERS, rows, strict=True))
        self.feed = Feed(
            cast("ReplicaView", self._view()), cast("Rpc", self),
            cast("Any", None), cast("Any", None), cast("Any", None),
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
        lines = b"".join(b"%b%d\n" % (peer.encode(), n) for n in range(after + 1, until + 1))
        return ChangeLines(lines, until - after, [(slot, 1, until)])

    async def read(self, rows: int) -> deque[list[str]]:
        """Return all there is, stretch by stretch."""
        cut, stretches = Cut("c", ((1, 0),) * len(HOLDERS)), deque[list[str]]()
        while not stretches or stretches[-1]:
            stretch = await self.feed.read(Wanted("/"), cut, rows)
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
    told = [each for stretch in stretches for each in stretch]
    wanted = [f"{name}{n + 1}" for name, count in others.rows.items() for n in range(count)]
    assert sorted(told) == sorted(wanted), "each once"


async def test_each_node_has_its_turn() -> None:
    stretches = await Others([40, 50, 60]).read(1)
    begun = Counter(line[0] for n in range(30) for line in stretches[n])
    assert begun == dict.fromkeys(HOLDERS, 10)


async def test_who_has_nothing_does_not_end_a_feed() -> None:
    assert list(await Others([0, 0, 3]).read(1)) == [["d1"], ["d2"], ["d3"], []]
