"""The reading half of a store whose tables follow its journal.

`overlay.py` decides, and this module acts: it asks the overlay for a plan of each query, waits
until the tables have followed the entries that the plans need, and then reads the tables. Queries
of one call are answered together, so urgent queries should not share a call with slow ones.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

from docstore.model.document import Row
from docstore.storage.overlay import Overlay
from docstore.storage.store import UNBOUNDED, Bounds, Query, Recovered, Result, Tables
from docstore.storage.tail import Ask, Plan, Wait


class Overlaid:
    """Answers as from tables that have followed every durable entry."""

    def __init__(
        self,
        overlay: Overlay,
        tables: Tables,
        followed: Callable[[Wait], Awaitable[None]],
    ) -> None:
        """followed: returns once the tables have followed the entry of a `Wait`."""
        self._overlay = overlay
        self._tables = tables
        self._followed = followed

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        plans = [self._overlay.plan(query) for query in queries]
        await self._wait(*(plan for plan in plans if isinstance(plan, Wait)))
        asked = [each for pair in zip(queries, plans, strict=True) for each in _asked(*pair)]
        found = iter(await self._tables.read(asked) if asked else ())
        results = [self._result(*pair, found) for pair in zip(queries, plans, strict=True)]
        return await self._settled(queries, results)

    def _result(self, query: Query, plan: Plan, found: Iterator[Result]) -> Result | Wait:
        """Return the answer to a query by its plan, from the next of the tables' results."""
        if isinstance(plan, list):
            return plan
        if isinstance(plan, Wait):
            return next(found)
        return self._overlay.merged(query, plan, [next(found) for _ in plan.queries])

    async def _settled(
        self, queries: Sequence[Query], results: Sequence[Result | Wait]
    ) -> list[Result]:
        """Return the results, after reading the tables again for those that could not be merged."""
        late = [place for place, each in enumerate(results) if isinstance(each, Wait)]
        again: Iterator[Result] = iter(())
        if late:
            await self._wait(*(each for each in results if isinstance(each, Wait)))
            again = iter(await self._tables.read([queries[place] for place in late]))
        return [next(again) if isinstance(each, Wait) else each for each in results]

    async def recover(self) -> Recovered:
        await self._wait(self._overlay.everything())
        return await self._tables.recover()

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        await self._wait(self._overlay.below(prefix, until, level=level))
        return await self._tables.links(prefix, after, limit, until, level=level)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        await self._wait(self._overlay.below(prefix, until, level=level))
        return await self._tables.count(prefix, until, level=level)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        await self._wait(self._overlay.below(prefix, dict.fromkeys(slots, UNBOUNDED)))
        return await self._tables.below(prefix, slots)

    async def with_agenda(self, prefix: str, slots: Collection[int]) -> list[Row]:
        await self._wait(self._overlay.below(prefix, dict.fromkeys(slots, UNBOUNDED)))
        return await self._tables.with_agenda(prefix, slots)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        await self._wait(self._overlay.all_of(slots))
        return await self._tables.digests(slots)

    async def _wait(self, *waits: Wait) -> None:
        number = max((wait.number for wait in waits), default=0)
        if number > self._overlay.followed:
            await self._followed(Wait(number, any(wait.hurry for wait in waits)))


def _asked(query: Query, plan: Plan) -> Sequence[Query]:
    """Return the queries to the tables that a plan needs."""
    if isinstance(plan, Ask):
        return plan.queries
    return [query] if isinstance(plan, Wait) else []
