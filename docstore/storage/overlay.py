"""Entries that are durable in the journal and not yet in the tables, and how reads see them.

A commit is durable once its entry is in the journal; the tables follow later. An answer must equal
that of tables which have followed all entries. So a query is answered in one of four ways: from the
overlay's rows alone; from the tables up to the first row of the overlay, and then from the
overlay's rows; from the tables, once they have followed a certain entry; or from the tables as they
are.

A read looks at the overlay first and at the tables afterwards. A row that has left the overlay is
in the tables already, since an entry leaves after the COMMIT that holds it. In the other order a
read could miss a document in both. Entries join (when durable, before the acknowledgement) and
leave in one event loop, so nothing changes while a plan is made, and no lock is needed. Between the
plan and the tables' answer, rows beyond the bounds of the query may join, or rows of the slot may
be removed, which `merged` detects.

Writes that remove rows (Truncate, Erase, Base, Trim, Purge) are not imitated here: until the tables
have followed the last of them, queries of their slot wait. There is an exception for Trim, because
all slots are trimmed regularly: trimming keeps the newest row of each link, so queries for newest
rows do not wait for it.

The module is pure: no clock, no I/O.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import assert_never

from docstore.model.document import Row
from docstore.storage import store
from docstore.storage.answers import within_bytes
from docstore.storage.replication_log import (
    Aged,
    Arrivals,
    Arrive,
    Heads,
    Lines,
    Prune,
    SaveCursor,
    SetStatus,
)
from docstore.storage.tail import Ask, Plan, Tail, Wait


class Overlay:
    """The entries of the journal that are durable and not yet followed."""

    def __init__(self, followed: int = 0) -> None:
        """followed: the last entry that the tables hold."""
        self.followed = followed
        self.last = followed
        self._slots: dict[int, Tail] = {}
        self._rewritten: dict[int, int] = {}
        """Slot -> the last entry that removes rows of it, followed or not."""
        self._cut: dict[int, int] = {}
        """Slot -> the last entry that removes rows of it other than by a Trim."""
        self._trimmed: dict[int, int] = {}
        """Slot -> the row up to which it was last trimmed."""
        self._arrived: dict[tuple[int, str], int] = {}
        self._newest_arrival = self._restood = self._pruned = 0

    # Entries

    def add(self, number: int, writes: Iterable[store.Write]) -> None:  # Tests replace this.
        """Add an entry that is durable now, before the tables can have followed it."""
        assert number > self.last, "entries must be added in order"
        self.last = number
        for write in writes:
            match write:
                case store.Append(rows):
                    self._append(rows)
                case store.SaveSlot(record):
                    self._slot(record.slot)
                case store.Truncate(slot) | store.Erase(slot) | store.Purge(slot):
                    self._take_away({slot})
                case store.Base(rows):
                    self._take_away({row.slot for row in rows})
                case store.Trim(slot, _, kept):
                    self._slot(slot)
                    self._rewritten[slot], self._trimmed[slot] = number, kept
                case Arrive(row):
                    self._arrived[row.slot, row.link] = number
                    self._newest_arrival = row.n
                case SetStatus():
                    self._restood = number
                case Prune():
                    self._restood = self._pruned = number
                case store.SaveConfiguration() | SaveCursor():
                    pass  # Only `recover` returns the saved values, and it waits for all entries.
                case _:
                    assert_never(write)

    def announce(self, number: int, writes: Iterable[store.Write]) -> None:
        """Note a commit before it goes into the tables alone, with the number `number`.

        It is not durable, so its rows are not added. But a read that merges rows with the tables'
        answers must stop, since the tables may have lost rows.
        """
        for write in writes:
            match write:
                case (
                    store.Truncate(slot) | store.Erase(slot) | store.Purge(slot) | store.Trim(slot)
                ):
                    self._rewritten[slot] = self._cut[slot] = number
                case _:
                    pass  # No query reads rows that are not durable; an Erase precedes a Base.

    def _append(self, rows: Sequence[Row]) -> None:
        of = None
        for row in rows:
            if of is None or row.slot != of.number:
                of = self._slot(row.slot)
            of.rows.append(row)
            of.entries.append(self.last)
            known = of.links.get(row.link)
            if known is None:
                of.links[row.link] = [row]
            else:
                known.append(row)

    def _take_away(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self._slot(slot)
            self._rewritten[slot] = self._cut[slot] = self.last

    def _slot(self, slot: int) -> Tail:
        """Return the tail of a slot, and note that entry `last` changes the slot."""
        found = self._slots.get(slot)
        if found is None:
            found = self._slots[slot] = Tail(slot)
        found.last = self.last
        return found

    def drop(self, until: int) -> None:
        """Drop the entries up to number `until`: the COMMIT that holds them has returned."""
        assert self.followed <= until <= self.last
        self.followed = until
        for slot, of in list(self._slots.items()):
            if of.last <= until:
                del self._slots[slot]
            else:
                of.drop(until)
        self._arrived = {key: number for key, number in self._arrived.items() if number > until}

    # Queries

    def plan(self, query: store.Query) -> Plan:
        """Return the answer, the queries to the tables that it needs, or the entry to wait for."""
        match query:
            case store.Expired(level=3):
                return Wait(max((of.last for of in self._slots.values()), default=0), hurry=False)
            case store.Expired() | Aged():
                return Wait(self._last_of_branches())
            case store.NewestOfMany(asked):
                return self._plan_of_many(asked)
            case Heads(slot, link) | Lines(slot, link):
                return Wait(max(self._arrived.get((slot, link), 0), self._restood))
            case Arrivals(after):
                if self._pruned > self.followed:
                    return Wait(self._last_of_branches())
                is_all = not self._arrived or self._newest_arrival <= after
                return Ask((query,), lacked=0 if is_all else max(self._arrived.values()))
            case _:
                return self._plan_of_rows(query)

    def _plan_of_rows(self, query: store.OfLog) -> Plan:
        of = self._slots.get(query.slot)
        if of is None:
            return Ask((query,))
        if self._loses(query.slot, query.until if isinstance(query, store.Newest) else -1):
            return Wait(of.last)
        plan = of.plan(query)
        if isinstance(plan, Ask) and plan.rows:
            return Ask(plan.queries, plan.rows, self._rewritten.get(query.slot, 0))
        return plan

    def _plan_of_many(self, asked: Sequence[tuple[int, str, int]]) -> Plan:
        """Return the plan for newest rows: each from the overlay, or else from the tables."""
        here: list[Row] = []
        rest: list[tuple[int, str, int]] = []
        waits = 0
        for each in asked:
            slot, link, until = each
            of = self._slots.get(slot)
            if of is None:
                rest.append(each)
            elif self._loses(slot, until):
                waits = max(waits, of.last)
            elif (row := of.newest(link, until)) is not None:
                here.append(row)
            else:
                rest.append(each)
        if waits:
            return Wait(waits)
        return Ask((store.NewestOfMany(rest),), here) if rest else here

    def merged(
        self, query: store.Query, ask: Ask, found: Sequence[store.Result]
    ) -> store.Result | Wait:
        """Return the answer, given the tables' result for each query of a plan.

        Returns a Wait if the results cannot be merged: the tables must then answer `query` alone,
        once they have followed that entry.
        """
        for result in found:
            if isinstance(result, store.Corrupt):
                return result
        return self._together(query, ask, [rows for rows in found if isinstance(rows, list)])

    def _together(
        self, query: store.Query, ask: Ask, found: Sequence[list[Row]]
    ) -> list[Row] | Wait:
        rows = found[0]
        match query:
            case Arrivals(limit=limit):
                return rows if len(rows) >= limit or not ask.lacked else Wait(ask.lacked)
            case store.NewestOfMany():
                return [*ask.rows, *rows]
            case _ if not ask.rows:
                return rows
            case _ if self._rewritten.get(query.slot, 0) != ask.rewritten:
                return Wait(self._last_of(query.slot))
            case store.History():
                return within_bytes([*ask.rows, *rows], query.bytes_max)
            case store.Rows() | store.After():
                return self._joined(query, ask.rows, rows, is_log=bool(found[1]))
            case store.Tombstones():
                return self._still_dead(query, ask.rows, rows)
            case _:
                raise AssertionError(f"no rows are merged into {query}")

    def _joined(
        self,
        query: store.Rows | store.After,
        above: Sequence[Row],
        rows: list[Row],
        *,
        is_log: bool,
    ) -> list[Row] | Wait:
        """Return the tables' rows, followed by the overlay's.

        is_log: whether the tables have the row just below `above`. If they do, and `rows` does not
        reach it, the tables cut `rows` short. If not, that row may be a hole below `kept`, and only
        the tables can answer.
        """
        limit = query.limit if isinstance(query, store.After) else store.UNBOUNDED
        if len(rows) >= limit:
            return rows
        if not rows or rows[-1].n == above[0].n - 1:
            return within_bytes([*rows, *above][:limit], query.bytes_max)
        return rows if is_log else Wait(self._last_of(query.slot))

    def _still_dead(
        self, query: store.Tombstones, newer: Sequence[Row], rows: list[Row]
    ) -> list[Row] | Wait:
        """Return the tables' tombstones without the links that have newer rows in the overlay."""
        links = {row.link for row in newer}
        left = [row for row in rows if row.link not in links]
        is_page = len(rows) >= query.limit and len(left) < len(rows)
        is_dead = any(
            row.deleted and row.n <= query.until and row.updated_us < query.before_us
            for row in newer
        )
        return Wait(self._last_of(query.slot)) if is_page or is_dead else left

    # Listings and scans

    def below(self, prefix: str, until: store.Bounds, *, level: int = 3) -> Wait:
        """Return a Wait until the tables have the links below `prefix`, up to each slot's bound."""
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
            and (self._loses(slot, bound) or of.has_below(prefix, bound))
        )
        return Wait(max(lacking, default=0))

    def all_of(self, slots: Collection[int]) -> Wait:
        """Return a Wait until the tables lack nothing of these slots."""
        return Wait(max(map(self._last_of, slots), default=0))

    def everything(self) -> Wait:
        """Return a Wait until the tables lack nothing."""
        return Wait(self.last)

    def behind(self, slots: Iterable[int]) -> dict[int, int]:
        """Return slot -> n of the first row that the tables lack, where they lack any.

        n is 0 while the tables hold rows that are to be removed.
        """
        found = {}
        for slot in slots if self._slots else ():
            of = self._slots.get(slot)
            if of is not None and self._loses(slot):
                found[slot] = 0
            elif of is not None and of.rows:
                found[slot] = of.rows[0].n
        return found

    def _loses(self, slot: int, until: int = -1) -> bool:
        """Return whether newest rows of links, up to `until`, are to be removed from the tables.

        until: -1 for all rows.
        """
        if self._rewritten.get(slot, 0) <= self.followed:
            return False
        return self._cut.get(slot, 0) > self.followed or until < self._trimmed.get(slot, 0)

    def _last_of(self, slot: int) -> int:
        of = self._slots.get(slot)
        return of.last if of is not None else 0

    def _last_of_branches(self) -> int:
        return max(self._restood, max(self._arrived.values(), default=0))
