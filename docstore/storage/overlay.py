"""What is durable in the journal and not yet in the tables, and how each query is answered by both.

A commit is durable once its group is in the journal; the tables follow behind. So that every answer
is one that the tables would give had they followed all of it, a query is answered in one of four
ways: by the rows that are here alone; by the tables up to where these rows begin, and then by these
rows; by the tables, once they have followed a certain group; or by the tables as they are.

Whoever asks looks here first and at the tables afterwards: what is here no more is there already,
since a group leaves after the COMMIT that holds it. In the other order a document could be in
neither. One event loop does all of it: groups come in it (when durable, before anybody is told) and
go in it, so nothing changes while a plan is made, and no lock is needed. What changes between the
plan and the tables' answer adds rows beyond the bounds that the tables are asked for, or takes rows
of the slot away, which `merged` notices.

Writes that take rows away again (Truncate, Erase, Base, Trim, Purge) are not imitated here: until
the tables have followed the last of them, their slot's queries wait.

Pure: no clock, no I/O.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import assert_never

from docstore.model.document import Row
from docstore.storage.arrivals import Aged, Arrivals, Arrive, Heads, Lines, Prune, SaveCursor, Stand
from docstore.storage.shelf import row_bytes, within_bytes
from docstore.storage.store import (
    UNBOUNDED,
    After,
    Append,
    AsOf,
    Base,
    Bounds,
    Corrupt,
    Erase,
    Expired,
    History,
    LastBefore,
    Newest,
    Purge,
    Query,
    Result,
    Rows,
    SaveConfiguration,
    SaveSlot,
    Tombstones,
    Trim,
    Truncate,
    Version,
    Write,
)

_n = attrgetter("n")
_version = attrgetter("version")
_updated_us = attrgetter("updated_us")


@dataclass(frozen=True, slots=True)
class Wait:
    """The tables answer alone, once they have followed group `number`."""

    number: int
    hurry: bool = True
    """Somebody waits for the answer: do not let more gather first."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The tables are asked these, and `Overlay.merged` makes the answer of what they say."""

    queries: tuple[Query, ...]
    rows: Sequence[Row] = ()
    """What is here beside it, in the order of the answer."""
    rewritten: int = 0
    """The last group by then that took rows of the slot away."""
    lacked: int = 0
    """The last group by then that the answer may need, where the tables' own page may be short."""


Plan = list[Row] | Ask | Wait


