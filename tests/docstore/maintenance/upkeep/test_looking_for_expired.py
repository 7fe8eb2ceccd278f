"""The order of expired documents, if some of them cannot be deleted for now (D5)."""

import asyncio
from typing import Any, cast

import pytest

from docstore.documents.view import ReplicaView
from docstore.maintenance.upkeep import expiring
from docstore.maintenance.upkeep.expiring import ROWS_AT_ONCE, Expiring
from docstore.model.document import EXPIRY, Row
from docstore.model.operation import Answer, Operation
from docstore.storage.store import Expired, Result, Store
from tests.memory.branch_store import expired

MANY = 2 * ROWS_AT_ONCE + 50


class Group:
    """Documents of one slot, whose owner refuses the deletions that a test names."""

    def __init__(self) -> None:
        self.rows = {f"/t/{n}": _row(n, over_us=n) for n in range(1, MANY)}
        self.refused = set(self.rows)
        self.tried: list[str] = []
        self.view = self.owners = self

    def past_us(self) -> int:
        return 10 * MANY

    def owns(self, slot: int) -> bool:
        return True

    async def read(self, queries: list[Expired]) -> list[Result]:
        return [expired(self.rows.values(), each) if each.level == 3 else [] for each in queries]

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        self.tried.append(operation.link)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        is_refused = operation.link in self.refused
        answer.set_result(Answer(503, "no-owner") if is_refused else Answer(200))
        if not is_refused:
            del self.rows[operation.link]
        return answer


def _row(n: int, over_us: int) -> Row:
    state = b'{"%b":%d}' % (EXPIRY.encode(), over_us)
    return Row(0, n, 1, "n1", f"/t/{n}", 0, "PUT", 1, False, b"", b"", b"", state)


async def test_documents_that_cannot_be_deleted_do_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once, more of them than one pass takes blocked all others."""
    monkeypatch.setattr(expiring, "INTERVAL_S", 0.0)
    group: Any = Group()
    looking = Expiring(cast(ReplicaView, group), cast(Store, group), group.submit)
    await looking._turn()
    assert set(group.tried) == set(group.rows)
    group.rows["/t/new"] = _row(MANY, over_us=5 * MANY)._replace(link="/t/new")
    await looking._turn()
    assert "/t/new" not in group.rows
    group.refused.clear()  # All of them are tried again, page by page.
    for _ in range(5):
        await looking._turn()
    assert not group.rows
    assert looking.expired == MANY
