"""The node's side of indexes: its questions to a process, and the slots of which it is sure."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docstore.reads.scans.indexing import AGAIN_S, FOLLOW_S, Indexing


class Log:
    """A slot's log, as far as an index looks at it."""

    def __init__(self) -> None:
        self.kept, self.cuts, self.full = 0, 0, True


class Scans:
    """A file with some rows of each slot, and the requests to index them."""

    def __init__(self) -> None:
        self.is_full = False
        self.ends = {0: 5, 1: 5}
        self.asked: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {"late": [], "built": [["/a/", "n", 2]]}

    def in_file(self) -> dict[int, int]:
        return dict(self.ends)

    async def index(self, question: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(question)
        return self.answer


class Node:
    """A node with a factory that has an index."""

    def __init__(self, file: Path) -> None:
        self.scans = Scans()
        self.options = SimpleNamespace(path="/a", indexes=("n", "not an index"), level=3)
        self.logs = {slot: Log() for slot in self.scans.ends}
        registry: Any = SimpleNamespace(services=lambda: [SimpleNamespace(options=self.options)])
        view: Any = SimpleNamespace(logs=self.logs)
        scans: Any = self.scans
        self.indexing = Indexing(registry, scans, view, ("store", 1), file)

    async def round(self) -> dict[str, Any] | None:
        """Return the request of one round."""
        self.scans.asked.clear()
        await self.indexing._follow()
        return self.scans.asked[0] if self.scans.asked else None


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "indexes.db")


async def test_a_round_asks_only_for_new_rows(node: Node) -> None:
    first = await node.round()
    assert first is not None
    assert (first["cut"], first["sure"], first["held"]) == ([(0, 5), (1, 5)], [], [0, 1])
    assert first["wanted"] == [("/a/", "n")]
    assert await node.round() is None
    node.scans.ends[1] = 7
    second = await node.round()
    assert second is not None
    assert (second["cut"], second["sure"], second["held"]) == ([(1, 7)], [1], [])
    assert node.indexing.metrics()['docstore_index_slots{factory="/a",index="n"}'] == 2


async def test_slots_that_a_round_had_no_time_for_are_asked_for_again(node: Node) -> None:
    node.scans.answer["late"] = [1]
    await node.round()
    again = await node.round()
    assert again is not None
    assert (again["cut"], again["sure"]) == ([(1, 5)], [])


@pytest.mark.parametrize("change", ["lost rows", "was replaced", "was trimmed", "has fewer rows"])
async def test_a_slot_is_not_sure_when_its_log(node: Node, change: str) -> None:
    await node.round()
    node.scans.ends = {0: 7, 1: 7}
    match change:
        case "lost rows":
            node.logs[1].cuts += 1
        case "was replaced":
            node.logs[1] = Log()
        case "was trimmed":
            node.logs[1].kept = 6
        case _:
            node.scans.ends[1] = 4
    found = await node.round()
    assert found is not None
    assert found["sure"] == [0]
    assert (1, node.scans.ends[1]) in found["cut"]


async def test_a_log_that_lost_rows_is_looked_at_although_its_end_is_the_same(node: Node) -> None:
    await node.round()
    node.logs[1].cuts += 1
    found = await node.round()
    assert found is not None
    assert (found["cut"], found["sure"]) == ([(1, 5)], [])


async def test_nothing_is_sure_after_a_round_that_could_not_write(node: Node) -> None:
    await node.round()
    node.scans.answer = {"late": [1], "built": [], "why": "the disk is full"}
    node.scans.ends[1] = 6
    assert await node.indexing._follow() == AGAIN_S
    node.scans.answer = {"late": [], "built": []}
    found = await node.round()
    assert found is not None
    assert (found["cut"], found["sure"]) == ([(0, 5), (1, 6)], [])


async def test_a_full_disk_is_left_alone(node: Node) -> None:
    node.scans.is_full = True
    assert await node.round() is None


async def test_rounds_are_longer_where_much_is_written(node: Node) -> None:
    await node.indexing._follow()
    node.scans.ends[1] += 1_000
    assert await node.indexing._follow() == pytest.approx(FOLLOW_S + 1.0)
    node.scans.ends[1] += 100_000
    assert await node.indexing._follow() == pytest.approx(2.0)


async def test_without_an_index_no_round_runs_and_the_file_is_deleted(
    node: Node, tmp_path: Path
) -> None:
    file = tmp_path / "indexes.db"
    await node.round()
    file.touch()
    node.options.indexes = ()
    assert await node.round() is None
    assert not file.exists()
    node.options.indexes, node.options.level = ("n",), 2
    assert await node.round() is None