class Overlay:
    """The groups that are durable and not yet followed."""

    def __init__(self, followed: int = 0) -> None:
        """followed: the last group that the tables have."""
        self.followed = followed
        self.last = followed
        self._slots: dict[int, _Slot] = {}
        self._rewritten: dict[int, int] = {}  # Slot -> group; stays when that is followed.
        self._arrived: dict[tuple[int, str], int] = {}
        self._newest_arrival = self._restood = self._pruned = 0

    # What comes and goes

    def add(self, number: int, writes: Iterable[Write]) -> None:
        """Take in a group that is durable now, before the tables can have followed it."""
        assert number > self.last, "groups come in the order of their numbers"
        self.last = number
        for write in writes:
            match write:
                case Append(rows):
                    self._append(rows)
                case SaveSlot(record):
                    self._slot(record.slot)
                case Truncate(slot) | Erase(slot) | Trim(slot) | Purge(slot):
                    self._rewrite(slot)
                case Base(rows):
                    for slot in {row.slot for row in rows}:
                        self._rewrite(slot)
                case Arrive(row):
                    self._arrived[row.slot, row.link] = number
                    self._newest_arrival = row.n
                case Stand():
                    self._restood = number
                case Prune():
                    self._restood = self._pruned = number
                case SaveConfiguration() | SaveCursor():
                    pass  # Asked for by `recover` alone, which waits for everything.
                case _:
                    assert_never(write)

    def _append(self, rows: Sequence[Row]) -> None:
        of = None
        for row in rows:
            if of is None or row.slot != of.number:
                of = self._slot(row.slot)
            of.rows.append(row)
            of.groups.append(self.last)
            known = of.links.get(row.link)
            if known is None:
                of.links[row.link] = [row]
            else:
                known.append(row)

    def _rewrite(self, slot: int) -> None:
        self._slot(slot)
        self._rewritten[slot] = self.last

    def _slot(self, slot: int) -> "_Slot":
        """Return what is here of a slot, which the last group speaks of."""
        found = self._slots.get(slot)
        if found is None:
            found = self._slots[slot] = _Slot(slot)
        found.last = self.last
        return found

    def drop(self, until: int) -> None:
        """Let go of the groups up to number `until`: the COMMIT that holds them has returned."""
        assert self.followed <= until <= self.last
        self.followed = until
        for slot, of in list(self._slots.items()):
            if of.last <= until:
                del self._slots[slot]
            else:
                of.drop(until)
        self._arrived = {key: number for key, number in self._arrived.items() if number > until}

    # What queries do

    def plan(self, query: Query) -> Plan:
        """Return the answer, or what the tables are to be asked for it and when."""
        match query:
            case Tombstones(slot):
                return Wait(self._last_of(slot), hurry=False)
            case Expired(level=3):
                return Wait(max((of.last for of in self._slots.values()), default=0), hurry=False)
            case Expired() | Aged():
                return Wait(self._last_on_the_shelf(), hurry=False)
            case Heads(slot, link) | Lines(slot, link):
                return Wait(max(self._arrived.get((slot, link), 0), self._restood))
            case Arrivals(after):
                if self._pruned > self.followed:
                    return Wait(self._last_on_the_shelf())
                is_all = not self._arrived or self._newest_arrival <= after
                return Ask((query,), lacked=0 if is_all else max(self._arrived.values()))
            case _:
                of = self._slots.get(query.slot)
                if of is None:
                    return Ask((query,))
                return Wait(of.last) if self._is_rewritten(query.slot) else self._planned(of, query)

    def _planned(self, of: "_Slot", query: "_OfRows") -> Plan:
        plan = of.plan(query)
        if isinstance(plan, Ask) and plan.rows:
            return Ask(plan.queries, plan.rows, self._rewritten.get(query.slot, 0))
        return plan

    def merged(self, query: Query, ask: Ask, found: Sequence[Result]) -> Result | Wait:
        """Return the answer, given what the tables say to each query of a plan.

        Wait: they cannot be put together, and the tables have to be asked `query` itself, later.
        """
        for result in found:
            if isinstance(result, Corrupt):
                return result
        return self._together(query, ask, [rows for rows in found if isinstance(rows, list)])

    def _together(self, query: Query, ask: Ask, found: Sequence[list[Row]]) -> list[Row] | Wait:
        rows = found[0]
        match query:
            case Arrivals(limit=limit):
                return rows if len(rows) >= limit or not ask.lacked else Wait(ask.lacked)
            case History() | Rows() | After() if ask.rows:
                if self._rewritten.get(query.slot, 0) != ask.rewritten:
                    return Wait(self._last_of(query.slot))
                if isinstance(query, History):
                    return within_bytes([*ask.rows, *rows], query.bytes_max)
                return self._joined(query, ask.rows, rows, is_log=bool(found[1]))
            case _:
                return rows

    def _joined(
        self, query: "Rows | After", above: Sequence[Row], rows: list[Row], *, is_log: bool
    ) -> list[Row] | Wait:
        """Return the tables' rows and behind them those that are here.

        is_log: the tables have the row just below `above`, so an answer that does not reach it was
        cut. Without it there are holes up to what is kept, and nobody can tell.
        """
        limit = query.limit if isinstance(query, After) else UNBOUNDED
        if len(rows) >= limit:
            return rows
        if not rows or rows[-1].n == above[0].n - 1:
            return within_bytes([*rows, *above][:limit], query.bytes_max)
        return rows if is_log else Wait(self._last_of(query.slot))

    # What listings and scans do

    def below(self, prefix: str, until: Bounds, *, level: int = 3) -> Wait:
        """Return when the tables have what begins with `prefix`, of the rows up to each bound."""
        if level < 3:
            arrived = (
                number
                for (slot, link), number in self._arrived.items()
                if slot in until and link.startswith(prefix)
            )
            return Wait(max(self._restood, max(arrived, default=0)))
        lacking = (
            of.last
            for slot, bound in until.items()
            if (of := self._slots.get(slot)) is not None
            and (self._is_rewritten(slot) or of.has_below(prefix, bound))
        )
        return Wait(max(lacking, default=0))

    def all_of(self, slots: Collection[int]) -> Wait:
        """Return when the tables have everything of some slots."""
        return Wait(max(map(self._last_of, slots), default=0))

    def everything(self) -> Wait:
        """Return when the tables have everything."""
        return Wait(self.last)

    def behind(self, slot: int) -> int:
        """Return the n of the first row of a slot that the tables lack, UNBOUNDED for none.

        0 while they hold rows that are to be taken away.
        """
        of = self._slots.get(slot)
        if of is None:
            return UNBOUNDED
        if self._is_rewritten(slot):
            return 0
        return of.rows[0].n if of.rows else UNBOUNDED

    def _is_rewritten(self, slot: int) -> bool:
        return self._rewritten.get(slot, 0) > self.followed

    def _last_of(self, slot: int) -> int:
        of = self._slots.get(slot)
        return of.last if of is not None else 0

    def _last_on_the_shelf(self) -> int:
        return max(self._restood, max(self._arrived.values(), default=0))


