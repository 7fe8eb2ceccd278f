"""Answers of a replica to a query: places of its documents, totals, and documents.

A search is answered by an index, if one fits (`indexed.py`). Else, in the order of links, it reads
some documents at a time, and may stop and return its progress. In any other order it must read all
of them, which is rejected where they are many and an index would help.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson

from docstore.errors import BadRequest, IndexNeeded, SnapshotGone, Unavailable
from docstore.model.document import Row
from docstore.model.slots import from_bitmap, to_bitmap
from docstore.query.aggregates import INT64_MAX, Grouping, Totals, grouping_of
from docstore.query.needs import needs_of
from docstore.query.ordering import Found, Order, Place, parse_order, place_of
from docstore.query.plans import wanted
from docstore.query.request import condition_of
from docstore.reads.scans.indexing import Indexing
from docstore.reads.scans.scanner import Scans
from docstore.runtime.links.rpc import Rpc
from docstore.storage.store import Corrupt, Result, Store, Version
from docstore.wire.requests import (
    FindDocuments,
    FindLatest,
    FoundLatest,
    FromCopy,
    ReadVersions,
    TotalDocuments,
)

FIRST_LINKS, LINKS_AT_ONCE = 256, 16_384
"""Links read by one statement, first and at most: a longer one would block other scans."""
SLOTS_AT_ONCE = 128
"""Slots read by one statement."""
BYTES_MAX = 4 << 20
"""Approximate bytes of an answer, which must fit into a frame of a link."""
LOOK_S = 4.0
"""Seconds after which a search in the order of links returns its progress."""
CATCH_UP_S = 2.0
"""Seconds to wait until this replica has reached the cut."""
GROUPS_MAX = 10_000
LOOKED_MAX = 200_000
"""Documents that a replica looks at for one page, if an index would spare it that."""
VERSIONS_AT_ONCE = 32
"""Versions read at once: each may be as large as a document may be."""
ROWS_AT_ONCE = 4_096

Asked = Mapping[str, Any]
"""Members of a scan's request, without its slots."""
Spans = Sequence[tuple[int, int]]
"""(slot, row of the cut)."""


_Asked = FindDocuments | TotalDocuments | ReadVersions


class Look(NamedTuple):
    """How documents were found. by: the index, "" for none; then `why` says why not.

    looked: documents that were looked at. changed: those of them that the index did not know.
    """

    by: str = ""
    looked: int = 0
    changed: int = 0
    why: str = ""


class FoundPage(NamedTuple):
    """Places of documents. until: place up to which they are complete; None: to the end.

    look: for requests that want it.
    """

    found: list[Found]
    until: Place | None
    look: Look | None = None


