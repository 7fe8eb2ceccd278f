"""Marks of subscriptions, of this group and of the one in a backup."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from docstore.maintenance.webhooks.reading import ChangeReader
from docstore.query.cut import SEALED, Cut
from docstore.reads.positions import Positions
from docstore.reads.scans.feed import ChangeFilter, ChangePage
from docstore.services.subscriptions import Mark, Replay
from docstore.subscriptions.events import BatchReceived, HistoryGone
from tests.docstore.http.single import SingleNode
from tests.docstore.subscriptions.world import subscription

EARLIEST = Cut("here", ((1, 0),) * 2)


async def earliest(timeout_s: float) -> Cut:
    return EARLIEST


async def read(wanted: ChangeFilter, since: Cut, rows: int) -> ChangePage:
    return ChangePage(b"", 0, since, 0)


def reading() -> ChangeReader:
    feed = SimpleNamespace(read=read)
    scans = SimpleNamespace(cluster="here", earliest=earliest)
    unasked: Any = None
    positions = Positions(SingleNode().submit)
    return ChangeReader(cast("Any", feed), cast("Any", scans), unasked, unasked, unasked, positions)


@pytest.mark.parametrize("replay", [None, Replay()])
async def test_wh7_a_mark_of_a_backed_up_group_is_no_position_here(
    replay: Replay | None,
) -> None:
    """Refuse it, as other rows with the numbers of the taken ones would be skipped."""
    mark = Mark(Cut("there", ((1, 9),) * 2).pack(), replay)
    found = await reading().read(subscription(), mark, 100)
    assert isinstance(found, HistoryGone)
    assert found.earliest == EARLIEST.pack()
    assert "backup" in found.why


async def test_a_mark_of_this_group_is_a_position() -> None:
    mark = Mark(Cut("here", ((1, 9),) * 2).pack())
    assert await reading().read(subscription(), mark, 100) == BatchReceived(b"", 0, mark)


async def test_with_users_no_token_counts_rows() -> None:
    mark = Mark(Cut("there", ((1, 9),) * 2).pack())
    found = await reading().read(subscription(user="ann"), mark, 100)
    assert isinstance(found, HistoryGone)
    assert found.earliest.startswith(SEALED)
