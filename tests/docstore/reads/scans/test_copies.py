"""The copy that a query asks next, and its result when one has trimmed history."""

from types import SimpleNamespace
from typing import Any

import pytest

from docstore.errors import SnapshotGone, Unavailable
from docstore.model.document import Row
from docstore.model.slots import to_bitmap
from docstore.query.cut import Cut
from docstore.reads.scans.queries import GroupQueries
from docstore.wire.requests import FoundLatest, FromCopy, ReadVersions, ToCopy

HERE = {
    slot: FromCopy(
        "", [Row(slot, 1, 0, "a", f"/f/{slot}", 0, "POST", 1, False, b"", b"", b"", b"")]
    )
    for slot in (0, 1)
}
GONE = FromCopy(SnapshotGone.code, "trimmed")


class Copies:
    """Replaces the other nodes: (node, slot) -> its answer, None if it does not answer."""

    def __init__(self, says: dict[tuple[str, int], FromCopy | None]) -> None:
        self.says = says

    def reaches(self, node: str) -> bool:
        return True

    async def call_while(self, node: str, asked: ToCopy, left_s: float, **_: Any) -> object:
        assert isinstance(asked, ReadVersions)
        return self.says[node, asked.spans[0][0]]


def queries(says: dict[tuple[str, int], FromCopy | None]) -> GroupQueries:
    members = SimpleNamespace(
        placement=SimpleNamespace(replicas=lambda slot: ["a", "b"] if slot == 0 else ["b", "c"]),
        me="a",
        lacks_quorum=False,
        is_alive=lambda node: True,
    )
    owners = SimpleNamespace(owner_of=lambda slot: "", owners_of=lambda slots: {})
    view: Any = SimpleNamespace(members=members, owners=owners)
    rpc: Any = Copies(says)
    return GroupQueries(view, rpc)


async def read(says: dict[tuple[str, int], FromCopy | None]) -> list[Row]:
    wanted = [(slot, f"/f/{slot}", 0) for slot in (0, 1)]
    return await queries(says).read(wanted, Cut("g", ((1, 1), (1, 1))), 0.05)


async def test_a_read_uses_another_copy_when_one_has_trimmed_history() -> None:
    assert len(await read({("a", 0): GONE, ("b", 0): HERE[0], ("b", 1): HERE[1]})) == 2


async def test_history_that_all_copies_trimmed_is_gone() -> None:
    with pytest.raises(SnapshotGone):
        await read({("a", 0): GONE, ("b", 0): GONE, ("b", 1): HERE[1]})


async def test_trimmed_history_of_one_slot_does_not_hide_an_unreachable_slot() -> None:
    says = {("a", 0): GONE, ("b", 0): HERE[0], ("b", 1): None, ("c", 1): None}
    with pytest.raises(Unavailable):
        await read(says)


class Owners(Copies):
    """Replaces the owners: node -> the slots of which it is sure; it finds a document in each."""

    def __init__(self, sure: dict[str, list[int]], problem: str = "") -> None:
        super().__init__({})
        self.sure, self.problem = sure, problem

    async def call_while(self, node: str, asked: Any, left_s: float, **_: Any) -> object:
        slots = self.sure.get(node)
        if slots is None:
            return None
        found = [(f"/f/{slot}", 0, slot) for slot in slots]
        answer = FromCopy(self.problem, (found, None, ("", 1, 0, "")))
        return FoundLatest(to_bitmap(slots, 2), [3] * len(slots), [1] * len(slots), answer)


@pytest.mark.parametrize(
    ("sure", "problem", "is_found"),
    [
        ({"a": [0], "b": [1]}, "", True),
        ({"a": [0], "b": []}, "", False),  # The node has given a slot away.
        ({"a": [0]}, "", False),  # The other owner does not answer.
        ({"a": [0], "b": [1]}, "malformed", False),
    ],
)
async def test_a_first_page_has_a_cut_only_if_all_owners_are_sure(
    sure: dict[str, list[int]], problem: str, is_found: bool
) -> None:
    asked = {"prefix": "/f/", "filter": "", "where": "", "orderBy": ""}
    owners = SimpleNamespace(owners_of=lambda slots: {"a": [0], "b": [1]})
    configuration = SimpleNamespace(slots=2, cluster_id="g")
    members = SimpleNamespace(me="b", lacks_quorum=False, configuration=configuration)
    view: Any = SimpleNamespace(
        members=members, owners=owners, bitmap=lambda slots: to_bitmap(slots, 2)
    )
    rpc: Any = Owners(sure, problem)
    found = await GroupQueries(view, rpc).find_latest(asked, 9, 1.0, 1)
    if not is_found:
        assert found is None
        return
    assert found is not None
    assert found[0] == Cut("g", ((3, 1), (3, 1)))
    assert [link for link, _, _ in found[1].found] == ["/f/0", "/f/1"]