class _Slot:
    """Rows of one slot, in the order of their groups; meaningless while the slot is rewritten."""

    __slots__ = ("groups", "last", "links", "number", "rows")

    def __init__(self, number: int) -> None:
        self.number = number
        self.last = 0
        """The last group that speaks of the slot."""
        self.rows: list[Row] = []
        self.groups: list[int] = []
        """Of each row the group that it came with."""
        self.links: dict[str, list[Row]] = {}

    def drop(self, until: int) -> None:
        """Let go of the rows of groups up to number `until`."""
        count = bisect_right(self.groups, until)
        for link, number in Counter(row.link for row in self.rows[:count]).items():
            del self.links[link][:number]
            if not self.links[link]:
                del self.links[link]
        del self.rows[:count], self.groups[:count]

    def has_below(self, prefix: str, bound: int) -> bool:
        """Say whether there is a row with n <= `bound` whose link begins with `prefix`."""
        return any(
            link.startswith(prefix) and rows[0].n <= bound for link, rows in self.links.items()
        )

    def plan(self, query: "_OfRows") -> list[Row] | Ask:
        """Return the answer, or what the tables are to be asked beside it."""
        match query:
            case Newest(_, link, until):
                rows = self.links.get(link, ())
                index = bisect_right(rows, until, key=_n)
                return [rows[index - 1]] if index else Ask((query,))
            case Version(_, link, version, until):
                rows = self.links.get(link, ())
                if not rows or version < rows[0].version:
                    return Ask((query,))
                index = bisect_left(rows, version, key=_version)
                found = rows[index : index + 1]
                return [row for row in found if row.version == version and row.n <= until]
            case AsOf(_, link, at_us, until):
                rows = self.links.get(link, ())
                index = bisect_right(rows, at_us, key=_updated_us)
                index = min(index, bisect_right(rows, until, key=_n))
                return [rows[index - 1]] if index else Ask((query,))
            case LastBefore(_, before_us, until):
                index = bisect_left(self.rows, before_us, key=_updated_us)
                index = min(index, bisect_right(self.rows, until, key=_n))
                return [self.rows[index - 1]] if index else Ask((query,))
            case History():
                return self._history(query)
            case Rows(_, first, last):
                return self._stretch(query, first, last)
            case After(_, after, until):
                return self._stretch(query, after + 1, until)
            case _:
                assert_never(query)

    def _history(self, query: History) -> list[Row] | Ask:
        rows = self.links.get(query.link, [])
        index = bisect_right(rows, query.until, key=_n)
        if query.before is not None:
            index = min(index, bisect_left(rows, query.before, key=_version))
        if not index:
            return Ask((query,))
        newest_first = rows[max(0, index - query.limit) : index][::-1]
        found = within_bytes(newest_first, query.bytes_max)
        limit = query.limit - index
        bytes_max = query.bytes_max - sum(map(row_bytes, found))
        if len(found) < index or limit <= 0 or bytes_max <= 0:
            return found
        older = replace(query, before=rows[0].version, limit=limit, bytes_max=bytes_max)
        return Ask((older,), found)

    def _stretch(self, query: "Rows | After", first: int, last: int) -> list[Row] | Ask:
        begin = self.rows[0].n if self.rows else UNBOUNDED
        if last < begin:
            return Ask((query,))
        start = max(0, first - begin)
        rows = self.rows[start : max(start, last - begin + 1)]
        if first >= begin:
            limit = query.limit if isinstance(query, After) else len(rows)
            return within_bytes(rows[:limit], query.bytes_max)
        end = begin - 1
        narrowed: Query
        if isinstance(query, After):
            narrowed = replace(query, until=end)
        else:
            narrowed = replace(query, last=end)
        return Ask((narrowed, Rows(query.slot, end, end)), rows)


_OfRows = Newest | Version | AsOf | History | Rows | After | LastBefore
