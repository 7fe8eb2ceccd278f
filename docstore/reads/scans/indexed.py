"""Searches by an index, in a scanning process: the documents of a cut, as a scan finds them.

An index holds the newest decided versions up to a row of each slot (`following.py`). A document
that has no row between that one and the cut's, in either direction, is at the cut what the index
says; all others are the *changed* ones. A search checks the changed documents and those that the
index proposes, each in its version at the cut, by the condition of a scan. So an index may lag, be
incomplete, or be ahead of an old cut, and the answer is the same.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple

import orjson

from docstore.query import plans, statements
from docstore.query.indexes import Index
from docstore.query.needs import needs_of
from docstore.query.ordering import Found, Order, Place, place_of
from docstore.query.plans import Plan
from docstore.query.ranges import Needs
from docstore.query.request import INT_MAX, Scan
from docstore.reads.scans.following import Execute

FEW = 2_000
"""Hits up to which an index that gathers is better than one that walks."""
GATHERED_MAX, BY_LINK_MAX = 20_000, 50_000
"""Maximum hits of an index that gathers: for an order that needs all of them, and by link."""
CHANGED_MAX = 20_000
"""Maximum rows between an index and a cut: with more, a scan is as quick."""
MORE, AT_ONCE = 16, 4_096
"""Candidates checked at once: first the wanted rows and MORE, then more, at most AT_ONCE."""
TEMPORARY = tuple(
    f"CREATE TEMP TABLE {name} (slot INTEGER, link TEXT, PRIMARY KEY (slot, link)) WITHOUT ROWID"
    for name in ("changed", "candidates")
)

_STANDING = (
    "SELECT count(*), coalesce(sum(p.n IS NULL), 0), coalesce(sum(abs(k.until - p.n)), 0)"
    " FROM temp.spans k LEFT JOIN ix.positions p ON p.ix = ? AND p.slot = k.slot"
)
_CHANGED = (
    "INSERT OR IGNORE INTO temp.changed SELECT h.slot, h.link"
    " FROM temp.spans k JOIN ix.positions p ON p.ix = ? AND p.slot = k.slot"
    " CROSS JOIN history h INDEXED BY history_n ON h.slot = k.slot"
    " AND h.n > min(p.n, k.until) AND h.n <= max(p.n, k.until)"
    " WHERE h.link >= ? AND h.link < ? AND instr(substr(h.link, ?), '/') = 0"
)


class Chosen(NamedTuple):
    """The index of a search, and the rows between it and the cut; or why there is none.

    fits: whether an index fits, but has too many documents in its ranges.
    """

    plan: Plan | None
    table: int = 0
    why: str = ""
    distance: int = 0
    fits: bool = False


class FoundByIndex(NamedTuple):
    """Rows of a search, the place up to which they are complete, and how they were found."""

    rows: list[Found]
    until: Place | None
    looked: int
    changed: int


def choose(
    execute: Execute,
    scan: Scan,
    order: Order,
    tables: Sequence[tuple[int, Index]],
    *,
    is_whole: bool = False,
) -> Chosen:
    """Choose the index of a search. is_whole: all documents are wanted, in no order."""
    if not scan.latest or scan.deleted:
        return Chosen(None, why="an index has the newest versions of live documents only")
    needs = needs_of(scan.where.predicate)
    every = [
        (table, plan)
        for table, index in tables
        for plan in plans.plans_of(index, needs, order)
        if not (plan.walks and is_whole)
    ]
    usable, why = [], ""
    distances: dict[int, int] = {}
    for table, plan in every:
        if table not in distances:
            distances[table], behind = _distance(execute, table, plan.index)
            why = why or behind
        if distances[table] <= CHANGED_MAX:
            usable.append((table, plan))
    if not usable:
        wanted = plans.wanted(needs, order)
        return Chosen(None, why=why or (f"no index is {wanted}" if wanted else "none would help"))
    most = BY_LINK_MAX if order.is_by_link and not is_whole else GATHERED_MAX
    chosen = _best(execute, usable, needs, most)
    return chosen._replace(distance=distances.get(chosen.table, 0))


def _best(execute: Execute, usable: Sequence[tuple[int, Plan]], needs: Needs, most: int) -> Chosen:
    """Choose by the number of hits. most: hits up to which gathering is quicker than a scan."""

    def count(table: int, plan: Plan, most: int) -> int:
        part = plans.hits(plan, table, most)
        [(found,)] = execute(f"SELECT count(*) FROM ({part.sql})", part.parameters)  # noqa: S608
        return int(found)

    walking = [(plan, table) for table, plan in usable if plan.walks]
    walking.sort(key=lambda each: (not each[0].used, -each[0].fixed))
    for plan, table in walking:
        if needs.keys() <= set(plan.used):  # No other index would exclude more.
            return Chosen(plan, table)
    # Indexes that begin with the same members have the same hits.
    gathering = {plan.used: (table, plan) for table, plan in reversed(usable) if not plan.walks}
    if len(gathering) > 1 or walking:
        few = [(count(*each, FEW + 1), each) for each in gathering.values()]
        least, (table, plan) = min(few, key=lambda each: each[0], default=(INT_MAX, usable[0]))
        if least <= FEW:
            return Chosen(plan, table)
    if walking:
        return Chosen(*walking[0])
    for table, plan in gathering.values():
        if count(table, plan, most + 1) <= most:
            return Chosen(plan, table)
    why = f"more than {most} documents are in the ranges of {plan.index.name}"
    return Chosen(None, why=why, fits=True)


def _distance(execute: Execute, table: int, index: Index) -> tuple[int, str]:
    """Return the rows between an index and the cut; and why it is not used, "" if it is."""
    [(slots, missing, rows)] = execute(_STANDING, (table,))
    if missing:
        built = slots - missing
        return INT_MAX, f"{index.name} is being built: {built} of {slots} slots are done"
    return rows, f"{index.name} is {rows} rows from the cut" if rows > CHANGED_MAX else ""


class IndexSearch:
    """One question of a search, answered by an index."""

    def __init__(self, execute: Execute, scan: Scan, order: Order, chosen: Chosen) -> None:
        assert chosen.plan is not None
        self._execute = execute
        self._scan = scan
        self._order = order
        self._plan, self._table = chosen.plan, chosen.table
        self._looked = 0
        self._changed = 0
        execute("DELETE FROM temp.changed")
        if chosen.distance:
            first, beyond = statements.bounds(scan)
            execute(_CHANGED, (self._table, first, beyond, len(scan.prefix) + 1))
            [(self._changed,)] = execute("SELECT count(*) FROM temp.changed")
            self._plan = replace(self._plan, has_changed=self._changed > 0)

    def found(self, after: Place | None, rows: int, looks: int) -> FoundByIndex:
        """Return the next rows after a place. looks: candidates after which it may stop."""
        changed: list[Found] = []
        if self._changed:
            self._propose("INSERT INTO temp.candidates SELECT slot, link FROM temp.changed")
            changed = self._checked(after, rows)
        if self._plan.walks or self._order.is_by_link:
            found, until = self._in_order(after, rows, looks)
        else:
            self._propose_all()
            found = self._checked(after, rows)
            until = place_of(found[-1]) if len(found) == rows else None
        found += changed
        found, until = complete(self._order, found, until, rows)
        return FoundByIndex(found, until, self._looked, self._changed)

    def propose_every(self) -> int:
        """Make candidates of all hits and changed documents; return how many there are."""
        self._propose_all()
        self._execute("INSERT OR IGNORE INTO temp.candidates SELECT slot, link FROM temp.changed")
        return self._looked + self._changed

    def _propose_all(self) -> None:
        part = plans.hits(self._plan, self._table, INT_MAX)
        self._propose(f"INSERT INTO temp.candidates {part.sql}", part.parameters)

    def _propose(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self._execute("DELETE FROM temp.candidates")
        self._execute(sql, parameters)
        [(count,)] = self._execute("SELECT count(*) FROM temp.candidates")
        self._looked += count

    def _checked(self, after: Place | None, rows: int) -> list[Found]:
        """Return the first rows after a place among the candidates."""
        statement = statements.found_among(self._scan, self._order, after, rows)
        return self._execute(statement.sql, statement.parameters)

    def _in_order(
        self, after: Place | None, rows: int, looks: int
    ) -> tuple[list[Found], Place | None]:
        """Check candidates in the order until there are enough rows."""
        found: list[Found] = []
        place, at_once = after, min(MORE + rows, AT_ONCE)
        while True:
            entries = self._entries(place, at_once)
            self._propose(
                "INSERT OR IGNORE INTO temp.candidates SELECT json_extract(value, '$[0]'),"
                " json_extract(value, '$[1]') FROM json_each(?)",
                (orjson.dumps([(slot, link) for *_, link, _, slot in entries]).decode(),),
            )
            found += self._checked(place, rows)
            if len(entries) < at_once:
                return found, None
            *keys, link, _, _ = entries[-1]
            place = (*keys, link, INT_MAX)
            if len(found) >= rows or self._looked >= looks:
                return found, place
            at_once = min(2 * at_once, AT_ONCE)

    def _entries(self, after: Place | None, most: int) -> list[Found]:
        """Return the next entries in the order, as rows without their version."""
        if not self._plan.walks:
            part = plans.hits_by_link(self._plan, self._table, after, most)
            return [(link, 0, slot) for link, slot in self._execute(part.sql, part.parameters)]
        entries: list[Found] = []
        for box in self._plan.boxes:
            left = most
            for part in plans.walks(self._plan, box, self._table, self._order, after, most):
                some = self._execute(part.sql, part.parameters)[:left]
                entries += [(*keys, link, 0, slot) for *keys, link, slot in some]
                left -= len(some)
                if not left:
                    break
        if len(self._plan.boxes) > 1:
            self._order.sort(entries)
        return entries[:most]


def complete(
    order: Order, found: list[Found], until: Place | None, rows: int
) -> tuple[list[Found], Place | None]:
    """Return the first rows in order, and the place up to which they are complete.

    found: has all rows up to the place `until` (None: all rows), and some of the rows after it.
    """
    end: Found = (*(until or ()), -1)
    if until is not None:
        found = [*found, end]
    order.sort(found)
    found = list(takewhile(lambda row: row is not end, found))
    if len(found) >= rows:
        return found[:rows], place_of(found[rows - 1])
    return found, until
