"""Changes as anybody may read them, from any node: what all logs have beyond a cut.

A slot is read from this node's copy where there is one, else from its owner or another replica that
is connected. Rows are what a majority has, so nothing is ever taken back; what a copy has not heard
of yet comes later. Versions of one document come in their order, documents in none.

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
from docstore.wire.requests import ChangeLines, ReadChanges

COLUMNS = ("slot", "seq", *document_members.COLUMN_NAMES, "deleted", "body")
LINK = ("documentSelfLink",)
SLOTS_AT_ONCE, LINKS_AT_ONCE = 128, 1_000
FIRST_ROWS, BYTES_MAX = 16, 4 << 20
"""A first page is small, the next are judged by it; a stretch ends soon after so many bytes."""
POLL_S = 0.05
ELSEWHERE_S = 0.25
"""How often slots that are only on other nodes are asked for news."""
ANSWER_S = 2.0
"""Who does not answer by then is asked again with the next stretch."""

Pages = Callable[[dict[str, Any]], Awaitable[tuple[dict[str, Any], bytes]]]
Span = tuple[int, int, int]
"""(slot, after, until)."""


class ChangeFilter(NamedTuple):
    """Which changes: below which path, and on what condition."""

    prefix: str
    where: str = ""


class ChangePage(NamedTuple):
    """Some changes, a line of JSON for each.

    until: where the next stretch begins. unheard: slots that nobody could be asked for.
    """

    lines: bytes
    rows: int
    until: Cut
    unheard: int


class Feed:
    """Reads stretches of all slots."""

    def __init__(
        self,
        view: ReplicaView,
        rpc: Rpc,
        pages: Pages,
        shown: Callable[[int], int],
        batch_end: Callable[[int, int], Awaitable[int]],
        rng: Random,
    ) -> None:
        """shown: up to which row of a slot `pages` find what is decided.

        batch_end: the last row of the atomic batch that a row is of, or the row itself.
        rng: says who is first where not all are read, so that those with much starve none.
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

    async def read(self, wanted: ChangeFilter, since: Cut, rows: int) -> ChangePage:
        """Return up to `rows` beyond a cut, in the slots that it speaks of; none if there are none.

        There are more only where an atomic batch ends later.
        Raises SnapshotGone; Unavailable where no majority is heard, since nothing new comes there.
        """
        if self._members.lacks_quorum:
            raise NoQuorum("this node does not hear a majority of the members: ask another")
        positions = since.by_slot()
        afters = {slot: n for slot, (_, n) in positions.items()}
        asked = self._by_holder(afters)
        unheard = len(asked.pop("", ()))
        share = max(1, rows // max(1, len(asked)))  # Nobody's news wait for those of others.
        holders = self._rng.sample(list(asked), len(asked))
        lines, count = [], 0
        reached: dict[int, Position] = {}
        while holders and count < rows:  # All at once, unless fewer rows are wanted than they are.
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
        """Return the slot in which the changes of a document are."""
        return self._view.slot_of(link)

    async def news(self, since: int, timeout_s: float) -> bool:
        """Return when there may be changes after `seen()` was `since`, or the time is over.

        Whether there may be: where others have to be asked, they always may.
        """
        loop = asyncio.get_running_loop()
        is_all_here = len(self._by_holder(dict.fromkeys(range(self._members.slots), 0))) == 1
        deadline = loop.time() + (timeout_s if is_all_here else min(ELSEWHERE_S, timeout_s))
        while self.seen() == since and loop.time() < deadline:  # noqa: ASYNC110 - a sum has no event
            await asyncio.sleep(min(POLL_S, max(0.0, deadline - loop.time())))
        return not is_all_here or self.seen() != since

    def seen(self) -> int:
        """Return a number that grows with what this node can show; a little late."""
        now = asyncio.get_running_loop().time()
        if now >= self._seen_at + POLL_S:  # However many wait, it is counted once.
            self._seen_at = now
            self._seen = sum(map(self._shown, self._view.logs))
        return self._seen

    async def touched(self, looked: dict[int, int]) -> set[str] | None:
        """Return the links of new changes, each once; None where there may be others as well.

        looked: slot -> up to which row this was asked before; it is moved on. One look for all who
        wait tells most of them that there is nothing for them. Raises Unavailable, SnapshotGone.
        """
        ends = {slot: self._shown(slot) for slot, log in self._view.logs.items() if log.full}
        spans = [(s, looked[s], end) for s, end in sorted(ends.items()) if looked.get(s, end) < end]
        is_known = len(ends) == self._members.slots and ends.keys() <= looked.keys()
        looked.clear()
        looked.update(ends)
        if not is_known or len(spans) > SLOTS_AT_ONCE:
            return None
        links: set[str] = set()
        position: Sequence[Any] | None = (-1, "", -1) if spans else None
        while position is not None:
            question = _question(ChangeFilter("/"), spans, position, LINKS_AT_ONCE, LINK)
            fields, payload = await self._pages(question)
            links.update(orjson.loads(line)[LINK[0]] for line in payload.splitlines())
            position = fields["next"]
        return links

    # Who has what

    def _by_holder(
        self, afters: Mapping[int, int], but: Collection[str] = ()
    ) -> dict[str, dict[int, int]]:
        """Return node -> slots to be read there; "" for those that no node can be asked for."""
        holders: dict[str, dict[int, int]] = {}
        for slot, n in afters.items():
            holders.setdefault(self._holder(slot, but), {})[slot] = n
        return holders

    def _holder(self, slot: int, but: Collection[str]) -> str:
        log = self._view.logs.get(slot)
        if log is not None and log.full and self._members.me not in but:
            return self._members.me
        candidates = [
            self._view.owners.owner_of(slot),
            *self._members.placement.replicas(slot),
        ]
        linked = (
            each for each in candidates if each and each not in but and self._rpc.reaches(each)
        )
        return next(linked, "")

    # Both sides

    async def _ask_until_kept(
        self,
        wanted: ChangeFilter,
        holder: str,
        after: Mapping[int, int],
        rows: int,
        tried: Collection[str] = (),
    ) -> list[tuple[ChangeLines, int]]:
        """Return the lines of a node, and the number of slots that no node answers for.

        Each replica trims its log at its own time: what one has trimmed, another one may have.
        Raises SnapshotGone where none has it.
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
        """Return what a node has, why it is gone, or None if there is no answer."""
        asked = ReadChanges(*wanted, list(after.items()), rows)
        try:
            return await self._rpc.call(holder, asked, ANSWER_S)
        except Unavailable:
            return None

    async def _answer(self, asked: ReadChanges) -> ChangeLines | str:
        wanted = ChangeFilter(asked.prefix, asked.where)
        try:
            return await self._read_here(wanted, dict(asked.after), asked.rows)
        except SnapshotGone as error:
            return str(error)

    async def _read_here(
        self, wanted: ChangeFilter, after: Mapping[int, int], rows: int
    ) -> ChangeLines:
        """Read what this copy has."""
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
        """Return the slots in parts, any of them first if there may be more than so many rows."""
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
        """Return lines, how many, and slot -> n up to where."""
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
        if position is not None and position[0] >= 0:  # It does not end within a batch (rule A2).
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
    """Return the question for a page of changes."""
    return {
        "prefix": wanted.prefix, "where": wanted.where, "ranges": spans, "columns": columns,
        "nested": True, "format": "ndjson", "compression": "", "after": after, "rows": rows,
        "schema": False, "skipped": False,
    }  # fmt: skip


def _reached(spans: Sequence[Span], position: Sequence[Any] | None) -> dict[int, int]:
    """Return slot -> n up to where a page's spans have been read."""
    if position is None:
        return {slot: until for slot, _, until in spans}
    slot_there, _, n_there = position
    reached = {slot: until for slot, _, until in spans if slot < slot_there}
    return reached | ({slot_there: n_there} if slot_there >= 0 else {})
