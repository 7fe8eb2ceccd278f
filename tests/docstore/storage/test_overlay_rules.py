"""An overlay without one of its rules fails a test."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from docstore.storage.overlaid import Overlaid
from docstore.storage.overlay import Overlay
from docstore.storage.store import (
    After,
    Append,
    Base,
    Erase,
    History,
    Newest,
    Query,
    Result,
    Rows,
    SaveSlot,
    SlotRecord,
    Tombstones,
    Trim,
    Truncate,
)
from docstore.storage.tail import Ask, Wait
from tests.docstore.storage.lagging import Lagging, Script, play
from tests.docstore.storage.logs import FOR_EVER, Author
from tests.docstore.storage.scripts import changes

A, B = "/notes/a", "/notes/b"


class EmptiedBeforeTheCommit(Lagging):
    """Entries leave the overlay when the tables begin to follow them."""

    committed = 0

    def follow(self, entries: int) -> None:
        self.committed = self.overlay.followed
        super().follow(entries)

    @property
    def followed(self) -> int:
        return self.committed


class TablesFirst(Lagging):
    """The tables are read before the overlay, and follow meanwhile."""

    def __init__(self, rng: Random, overlay: Overlay) -> None:
        super().__init__(rng, overlay)
        store = self

        class Reads(Overlaid):
            async def read(self, queries: Sequence[Query]) -> list[Result]:
                found = await store.read(queries)
                store.follow(99)
                plans = [store.overlay.plan(query) for query in queries]
                pairs = zip(plans, found, strict=True)
                return [plan if isinstance(plan, list) else rows for plan, rows in pairs]

        self.reads = Reads(overlay, self, self._wait)


class NothingWaits(Overlay):
    """Rows of a slot are used although some of them will be removed."""

    def _loses(self, slot: int, until: int = -1) -> bool:
        return False


class TombstonesAsTheyAre(Overlay):
    """Tombstones of links that live again are returned."""

    def _still_dead(self, query: Any, newer: Any, rows: Any) -> Any:
        return rows


class TrimmingTakesNothing(Overlay):
    """A read as of an old row does not wait while its slot is trimmed."""

    def _loses(self, slot: int, until: int = -1) -> bool:
        return self._cut.get(slot, 0) > self.followed


class RewritesGoUnnoticed(Overlay):
    """Rows removed between the plan and the answer are not noticed."""

    def merged(self, query: Query, ask: Ask, found: Sequence[Result]) -> Any:
        now = self._rewritten.get(query.slot, 0)
        return super().merged(query, replace(ask, rewritten=now), found)


class PagesAreWhole(Overlay):
    """A page that the tables cut is taken for all that they have."""

    def _joined(self, query: Any, above: Any, rows: Any, *, is_log: bool) -> Any:
        return [*rows, *above]


class PagesAreCut(Overlay):
    """A page that ends before the rows of the overlay is taken for one that the tables cut."""

    def _joined(self, query: Any, above: Any, rows: Any, *, is_log: bool) -> Any:
        return super()._joined(query, above, rows, is_log=True)


class ArrivalsAsTheyAre(Overlay):
    """The tables' arrivals are taken for all."""

    def plan(self, query: Query) -> Any:
        plan = super().plan(query)
        return replace(plan, lacked=0) if isinstance(plan, Ask) else plan


class StandingsAsTheyAre(Overlay):
    """Reads do not wait for a change of a version's status."""

    def drop(self, until: int) -> None:
        super().drop(until)
        self._restood = 0


class ListingsAsTheyAre(Overlay):
    """Listings do not wait."""

    def below(self, *args: Any, **kwargs: Any) -> Wait:
        return Wait(0)


many = st.lists(changes, min_size=2, max_size=4)
busy = st.lists(st.tuples(many, st.integers(0, 2)), min_size=4, max_size=6)