class Searches:
    """The replicas' side of a query. damaged: reports a slot with a damaged row."""

    def __init__(
        self,
        rpc: Rpc,
        store: Store,
        scans: Scans,
        indexing: Indexing,
        damaged: Callable[[int], None],
    ) -> None:
        self._store = store
        self._scans = scans
        self._indexing = indexing
        self._damaged = damaged
        rpc.serve(FindDocuments, self._find_here)
        rpc.serve(FindLatest, self._find_latest)
        rpc.serve(TotalDocuments, self._total_here)
        rpc.serve(ReadVersions, self._read_here)

    async def _find_here(self, asked: FindDocuments) -> FromCopy:
        answer = await self._answer(asked, lambda: self._find(asked))
        if not answer.problem and not asked.explains:  # The sender may know no `look`.
            return answer._replace(answer=tuple(answer.answer[:2]))
        return answer

    async def _find_latest(self, asked: FindLatest) -> FoundLatest:
        slots = list(from_bitmap(asked.slots))
        owned = await self._scans.positions.owned(slots, asked.left_s)
        spans = [(slot, n) for slot, (_, n) in owned.items() if n > 0]
        found = await self._find_here(
            FindDocuments(asked.asked, None, asked.limit, spans, asked.left_s, asked.explains)
        )
        bitmap, ordered = to_bitmap(owned, self._scans.slots), sorted(owned)
        epochs, ns = ([owned[slot][at] for slot in ordered] for at in (0, 1))
        return FoundLatest(bitmap, epochs, ns, found)

    async def _total_here(self, asked: TotalDocuments) -> FromCopy:
        return await self._answer(asked, lambda: self._total(asked))

    async def _read_here(self, asked: ReadVersions) -> FromCopy:
        return await self._answer(asked, lambda: self._read(asked))

    async def _answer(self, asked: _Asked, work: Callable[[], Awaitable[Any]]) -> FromCopy:
        """Return an answer, or a refusal. Raises Unavailable if another replica may have it."""
        wait_s = min(CATCH_UP_S, asked.left_s)
        elsewhere, late = await self._scans.arrived(asked.spans, wait_s)
        if elsewhere or late:
            raise Unavailable("this replica has not reached the cut: retry, or ask another node")
        try:
            return FromCopy("", await work())
        except (BadRequest, SnapshotGone) as error:
            return FromCopy(error.code, str(error))

    async def _find(self, asked: FindDocuments) -> FoundPage:
        order = parse_order(asked.asked["orderBy"])
        look = Look(why="the factory has no index")
        refuse: Callable[[], None] = partial(_insist_on_index, asked)
        may_use = bool(self._indexing.names(asked.asked["prefix"])) or asked.explains > 1
        if may_use or sum(n for _, n in asked.spans) > LOOKED_MAX:
            page, has_one = await self._find_by_index(asked, order)
            if page.look is None or page.look.by:
                return page
            look = page.look
            refuse = _accept if has_one else partial(_insist_on_index, asked, look.why)
        if order.is_by_link:
            page, looked = await self._find_by_link(asked, refuse)
            return page._replace(look=look._replace(looked=min(looked, look.looked or looked)))
        if look.looked > LOOKED_MAX:
            refuse()
        return (await self._find_in_order(asked, order))._replace(look=look)

    async def _find_by_index(self, asked: FindDocuments, order: Order) -> tuple[FoundPage, bool]:
        """Search by an index; without one, the page is empty, and its look says why.

        Return also whether an index fits, but has too many documents in its ranges.
        """
        loop = asyncio.get_running_loop()
        is_counted = asked.explains > 1 or not order.is_by_link
        until = loop.time() + min(LOOK_S, asked.left_s / 2)
        found: list[Found] = []
        place, size, looked = asked.after, 0, 0
        while True:
            rows = min(asked.limit - len(found), ROWS_AT_ONCE)
            fields, payload = await self._scans.look(
                {**asked.asked, "cut": asked.spans, "after": place, "rows": rows,
                 "links": LINKS_AT_ONCE, "indexes": "find", "store": self._indexing.store,
                 "most": LOOKED_MAX + 1 if is_counted else 0}
            )  # fmt: skip
            if not fields["index"]:  # Either at once, or because the index was dropped meanwhile.
                look = Look(looked=fields["looked"], why=fields["why"])
                page = FoundPage(found, place, None if looked else look)
                return page, fields["fits"]
            found += [tuple(row) for row in orjson.loads(payload)]
            place, size, looked = fields["until"], size + len(payload), looked + fields["looked"]
            is_enough = len(found) >= asked.limit or size > BYTES_MAX
            if place is None or is_enough or loop.time() >= until:
                look = Look(fields["index"], looked, fields["changed"])
                return FoundPage(found, place, look), True

    async def _find_by_link(
        self, asked: FindDocuments, refuse: Callable[[], None]
    ) -> tuple[FoundPage, int]:
        """Search growing numbers of links until there are enough rows, or the time is over.

        refuse: called after too many. Return the page, and at least as many links as were looked
        at.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + min(LOOK_S, asked.left_s / 2)
        found: list[Found] = []
        place, size, links, looked = asked.after, 0, FIRST_LINKS + 2 * asked.limit, 0
        while True:
            rows, links = min(asked.limit - len(found), ROWS_AT_ONCE), min(links, LINKS_AT_ONCE)
            more, place, more_bytes = await self._look(asked, asked.spans, place, rows, links)
            looked += links
            links *= 2
            found += more
            size += more_bytes
            is_enough = len(found) >= asked.limit or size > BYTES_MAX
            if place is None or is_enough or loop.time() >= until:
                return FoundPage(found, place), looked
            if looked > LOOKED_MAX:
                refuse()

    async def _find_in_order(self, asked: FindDocuments, order: Order) -> FoundPage:
        """Search all documents, and return the first rows in the order."""
        found: list[Found] = []
        limit, is_all = asked.limit, True
        for part in _parts(asked):
            more, until, more_bytes = await self._look(asked, part, asked.after, limit)
            found += more
            order.sort(found)
            limit = max(1, min(limit, BYTES_MAX * len(more) // (more_bytes + 1) or limit))
            is_all = is_all and until is None and len(found) <= limit
            del found[limit:]
        return FoundPage(found, None if is_all else place_of(found[-1]))

    async def _look(
        self, asked: FindDocuments, spans: Spans, after: Place | None, rows: int, links: int = 0
    ) -> tuple[list[Found], Place | None, int]:
        """Return rows, the place up to which they are complete, and their bytes."""
        fields, payload = await self._scans.look(
            {**asked.asked, "cut": spans, "after": after, "rows": rows, "links": links}
        )
        return [tuple(row) for row in orjson.loads(payload)], fields["until"], len(payload)

    async def _total(self, asked: TotalDocuments) -> tuple[int, list[Any]]:
        totals = Totals(_grouping(asked.asked))
        if not await self._total_by_index(asked, totals):
            await self._total_by_scan(asked, totals)
        for found in totals.groups.values():
            if any(isinstance(each, int) and abs(each) > INT64_MAX for each in found):
                raise BadRequest("a sum must fit into 64 bits: cast its member to double")
        return totals.documents, [(list(keys), found) for keys, found in totals.groups.items()]

    async def _total_by_index(self, asked: TotalDocuments, totals: Totals) -> bool:
        """Add the documents that an index finds; return whether one did."""
        if not self._indexing.names(asked.asked["prefix"]):
            return False
        fields, payload = await self._scans.look(
            {**asked.asked, "cut": asked.spans, "indexes": "total", "store": self._indexing.store}
        )
        for line in payload.splitlines():
            totals.add(orjson.loads(line))
        insist_on_few(totals)
        return bool(fields["index"])

    async def _total_by_scan(self, asked: TotalDocuments, totals: Totals) -> None:
        for part in _parts(asked):
            after: list[Any] | None = [-1, "", -1]
            while after is not None:
                fields, payload = await self._scans.page(
                    {**asked.asked, "cut": part, "columns": (), "format": "ndjson",
                     "compression": "", "after": after, "rows": ROWS_AT_ONCE, "schema": False,
                     "skipped": False}
                )  # fmt: skip
                for line in payload.splitlines():
                    totals.add(orjson.loads(line))
                insist_on_few(totals)
                after = fields["next"]

    async def _read(self, asked: ReadVersions) -> list[tuple[Any, ...]]:
        """Return the first of the wanted versions: at least one, and as many as fit."""
        ends = dict(asked.spans)
        wanted = [Version(slot, link, version, ends[slot]) for slot, link, version in asked.wanted]
        rows: list[tuple[Any, ...]] = []
        size = 0
        while len(rows) < len(wanted) and size < BYTES_MAX:
            part = wanted[len(rows) : len(rows) + VERSIONS_AT_ONCE]
            for version, found in zip(part, await self._store.read(part), strict=True):
                row = self._row(version, found)
                rows.append(tuple(row))
                size += len(row.state)
        return rows

    def _row(self, version: Version, found: Result) -> Row:
        if isinstance(found, Corrupt):
            self._damaged(version.slot)
            raise Unavailable(
                f"slot {version.slot} is damaged on this node, and is being repaired: ask another"
            )
        if not found:
            raise SnapshotGone(
                f"version {version.version} of {version.link} was compacted: use a newer cut"
            )
        return found[0]


def _grouping(asked: Asked) -> Grouping:
    grouping = grouping_of(asked.get("aggregates", ""), asked.get("groupBy", ""))
    assert grouping is not None
    return grouping


def _accept() -> None:
    """Accept a search of many documents: its index is of no use."""


def _insist_on_index(asked: FindDocuments, why: str = "") -> None:
    """Reject a search of many documents if an index would help. Raises IndexNeeded."""
    order, needs = (
        parse_order(asked.asked["orderBy"]),
        needs_of(condition_of(asked.asked).predicate),
    )
    if index := wanted(needs, order):
        path = asked.asked["prefix"].rstrip("/")
        raise IndexNeeded(
            f"one page would look at more than {LOOKED_MAX} documents"
            f"{f' ({why})' if why else ''}: declare the index {index!r} (`indexes` of {path}), or"
            " narrow the condition by documentSelfLink"
        )


def insist_on_few(totals: Totals) -> None:
    if len(totals.groups) > GROUPS_MAX:
        raise BadRequest(f"the answer must have at most {GROUPS_MAX} groups: narrow the condition")
    values = (each for keys, found in totals.groups.items() for each in (*keys, *found))
    if sum(len(each) for each in values if isinstance(each, str)) > BYTES_MAX:
        raise BadRequest(
            f"all strings of the groups must have at most {BYTES_MAX} characters: narrow the"
            " condition"
        )


def _parts(asked: FindDocuments | TotalDocuments) -> Iterator[Spans]:
    """Yield SLOTS_AT_ONCE slots at a time. Raises Unavailable after the deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + asked.left_s
    for first in range(0, len(asked.spans), SLOTS_AT_ONCE):
        if loop.time() >= deadline:
            raise Unavailable(
                "the search was not over before its timeout: narrow the condition, or retry"
            )
        yield asked.spans[first : first + SLOTS_AT_ONCE]
