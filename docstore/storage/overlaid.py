"""The reading half of a store whose tables follow behind its journal.

What `overlay.py` decides is carried out here: the overlay is looked at first, then what has to wait
for the tables waits, each for its own entry and none for all, and then the tables are asked.
Queries that are asked together are answered together, so those that may wait should not come with
those that somebody is in a hurry for.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Protocol

from docstore.model.document import Row
from docstore.storage.overlay import Overlay
from docstore.storage.store import UNBOUNDED, Bounds, Query, Recovered, Result
from docstore.storage.tail import Ask, Plan, Wait


class Tables(Protocol):
    """What the tables alone know: a `Store` that only reads."""

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer queries from one snapshot, in their order."""

    async def recover(self) -> Recovered:
        """Return what a start finds."""

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """Return live direct children of `prefix` after `after`, by link."""

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Return slot -> how many live direct children `prefix` has."""

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """Return the newest rows of live documents at any depth below `prefix`, by link."""

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return slot -> (end, number of links, digest)."""


class Overlaid:
    """Answers as the tables would that had followed every durable entry."""

    def __init__(
        self,
        overlay: Overlay,
        tables: Tables,
        followed: Callable[[Wait], Awaitable[None]],
    ) -> None:
        """followed: returns once the tables have followed the entry that is waited for."""
        self._overlay = overlay
        self._tables = tables
        self._followed = followed

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer queries in their order, each from one moment."""
        plans = [self._overlay.plan(query) for query in queries]
        await self._wait(*(plan for plan in plans if isinstance(plan, Wait)))
        asked = [each for pair in zip(queries, plans, strict=True) for each in _asked(*pair)]
        found = iter(await self._tables.read(asked) if asked else ())
        results = [self._result(*pair, found) for pair in zip(queries, plans, strict=True)]
        return await self._settled(queries, results)

    def _result(self, query: Query, plan: Plan, found: Iterator[Result]) -> Result | Wait:
        """Return the answer to a query, of what the tables have found for one after the other."""
        if isinstance(plan, list):
            return plan
        if isinstance(plan, Wait):
            return next(found)
        return self._overlay.merged(query, plan, [next(found) for _ in plan.queries])

    async def _settled(
        self, queries: Sequence[Query], results: Sequence[Result | Wait]
    ) -> list[Result]:
        """Return the results, those that could not be put together asked of the tables again."""
        late = [place for place, each in enumerate(results) if isinstance(each, Wait)]
        again: Iterator[Result] = iter(())
        if late:
            await self._wait(*(each for each in results if isinstance(each, Wait)))
            again = iter(await self._tables.read([queries[place] for place in late]))
        return [next(again) if isinstance(each, Wait) else each for each in results]

    async def recover(self) -> Recovered:
        """Return what a start would find."""
        await self._wait(self._overlay.everything())
        return await self._tables.recover()

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """Return live direct children of `prefix` after `after`, by link."""
        await self._wait(self._overlay.below(prefix, until, level=level))
        return await self._tables.links(prefix, after, limit, until, level=level)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Return slot -> how many live direct children `prefix` has."""
        await self._wait(self._overlay.below(prefix, until, level=level))
        return await self._tables.count(prefix, until, level=level)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """Return the newest rows of live documents at any depth below `prefix`, by link."""
        await self._wait(self._overlay.below(prefix, dict.fromkeys(slots, UNBOUNDED)))
        return await self._tables.below(prefix, slots)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return slot -> (end, number of links, digest)."""
        await self._wait(self._overlay.all_of(slots))
        return await self._tables.digests(slots)

    async def _wait(self, *waits: Wait) -> None:
        number = max((wait.number for wait in waits), default=0)
        if number > self._overlay.followed:
            await self._followed(Wait(number, any(wait.hurry for wait in waits)))


def _asked(query: Query, plan: Plan) -> Sequence[Query]:
    """Return what the tables are asked for a query."""
    if isinstance(plan, Ask):
        return plan.queries
    return [query] if isinstance(plan, Wait) else []
