"""What is durable in the journal and not yet in the tables, and how each query is answered by both.

A commit is durable once its entry is in the journal; the tables follow behind. So that every answer
is one that the tables would give had they followed all of it, a query is answered in one of four
ways: by the rows that are here alone; by the tables up to where these rows begin, and then by these
rows; by the tables, once they have followed a certain entry; or by the tables as they are.

Whoever asks looks here first and at the tables afterwards: what is here no more is there already,
since an entry leaves after the COMMIT that holds it. In the other order a document could be in
neither. One event loop does all of it: in it entries come (when durable, before anybody is told)
and go, so nothing changes while a plan is made, and no lock is needed. What changes between the
plan and the tables' answer adds rows beyond the bounds that the tables are asked for, or takes rows
of the slot away, which `merged` notices.

Writes that take rows away again (Truncate, Erase, Base, Trim, Purge) are not imitated here: until
the tables have followed the last of them, their slot's queries wait. But all slots are trimmed, one
after the other, and that leaves each link its newest row, so whoever asks for that does not wait.

Pure: no clock, no I/O.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import assert_never

from docstore.model.document import Row
from docstore.storage.answers import within_bytes
from docstore.storage.replication_log import (
    Aged,
    Arrivals,
    Arrive,
    Heads,
    Lines,
    Prune,
    SaveCursor,
    Stand,
)
from docstore.storage.store import (
    UNBOUNDED,
    After,
    Append,
    Base,
    Bounds,
    Corrupt,
    Erase,
    Expired,
    History,
    Newest,
    NewestOfMany,
    OfLog,
    Purge,
    Query,
    Result,
    Rows,
    SaveConfiguration,
    SaveSlot,
    Tombstones,
    Trim,
    Truncate,
    Write,
)
from docstore.storage.tail import Ask, Plan, Tail, Wait


class Overlay:
    """The entries of the journal that are durable and not yet followed."""

    def __init__(self, followed: int = 0) -> None:
        """followed: the last entry that the tables have."""
        self.followed = followed
        self.last = followed
        self._slots: dict[int, Tail] = {}
        self._rewritten: dict[int, int] = {}
        """Slot -> the last entry that takes rows of it away, be it followed or not."""
        self._cut: dict[int, int] = {}
        """The same, but trimming does not count."""
        self._trimmed: dict[int, int] = {}
        """Slot -> up to which row it was last trimmed."""
        self._arrived: dict[tuple[int, str], int] = {}
        self._newest_arrival = self._restood = self._pruned = 0

    # What comes and goes

    def add(self, number: int, writes: Iterable[Write]) -> None:  # Seam.
        """Take in an entry that is durable now, before the tables can have followed it."""
        assert number > self.last, "entries come in the order of their numbers"
        self.last = number
        for write in writes:
            match write:
                case Append(rows):
                    self._append(rows)
                case SaveSlot(record):
                    self._slot(record.slot)
                case Truncate(slot) | Erase(slot) | Purge(slot):
                    self._take_away({slot})
                case Base(rows):
                    self._take_away({row.slot for row in rows})
                case Trim(slot, _, kept):
                    self._slot(slot)
                    self._rewritten[slot], self._trimmed[slot] = number, kept
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

    def announce(self, number: int, writes: Iterable[Write]) -> None:
        """Take note of a commit before it goes into the tables alone, as number `number`.

        It is not durable, so nothing of it is here; but what is being put together with the tables'
        answers must not be, once they may have lost rows of it.
        """
        for write in writes:
            match write:
                case Truncate(slot) | Erase(slot) | Purge(slot) | Trim(slot):
                    self._rewritten[slot] = self._cut[slot] = number
                case _:
                    pass  # Rows beyond the bounds that the tables are asked for; a Base is erased.

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
        """Return what is here of a slot, which the last entry speaks of."""
        found = self._slots.get(slot)
        if found is None:
            found = self._slots[slot] = Tail(slot)
        found.last = self.last
        return found

    def drop(self, until: int) -> None:
        """Let go of the entries up to number `until`: the COMMIT that holds them has returned."""
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
            case Expired(level=3):
                return Wait(max((of.last for of in self._slots.values()), default=0), hurry=False)
            case Expired() | Aged():
                return Wait(self._last_of_branches())
            case NewestOfMany(asked):
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

    def _plan_of_rows(self, query: OfLog) -> Plan:
        of = self._slots.get(query.slot)
        if of is None:
            return Ask((query,))
        if self._loses(query.slot, query.until if isinstance(query, Newest) else -1):
            return Wait(of.last)
        plan = of.plan(query)
        if isinstance(plan, Ask) and plan.rows:
            return Ask(plan.queries, plan.rows, self._rewritten.get(query.slot, 0))
        return plan

    def _plan_of_many(self, asked: Sequence[tuple[int, str, int]]) -> Plan:
        """Return the plan for newest rows: each is here, or else it is as the tables have it."""
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
        return Ask((NewestOfMany(rest),), here) if rest else here

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
            case NewestOfMany():
                return [*ask.rows, *rows]
            case _ if not ask.rows:
                return rows
            case _ if self._rewritten.get(query.slot, 0) != ask.rewritten:
                return Wait(self._last_of(query.slot))
            case History():
                return within_bytes([*ask.rows, *rows], query.bytes_max)
            case Rows() | After():
                return self._joined(query, ask.rows, rows, is_log=bool(found[1]))
            case Tombstones():
                return self._still_dead(query, ask.rows, rows)
            case _:
                raise AssertionError(f"no rows are put beside {query}")

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

    def _still_dead(
        self, query: Tombstones, newer: Sequence[Row], rows: list[Row]
    ) -> list[Row] | Wait:
        """Return the tables' tombstones without the links that have been written since."""
        links = {row.link for row in newer}
        left = [row for row in rows if row.link not in links]
        is_page = len(rows) >= query.limit and len(left) < len(rows)
        is_dead = any(
            row.deleted and row.n <= query.until and row.updated_us < query.before_us
            for row in newer
        )
        return Wait(self._last_of(query.slot)) if is_page or is_dead else left

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
            and (self._loses(slot, bound) or of.has_below(prefix, bound))
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
        if self._loses(slot):
            return 0
        return of.rows[0].n if of.rows else UNBOUNDED

    def _loses(self, slot: int, until: int = -1) -> bool:
        """Say whether rows are to be taken away, of what links had as their newest up to `until`.

        -1: whichever rows.
        """
        if self._rewritten.get(slot, 0) <= self.followed:
            return False
        return self._cut.get(slot, 0) > self.followed or until < self._trimmed.get(slot, 0)

    def _last_of(self, slot: int) -> int:
        of = self._slots.get(slot)
        return of.last if of is not None else 0

    def _last_of_branches(self) -> int:
        return max(self._restood, max(self._arrived.values(), default=0))
