"""Which copy a query asks next, and what it concludes when one has let go of history."""

from types import SimpleNamespace
from typing import Any

import pytest

from docstore.errors import SnapshotGone, Unavailable
from docstore.model.document import Row
from docstore.query.cut import Cut
from docstore.reads.scans.queries import GroupQueries
from docstore.wire.requests import FromCopy, ReadVersions, ToCopy

HERE = {
    slot: FromCopy(
        "", [Row(slot, 1, 0, "a", f"/f/{slot}", 0, "POST", 1, False, b"", b"", b"", b"")]
    )
    for slot in (0, 1)
}
GONE = FromCopy(SnapshotGone.code, "let go of")


class Copies:
    """Stands for the other nodes: what each says of each slot; None: it does not answer."""

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


async def test_another_copy_has_what_one_let_go_of() -> None:
    assert len(await read({("a", 0): GONE, ("b", 0): HERE[0], ("b", 1): HERE[1]})) == 2


async def test_what_all_copies_let_go_of_is_gone() -> None:
    with pytest.raises(SnapshotGone):
        await read({("a", 0): GONE, ("b", 0): GONE, ("b", 1): HERE[1]})


async def test_history_of_one_slot_says_nothing_of_another_that_is_not_reached() -> None:
    says = {("a", 0): GONE, ("b", 0): HERE[0], ("b", 1): None, ("c", 1): None}
    with pytest.raises(Unavailable):
        await read(says)
