"""A store whose tables lag behind, with checks while it is written and read."""

from collections.abc import Collection, Sequence
from random import Random

from hypothesis import strategies as st

from docstore.model.document import Row
from docstore.storage.overlaid import Overlaid
from docstore.storage.overlay import Overlay
from docstore.storage.store import (
    UNBOUNDED,
    Bounds,
    Query,
    Recovered,
    Result,
    Rows,
    Tombstones,
    Write,
)
from docstore.storage.tail import Ask, Wait
from tests.docstore.storage.scripts import SLOTS, answers_of, changes, queries, writes_of
from tests.memory.ledger import Ledger

batches = st.lists(changes, max_size=4)
steps = st.lists(st.tuples(batches, st.integers(0, 3)), max_size=6)
Batch = list[tuple[str, int, object]]
Script = list[tuple[Batch, int]]


class Lagging:
    """The tables of a store, and its journal. Reads go through `reads`.

    At each query the tables may have followed more entries than they are known to have, as with a
    follower on a thread; they have at least those that were waited for.
    """

    def __init__(self, rng: Random, overlay: Overlay) -> None:
        self.overlay = overlay
        self.reads: Overlaid = Overlaid(overlay, self, self._wait)
        self._rng = rng
        self._moments = [Ledger()]  # The tables after each entry.
        self._needed = 0

    def commit(self, writes: Sequence[Write]) -> None:
        """Make an entry durable."""
        ledger = self._moments[-1].copy()
        ledger.apply(writes)
        self._moments.append(ledger)
        self.overlay.add(len(self._moments) - 1, writes)

    def follow(self, entries: int) -> None:
        """Have the tables follow some entries more."""
        self.overlay.drop(min(self.overlay.followed + entries, self.last))

    @property
    def followed(self) -> int:
        """Return the last entry that the tables are known to have followed."""
        return self.overlay.followed

    @property
    def last(self) -> int:
        """Return the number of the last entry."""
        return len(self._moments) - 1

    def tables(self, number: int) -> Ledger:
        """Return the tables as they are once they have followed an entry."""
        return self._moments[number]

    def at_some_moment(self, needed: int = 0) -> Ledger:
        """Return the tables as a query may find them that needs an entry."""
        return self._moments[self._rng.randint(max(needed, self.followed), self.last)]

    async def _wait(self, wait: Wait) -> None:
        assert self.overlay.followed < wait.number <= self.last
        self._needed = wait.number

    def _asked(self) -> Ledger:
        needed, self._needed = self._needed, 0
        return self.at_some_moment(needed)

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer from the tables."""
        ledger = self._asked()
        return [ledger.answer(query) for query in queries]

    async def recover(self) -> Recovered:
        """Recover from the tables."""
        return self._asked().recovered("", 1)

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """List from the tables."""
        return self._asked().links(prefix, after, limit, until, level=level)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Count in the tables."""
        return self._asked().count(prefix, until, level=level)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """List from the tables."""
        return self._asked().below(prefix, slots)

    async def with_agenda(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """List from the tables."""
        return self._asked().with_agenda(prefix, slots)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return digests from the tables."""
        return self._asked().digests(slots)


def writes_after(ledger: Ledger, batch: Batch) -> list[Write]:
    """Return the writes of a batch; each continues after the ones before it."""
    ledger = ledger.copy()
    writes: list[Write] = []
    for change in batch:
        more = writes_of(ledger, change)
        writes += more
        ledger.apply(more)
    return writes


class OneByOne:
    """Reads of a lagging store, each query alone, so that none waits because of another."""

    def __init__(self, reads: Overlaid) -> None:
        self._reads = reads
        self.recover, self.digests = reads.recover, reads.digests
        self.links, self.count, self.below = reads.links, reads.count, reads.below
        self.with_agenda = reads.with_agenda

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        return [result for query in queries for result in await self._reads.read([query])]


async def play(script: Script, seed: int, store: Lagging) -> None:
    """Commit and follow; after each step compare all answers."""
    full = Lagging(Random(seed), Overlay())
    for batch, followed in script:
        writes = writes_after(full.tables(full.last), batch)
        for each in (store, full):
            each.commit(writes)
        store.follow(followed)
        full.follow(1)
        expected = await answers_of(full)
        assert await answers_of(OneByOne(store.reads)) == expected
        assert await store.reads.read(queries()) == await full.read(queries())
        for slot in SLOTS:
            behind = store.overlay.behind([slot]).get(slot, UNBOUNDED)
            there = Rows(slot, 1, behind - 1)
            durable = store.tables(store.last).answer(there)
            assert store.tables(store.overlay.followed).answer(there) == durable


def race(script: Script, later: Batch, seed: int, store: Lagging) -> None:
    """Add another entry, and perhaps follow it, between a plan and its result."""
    rng = Random(seed)
    for batch, followed in script:
        store.commit(writes_after(store.tables(store.last), batch))
        store.follow(followed)
    before = store.tables(store.last)
    asked = queries()
    plans = [store.overlay.plan(query) for query in asked]
    store.commit(writes_after(before, later))
    store.follow(rng.randint(0, 3))
    found = [_found(store, *pair) for pair in zip(asked, plans, strict=True)]
    store.follow(rng.randint(0, 3))
    after = store.tables(store.last)
    for query, plan, results in zip(asked, plans, found, strict=True):
        result = plan if isinstance(plan, list) else results[0]
        if isinstance(plan, Ask):
            merged = store.overlay.merged(query, plan, results)
            is_late = isinstance(merged, Wait)
            result = store.at_some_moment(merged.number).answer(query) if is_late else merged
        answers = [before.answer(query), after.answer(query)]
        if isinstance(query, Tombstones):
            # They may go in any order.
            assert all(row in answers[0] or row in answers[1] for row in result), query
        else:
            assert result in answers, query


def _found(store: Lagging, query: Query, plan: object) -> list[Result]:
    """Return the answers of the tables, at one moment, to the queries of a plan."""
    if isinstance(plan, Wait):
        return [store.at_some_moment(plan.number).answer(query)]
    if not isinstance(plan, Ask):
        return []
    tables = store.at_some_moment()
    return [tables.answer(each) for each in plan.queries]
