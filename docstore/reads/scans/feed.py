"""The change feed, from any node: the rows of all logs after a cut.

A slot is read from this node's replica if it has one, else from its owner or another connected
replica. The feed has only decided rows, so it never takes one back; a replica that lags returns
them later. Versions of one document are in order; different documents are not.

Source: MongoDB's change streams (resume tokens), CouchDB's `_changes` (long polls).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import orjson

from docstore.documents.view import ReplicaView
from docstore.errors import NoQuorum, SnapshotGone, Unavailable
from docstore.model import document_members
from docstore.model.document import ballot_at
from docstore.query.cut import Cut, Position
from docstore.runtime.links.rpc import Rpc
from docstore.wire.requests import ChangeLines, ReadChanges, ReadEvents

COLUMNS = ("slot", "seq", *document_members.COLUMN_NAMES, "deleted", "body")
LINK = ("documentSelfLink",)
SLOTS_AT_ONCE, LINKS_AT_ONCE = 128, 1_000
FIRST_ROWS, BYTES_MAX = 16, 4 << 20
"""Rows of the first statement, whose size determines the next ones; bytes after which a page
ends."""
POLL_S = 0.05
ELSEWHERE_S = 0.25
"""Seconds between two requests for changes of slots without a replica here."""
ANSWER_S = 2.0
"""Seconds to wait for another node; after that its slots come with the next page."""

Pages = Callable[[dict[str, Any]], Awaitable[tuple[dict[str, Any], bytes]]]
Span = tuple[int, int, int]
"""(slot, after, until)."""


class ChangeFilter(NamedTuple):
    """Changes below some paths, of documents that fulfil a condition after or before the change.

    before: each change with the body of the version before. events: False for only those changes
    after which the condition holds, as earlier versions of docstore ask for.
    """

    prefixes: Sequence[str]
    where: str = ""
    before: bool = False
    events: bool = True


class ChangePage(NamedTuple):
    """Changes, one line of JSON each. until: the cut at which the next page begins.

    unheard: number of slots without an answer.
    """

    lines: bytes
    rows: int
    until: Cut
    unheard: int


class Feed:
    """Reads pages of changes, over all slots."""

    def __init__(
        self,
        view: ReplicaView,
        rpc: Rpc,
        pages: Pages,
        shown: Callable[[int], int],
        batch_end: Callable[[int, int], Awaitable[int]],
        rng: Random,
    ) -> None:
        """shown: returns the last decided row of a slot that `pages` can read.

        batch_end: returns the last row of the atomic batch of a row, or the row itself.
        rng: picks the slots that are read first, so that busy slots do not starve the others.
        """
        self._view = view
        self._members = view.members
        self._rpc = rpc
        self._pages = pages
        self._shown = shown
        self._batch_end = batch_end
        self._seen = 0
        self._seen_at = 0.0
        self._rng = rng
        rpc.serve(ReadChanges, self._answer)
        rpc.serve(ReadEvents, self._answer)

    async def read(self, wanted: ChangeFilter, since: Cut, rows: int) -> ChangePage:
        """Return up to `rows` changes after a cut, of its slots; more where a batch ends later.

        Raises SnapshotGone; NoQuorum where no majority is heard, as this node would see no news.
        """
        if self._members.lacks_quorum:
            raise NoQuorum("this node does not hear a majority of the members: ask another")
        positions = since.by_slot()
        afters = {slot: n for slot, (_, n) in positions.items()}
        asked = self._by_holder(afters)
        unheard = len(asked.pop("", ()))
        # Each node gets a share, so that its changes cannot crowd out those of others.
        share = max(1, rows // max(1, len(asked)))
        holders = self._rng.sample(list(asked), len(asked))
        lines, count = [], 0
        reached: dict[int, Position] = {}
        # Ask all nodes concurrently, unless there are more nodes than rows.
        while holders and count < rows:
            some, holders = holders[: rows - count], holders[rows - count :]
            answers = await asyncio.gather(
                *(self._ask_until_kept(wanted, holder, asked[holder], share) for holder in some)
            )
            for answer, silent in chain.from_iterable(answers):
                unheard += silent
                lines.append(answer.lines)
                count += answer.rows
                reached |= {slot: (epoch, n) for slot, epoch, n in answer.reached}
        return ChangePage(b"".join(lines), count, since.moved(reached), unheard)

    def slot_of(self, link: str) -> int:
        return self._view.slot_of(link)

    async def news(self, since: int, timeout_s: float) -> bool:
        """Wait until there may be changes after `seen()` was `since`; False after the timeout.

        In slots without a replica here there may always be changes.
        """
        loop = asyncio.get_running_loop()
        is_all_here = (
            len(self._by_holder(dict.fromkeys(range(self._members.configuration.slots), 0))) == 1
        )
        deadline = loop.time() + (timeout_s if is_all_here else min(ELSEWHERE_S, timeout_s))
        while self.seen() == since and loop.time() < deadline:  # noqa: ASYNC110 - a sum has no event
            await asyncio.sleep(min(POLL_S, max(0.0, deadline - loop.time())))
        return not is_all_here or self.seen() != since

    def seen(self) -> int:
        """Return a number that grows with the rows that this node can show, POLL_S late at most."""
        now = asyncio.get_running_loop().time()
        if now >= self._seen_at + POLL_S:  # Counted once for all waiting readers.
            self._seen_at = now
            self._seen = sum(map(self._shown, self._view.logs))
        return self._seen

    async def touched(self, looked: dict[int, int]) -> set[str] | None:
        """Return the links of new changes; None if not all of them are known.

        One call serves all waiting readers: most of them learn from it that nothing concerns them.
        looked: slot -> row up to which the previous call has read; this call updates it. Raises
        Unavailable, SnapshotGone.
        """
        ends = {slot: self._shown(slot) for slot, log in self._view.logs.items() if log.full}
        spans = [(s, looked[s], end) for s, end in sorted(ends.items()) if looked.get(s, end) < end]
        is_known = len(ends) == self._members.configuration.slots and ends.keys() <= looked.keys()
        looked.clear()
        looked.update(ends)
        if not is_known or len(spans) > SLOTS_AT_ONCE:
            return None
        links: set[str] = set()
        position: Sequence[Any] | None = (-1, "", -1) if spans else None
        while position is not None:
            question = _question(ChangeFilter(["/"]), spans, position, LINKS_AT_ONCE, LINK)
            fields, payload = await self._pages(question)
            links.update(orjson.loads(line)[LINK[0]] for line in payload.splitlines())
            position = fields["next"]
        return links

    def _by_holder(
        self, afters: Mapping[int, int], but: Collection[str] = ()
    ) -> dict[str, dict[int, int]]:
        """Return node -> its slots with their first row; "": slots that no reachable node has."""
        holders: dict[str, dict[int, int]] = {}
        for slot, n in afters.items():
            holders.setdefault(self._holder(slot, but), {})[slot] = n
        return holders

    def _holder(self, slot: int, but: Collection[str]) -> str:
        log = self._view.logs.get(slot)
        if log is not None and log.full and self._members.me not in but:
            return self._members.me
        candidates = [self._view.owners.owner_of(slot), *self._members.placement.replicas(slot)]
        linked = (
            each for each in candidates if each and each not in but and self._rpc.reaches(each)
        )
        return next(linked, "")

    async def _ask_until_kept(
        self,
        wanted: ChangeFilter,
        holder: str,
        after: Mapping[int, int],
        rows: int,
        tried: Collection[str] = (),
    ) -> list[tuple[ChangeLines, int]]:
        """Return the lines of a node, and the number of slots without an answer.

        Replicas compact their logs independently: another one may still have the rows.
        Raises SnapshotGone where none has them.
        """
        answer = await self._ask(holder, wanted, after, rows)
        if answer is None:
            return [(ChangeLines(b"", 0, []), len(after))]
        if not isinstance(answer, str):
            return [(answer, 0)]
        tried = (*tried, holder)
        found: list[tuple[ChangeLines, int]] = []
        for other, some in self._by_holder(after, tried).items():
            if not other:
                raise SnapshotGone(answer)
            left = rows - sum(lines.rows for lines, _ in found)
            if left > 0:
                found += await self._ask_until_kept(wanted, other, some, left, tried)
        return found

    async def _ask(
        self, holder: str, wanted: ChangeFilter, after: Mapping[int, int], rows: int
    ) -> ChangeLines | str | None:
        """Return the lines of a node, the reason why they are gone, or None without an answer."""
        asked: ReadChanges | ReadEvents
        if wanted.where or wanted.before or len(wanted.prefixes) > 1:
            asked = ReadEvents(
                wanted.prefixes, wanted.where, wanted.before, list(after.items()), rows
            )
        else:
            asked = ReadChanges(wanted.prefixes[0], "", list(after.items()), rows)
        try:
            return await self._rpc.call(holder, asked, ANSWER_S)
        except Unavailable:
            return None

    async def _answer(self, asked: ReadChanges | ReadEvents) -> ChangeLines | str:
        if isinstance(asked, ReadEvents):
            wanted = ChangeFilter(asked.prefixes, asked.where, asked.before)
        else:
            wanted = ChangeFilter([asked.prefix], asked.where, events=False)
        try:
            return await self._read_here(wanted, dict(asked.after), asked.rows)
        except SnapshotGone as error:
            return str(error)

    async def _read_here(
        self, wanted: ChangeFilter, after: Mapping[int, int], rows: int
    ) -> ChangeLines:
        shown = self._shown
        spans = [(s, n, shown(s)) for s, n in sorted(after.items()) if shown(s) > n]
        lines: list[bytes] = []
        reached: dict[int, int] = {}
        left, bytes_left = rows, BYTES_MAX
        for part in self._parts(spans, rows):
            if left <= 0 or bytes_left <= 0:
                break
            payload, count, found = await self._read_spans(wanted, part, left, bytes_left)
            lines.append(payload)
            left, bytes_left = left - count, bytes_left - len(payload)
            reached |= found
        logs = self._view.logs
        positions = [
            (slot, ballot_at(logs[slot].ballots, n)[0], n)
            for slot, n in reached.items()
            if slot in logs
        ]
        return ChangeLines(b"".join(lines), rows - left, positions)

    def _parts(self, spans: Sequence[Span], rows: int) -> list[Sequence[Span]]:
        """Return the slots in parts; with more than `rows` changes they begin at a random slot."""
        is_much = sum(until - after for _, after, until in spans) > rows
        first = self._rng.randrange(len(spans)) if is_much else 0
        return [
            some[begin : begin + SLOTS_AT_ONCE]
            for some in (spans[first:], spans[:first])
            for begin in range(0, len(some), SLOTS_AT_ONCE)
        ]

    async def _read_spans(
        self, wanted: ChangeFilter, spans: Sequence[Span], rows: int, bytes_max: int
    ) -> tuple[bytes, int, dict[int, int]]:
        lines = b""
        left, at_once = rows, FIRST_ROWS
        position: Sequence[Any] | None = (-1, "", -1)
        while position is not None and left > 0 and len(lines) < bytes_max:
            question = _question(wanted, spans, position, min(left, at_once))
            fields, payload = await self._pages(question)
            position, count = fields["next"], fields["rows"]
            lines, left = lines + payload, left - count
            fitting = (bytes_max - len(lines)) * count // max(1, len(payload))
            at_once = max(1, min(2 * at_once, fitting))
        if position is not None and position[0] >= 0:  # A page must not split a batch (rule A2).
            slot, _, n = position
            last = await self._batch_end(slot, n)
            if last > n:
                begin = (-1, "", -1)
                question = _question(wanted, [(slot, n, last)], begin, last - n)
                fields, payload = await self._pages(question)
                lines, left, position = lines + payload, left - fields["rows"], (slot, "", last)
        return lines, rows - left, _reached(spans, position)


def _question(
    wanted: ChangeFilter,
    spans: Sequence[Span],
    after: Sequence[Any],
    rows: int,
    columns: Sequence[str] = COLUMNS,
) -> dict[str, Any]:
    if wanted.before:
        columns = (*columns, "before")
    return {
        "prefix": list(wanted.prefixes), "where": wanted.where, "ranges": spans, "columns": columns,
        "nested": True, "events": bool(wanted.where) and wanted.events, "format": "ndjson",
        "compression": "", "after": after, "rows": rows,
        "schema": False, "skipped": False,
    }  # fmt: skip


def _reached(spans: Sequence[Span], position: Sequence[Any] | None) -> dict[int, int]:
    """Return slot -> last row read. position: of the last row of the page, None for all read."""
    if position is None:
        return {slot: until for slot, _, until in spans}
    slot_there, _, n_there = position
    reached = {slot: until for slot, _, until in spans if slot < slot_there}
    return reached | ({slot_there: n_there} if slot_there >= 0 else {})
