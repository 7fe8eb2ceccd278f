"""Queries over a whole group: the entry node asks replicas and merges their answers.

A query reads a cut (`query/cut.py`), so its pages are consistent despite concurrent writes. Each
slot is searched once, by its owner or by another replica that has reached the cut. If a replica
does not answer, the node asks the next one; if none does, the query fails: no answer is partial.

For a page the node first finds the places of documents, which are small, merges them in order, and
then reads the documents that fit.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from docstore.documents.view import ReplicaView
from docstore.errors import BadRequest, IndexNeeded, NoQuorum, SnapshotGone, Unavailable
from docstore.model.document import Row
from docstore.model.slots import from_bitmap, slot_of
from docstore.query.aggregates import Totals
from docstore.query.cut import Cut, cut_of
from docstore.query.ordering import Order, Place, parse_order, place_of
from docstore.query.request import condition_of
from docstore.reads.scans.searches import Asked, FoundPage, Look, Spans, insist_on_few
from docstore.runtime.links.rpc import Rpc
from docstore.wire.requests import (
    FindDocuments,
    FindLatest,
    FoundLatest,
    FromCopy,
    ReadVersions,
    ToCopy,
    TotalDocuments,
)

AGAIN_S = 0.1


class GroupQueries:
    """The entry node's side of a query; `searches.py` is the side of the replicas."""

    def __init__(self, view: ReplicaView, rpc: Rpc) -> None:
        self._view = view
        self._members = view.members
        self._rpc = rpc

    @property
    def group(self) -> str:
        return self._members.configuration.cluster_id

    async def find_latest(
        self, asked: Asked, limit: int, timeout_s: float, explains: int
    ) -> tuple[Cut, FoundPage] | None:
        """Return a new cut, and the first places at it: owners confirm their rows and search them.

        None if not all slots were searched by their owners, or the condition names the links:
        then a cut comes first. Raises BadRequest.
        """
        slots, me = self._members.configuration.slots, self._members.me
        if condition_of(asked).links is not None or self._members.lacks_quorum:
            return None
        owners = self._view.owners.owners_of(range(slots))

        async def ask(owner: str) -> FoundLatest | None:
            bitmap = self._view.bitmap(owners[owner])
            request = FindLatest(asked, limit, bitmap, timeout_s, explains)
            return await self._rpc.call_while(
                owner, request, timeout_s, is_lost=lambda: not self._members.is_alive(owner)
            )

        answers = await asyncio.gather(*map(ask, sorted(owners, key=lambda each: each == me)))
        found = [answer for answer in answers if answer is not None]
        positions: dict[int, tuple[int, int]] = {}
        for bitmap, epochs, ns, _ in found:
            positions.update(zip(from_bitmap(bitmap), zip(epochs, ns, strict=True), strict=True))
        if len(positions) < slots or any(answer.found.problem for answer in found):
            return None
        pages = [FoundPage(*answer.found.answer) for answer in found]
        cut = cut_of(self.group, slots, positions)
        return cut, _explained(merged(parse_order(asked["orderBy"]), pages, limit), pages)

    async def find(
        self,
        asked: Asked,
        cut: Cut,
        after: Place | None,
        limit: int,
        timeout_s: float,
        explains: int = 1,
    ) -> FoundPage:
        """Return up to `limit` places after a place, in order. Raises SnapshotGone, Unavailable.

        explains: see FindDocuments.
        """
        order = parse_order(asked["orderBy"])
        answers = await self._from_copies(
            self._spans(asked, cut),
            lambda spans, left_s: FindDocuments(asked, after, limit, spans, left_s, explains),
            timeout_s,
        )
        pages = [FoundPage(*answer) for answer in answers]
        return _explained(merged(order, pages, limit), pages)

    async def totals(self, totals: Totals, asked: Asked, cut: Cut, timeout_s: float) -> None:
        """Add the aggregates of all replicas. Raises BadRequest, SnapshotGone, Unavailable."""
        answers = await self._from_copies(
            self._spans(asked, cut),
            lambda spans, left_s: TotalDocuments(asked, spans, left_s),
            timeout_s,
        )
        for documents, groups in answers:
            totals.documents += documents
            for keys, functions in groups:
                totals.put(tuple(keys), functions)
            insist_on_few(totals)

    async def read(
        self, wanted: Sequence[tuple[int, str, int]], cut: Cut, timeout_s: float
    ) -> list[Row]:
        """Return the first wanted versions, at least one. Raises SnapshotGone, Unavailable."""
        ends = cut.by_slot()
        spans = {slot: ends[slot][1] for slot, _, _ in wanted}

        def request(spans: Spans, left_s: float) -> ReadVersions:
            slots = {slot for slot, _ in spans}
            return ReadVersions([each for each in wanted if each[0] in slots], spans, left_s)

        answers = await self._from_copies(spans, request, timeout_s)
        rows = {(row[4], row[5]): Row(*row) for answer in answers for row in answer}
        # Each replica returns its first versions, so the page ends at the first missing one.
        came = takewhile(rows.__contains__, ((link, version) for _, link, version in wanted))
        return [rows[each] for each in came]

    def _spans(self, asked: Asked, cut: Cut) -> dict[int, int]:
        """Return slot -> row of the cut, of the slots that can hold a matching document."""
        ends = {slot: n for slot, (_, n) in cut.by_slot().items() if n > 0}
        links = condition_of(asked).links
        if links is None:
            return ends
        slots = {slot_of(link, cut.slots) for link in links}
        return {slot: n for slot, n in ends.items() if slot in slots}

    async def _from_copies(
        self, spans: Mapping[int, int], request: Callable[[Spans, float], ToCopy], timeout_s: float
    ) -> list[Any]:
        """Return one answer for each slot. Raises BadRequest, SnapshotGone, Unavailable."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        left, answers = dict(spans), []
        tried: dict[int, set[str]] = defaultdict(set)
        gone: dict[int, str] = {}
        while left:
            left_s = deadline - loop.time()
            if left_s <= 0:
                raise self._unanswered(len(left))
            asked = self._by_copy(left, tried)
            found = await asyncio.gather(
                *(self._ask(copy, slots, left, request, left_s) for copy, slots in asked.items())
            )
            for (copy, slots), answer in zip(asked.items(), found, strict=True):
                if answer is not None and not answer.problem:
                    answers.append(answer.answer)
                    for slot in slots:
                        del left[slot]
                    continue
                if answer is not None and answer.problem != SnapshotGone.code:
                    is_index = answer.problem == IndexNeeded.code
                    raise (IndexNeeded if is_index else BadRequest)(answer.answer)
                for slot in slots:
                    tried[slot].add(copy)
                    if answer is not None:
                        gone[slot] = answer.answer
            if left and not asked:  # All replicas were asked: begin again.
                if why := next((gone[slot] for slot in left if slot in gone), ""):
                    raise SnapshotGone(why)
                tried.clear()
                await asyncio.sleep(AGAIN_S)
        return answers

    def _unanswered(self, slots: int) -> Unavailable:
        if self._members.lacks_quorum:
            return NoQuorum("this node does not hear a majority of the members: ask another")
        return Unavailable(f"{slots} slots were not searched in time: ask again, for less, or with"
                           " more time")  # fmt: skip

    async def _ask(
        self, copy: str, slots: Iterable[int], ends: Mapping[int, int],
        request: Callable[[Spans, float], ToCopy], left_s: float,
    ) -> FromCopy | None:  # fmt: skip
        asked = request([(slot, ends[slot]) for slot in slots], left_s)
        return await self._rpc.call_while(
            copy, asked, left_s, is_lost=lambda: not self._members.is_alive(copy)
        )

    def _by_copy(self, slots: Iterable[int], tried: Mapping[int, set[str]]) -> dict[str, list[int]]:
        """Return node -> slots to ask it for, without the slots whose replicas were all tried."""
        new = [slot for slot in slots if slot not in tried] if tried else slots
        owners, me = self._view.owners.owners_of(new), self._members.me
        reached = {owner: its for owner, its in owners.items() if self._rpc.reaches(owner)}
        # This node is the last: its own work would delay the requests to others.
        copies = dict(sorted(reached.items(), key=lambda each: each[0] == me))
        asked = set().union(*copies.values())
        for slot in slots:
            if slot not in asked and (copy := self._copy_of(slot, tried.get(slot, frozenset()))):
                copies.setdefault(copy, []).append(slot)
        return copies

    def _copy_of(self, slot: int, tried: set[str] | frozenset[str]) -> str:
        """Return the next node to ask for a slot; the owner first, as it has reached any cut."""
        copies = [self._view.owners.owner_of(slot), *self._members.placement.replicas(slot)]
        fit = (each for each in copies if each and each not in tried and self._rpc.reaches(each))
        return next(fit, "")


def _explained(page: FoundPage, pages: Sequence[FoundPage]) -> FoundPage:
    """Say how all replicas together found documents: by an index only if each did."""
    looks = [Look(*each.look) for each in pages if each.look is not None]
    names = {look.by for look in looks}
    by = ", ".join(sorted(names)) if "" not in names else ""
    why = next((look.why for look in looks if look.why), "")
    looked = sum(look.looked for look in looks)
    return page._replace(look=Look(by, looked, sum(look.changed for look in looks), why))


def merged(order: Order, stretches: Sequence[FoundPage], limit: int) -> FoundPage:
    """Merge pages of replicas, up to the first place after which one of them may have more."""
    found = [row for each in stretches for row in each.found]
    ends = [(*each.until, -1) for each in stretches if each.until is not None]
    order.sort(ends)
    found += ends[:1]
    order.sort(found)
    if ends:
        found = list(takewhile(lambda row: row is not ends[0], found))
    if len(found) > limit:
        return FoundPage(found[:limit], place_of(found[limit - 1]))
    return FoundPage(found, place_of(ends[0]) if ends else None)