def missed(store: Callable[[Random], Lagging]) -> None:
    """Check that random scripts find a faulty store."""

    @settings(
        max_examples=200, phases=[Phase.generate], derandomize=True, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(busy, st.integers())
    def played(script: Script, seed: int) -> None:
        asyncio.run(play(script, seed, store(Random(seed))))

    with pytest.raises(AssertionError):
        played()


@pytest.mark.parametrize("store", [EmptiedBeforeTheCommit, TablesFirst])
def test_a_store_in_the_wrong_order_is_noticed(store: type[Lagging]) -> None:
    missed(lambda rng: store(rng, Overlay()))


@pytest.mark.parametrize(
    "overlay", [NothingWaits, ArrivalsAsTheyAre, StandingsAsTheyAre, ListingsAsTheyAre]
)
def test_an_overlay_without_a_rule_is_noticed(overlay: type[Overlay]) -> None:
    missed(lambda rng: Lagging(rng, overlay()))


# Cases that random scripts find seldom


async def rewritten_meanwhile(overlay: Overlay) -> None:
    """Merge a history while some of its rows are removed and others written."""
    store = Lagging(Random(1), overlay)
    author = Author()
    rows = [author.row(1, A) for _ in range(3)]
    store.commit([Append(rows[:2])])
    store.follow(1)
    store.commit([Append(rows[2:])])
    query = History(1, A, None, 9, FOR_EVER)
    plan = store.overlay.plan(query)
    assert isinstance(plan, Ask)
    store.commit([Truncate(1, 1)])
    store.follow(2)
    found = [store.tables(store.last).answer(each) for each in plan.queries]
    merged = store.overlay.merged(query, plan, found)
    result = store.at_some_moment().answer(query) if isinstance(merged, Wait) else merged
    assert result in ([rows[2], rows[1], rows[0]], [rows[0]])


async def holes_below(overlay: Overlay) -> None:
    """Read a trimmed log, which has holes up to the first row of the overlay."""
    store = Lagging(Random(1), overlay)
    author = Author()
    rows = [author.row(1, f"/notes/{number}") for number in range(9)]
    base, kept = [rows[2], rows[5]], SaveSlot(SlotRecord(1, kept=8))
    store.commit([Erase(1), Base(base), kept])
    store.follow(1)
    store.commit([Append(rows[8:])])
    for query in (Rows(1, 1, 99), After(1, 0, 99, 9)):
        assert await store.reads.read([query]) == [[*base, rows[8]]]


async def cut_below(overlay: Overlay) -> None:
    """Read pages where the tables have more than fits, and the overlay has a small row after it."""
    store = Lagging(Random(1), overlay)
    author = Author()
    rows = [author.row(1, A, state=b"x" * size) for size in (10, 1000, 10)]
    store.commit([Append(rows[:2])])
    store.follow(1)
    store.commit([Append(rows[2:])])
    for query in (Rows(1, 1, 99, 500), After(1, 0, 99, 9, 500), After(1, 0, 99, 1)):
        assert await store.reads.read([query]) == [rows[:1]]


async def lives_again(overlay: Overlay) -> None:
    """Read tombstones of two links, one of which has been written since."""
    store = Lagging(Random(1), overlay)
    author = Author()
    dead = [author.row(1, link, deleted=True) for link in (A, B)]
    store.commit([Append(dead)])
    store.follow(1)
    store.commit([Append([author.row(1, A)])])
    for limit in (1, 9):
        assert await store.reads.read([Tombstones(1, 2, FOR_EVER, limit)]) == [dead[1:]]


async def trimmed(overlay: Overlay) -> None:
    """Read links whose earlier newest row has been trimmed."""
    store = Lagging(Random(1), overlay)
    author = Author()
    rows = [author.row(1, A) for _ in range(3)]
    store.commit([Append(rows[:2])])
    store.follow(1)
    store.commit([Append(rows[2:]), Trim(1, 0, 2), SaveSlot(SlotRecord(1, kept=2))])
    asked = [Newest(1, A, until) for until in (1, 2, 3)]
    for query, found in zip(asked, ([], rows[1:2], rows[2:]), strict=True):
        for _ in range(9):  # At any progress of the tables.
            assert await store.reads.read([query]) == [found]


@pytest.mark.parametrize(
    ("happens", "without"),
    [
        (lives_again, TombstonesAsTheyAre),
        (trimmed, TrimmingTakesNothing),
        (rewritten_meanwhile, RewritesGoUnnoticed),
        (holes_below, PagesAreCut),
        (cut_below, PagesAreWhole),
    ],
)
async def test_tables_and_overlay_are_merged_or_neither_is_used(
    happens: Callable[[Overlay], Awaitable[None]], without: type[Overlay]
) -> None:
    await happens(Overlay())
    with pytest.raises(AssertionError):
        await happens(without())
