"""A factory as a collection: each owner lists what it holds, and the entry node merges.

Every owner answers for the slots that it owns, so a link is listed once. What was answered before
the question is in the answer: the owner's disk may lag behind what the others have decided, so it
waits for the disk; what is not decided yet it takes out again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from docstore.converge.branches import Branches
from docstore.document import Row
from docstore.errors import Unavailable
from docstore.links.questions import Questions
from docstore.protocol.replica import Replica
from docstore.protocol.slots import from_bitmap, to_bitmap
from docstore.storage.arrivals import Heads
from docstore.storage.ledger import is_child
from docstore.storage.store import Newest, Store

Entry = tuple[str, int, Row | None]
"""Link, newest version, and its row if it was asked for."""


class Listings:
    """Both sides of a listing: the entry node's and the owners'.

    stored: returns when all that the protocol has given to the disk by now is there.
    """

    def __init__(
        self,
        replica: Replica,
        store: Store,
        questions: Questions,
        stored: Callable[[], Awaitable[None]],
    ) -> None:
        self._core = replica.core
        self._replica = replica
        self._store = store
        self._questions = questions
        self._stored = stored
        questions.answer("list", self._list_here)
        questions.answer("count", self._count_here)

    async def page(
        self, factory: str, *, after: str, limit: int, expand: bool, level: int, timeout_s: float
    ) -> list[Entry]:
        """Return up to `limit` live documents under a factory, by link, over all owners."""
        argument = (factory, after, limit, expand, level)
        parts = await self._ask_owners("list", argument, timeout_s)
        merged = sorted(entry for part in parts for entry in part)[:limit]
        return [(link, version, Row(*row) if row else None) for link, version, row in merged]

    async def count(self, factory: str, *, level: int, timeout_s: float) -> int:
        """Return the number of live documents under a factory."""
        return sum(await self._ask_owners("count", (factory, level), timeout_s))

    async def _ask_owners(self, question: str, argument: Any, timeout_s: float) -> list[Any]:
        slots, level = self._core.placement.slots, argument[-1]
        owners: dict[str, list[int]] = {}
        for slot in range(slots):
            owner = (
                self._core.owner_of(slot) if level == 3 else self._replica.executor.who(slot, level)
            )
            if owner is None:
                raise Unavailable(f"slot {slot} has no owner now")
            owners.setdefault(owner, []).append(slot)
        asks = [
            self._questions.ask(owner, question, (*argument, to_bitmap(owned, slots)), timeout_s)
            for owner, owned in owners.items()
        ]
        return list(await asyncio.gather(*asks))

    async def _list_here(self, argument: Any) -> list[Any]:
        factory, after, limit, expand, level, bitmap = argument
        prefix, slots = factory.rstrip("/") + "/", frozenset(from_bitmap(bitmap))
        await self._stored()
        found = await self._store.links(prefix, after, limit, slots, level=level)
        if level < 3:
            return await self._branching(found, expand=expand)
        seen = self._as_decided(prefix, slots)
        live = [(slot, link, version) for slot, link, version in found if link not in seen]
        live += [
            (row.slot, row.link, row.version)
            for row in seen.values()
            if row is not None and not row.deleted and row.link > after
        ]
        live = sorted(live, key=lambda entry: entry[1])[:limit]
        if not expand:
            return [(link, version, None) for _, link, version in live]
        queries = [Newest(slot, link, self._decided(slot)) for slot, link, _ in live]
        results = await self._store.read(queries)
        rows = [result[0] for result in results if isinstance(result, list) and result]
        return [(row.link, row.version, tuple(row)) for row in rows if not row.deleted]

    async def _count_here(self, argument: Any) -> int:
        factory, level, bitmap = argument
        prefix, slots = factory.rstrip("/") + "/", frozenset(from_bitmap(bitmap))
        await self._stored()
        return await self._store.count(prefix, slots, level=level)

    async def _branching(self, found: list[tuple[int, str, int]], *, expand: bool) -> list[Any]:
        """Return documents of levels 1 and 2 as listed: the winners, as they are on this disk."""
        if not expand:
            return [(link, version, None) for _, link, version in found]
        results = await self._store.read([Heads(slot, link) for slot, link, _ in found])
        heads = [Branches.of(result) for result in results if isinstance(result, list)]
        rows = [each.winner for each in heads]
        return [(row.link, row.version, tuple(row)) for row in rows if row and not row.deleted]

    def _as_decided(self, prefix: str, slots: frozenset[int]) -> dict[str, Row | None]:
        """Return link -> its newest decided row, for links with a newer one in the balance."""
        seen: dict[str, Row | None] = {}
        for slot in slots:
            log = self._core.logs.get(slot)
            if log is None or log.tenure is None or log.end == log.decided:
                continue
            for row in log.pending.values():
                if row.n > log.decided and is_child(row.link, prefix):
                    head = log.tenure.heads.get(row.link)
                    seen[row.link] = head.settled if head else None
        return seen

    def _decided(self, slot: int) -> int:
        log = self._core.logs.get(slot)
        return log.decided if log else 0
