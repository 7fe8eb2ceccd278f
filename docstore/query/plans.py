"""Plans: how an index answers a search, and the statements that walk its entries. Pure.

An index whose first members have fixed values, and whose other members are the keys of the order,
has the found documents in their order: a *walk* reads entries from the place on and stops when the
page is full. Any other index whose first member has ranges *gathers* the documents inside. An order
by link then needs only some of them at a time, any other order all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from docstore.query.indexes import Index, spelt
from docstore.query.ordering import Order, Place, SortKey
from docstore.query.ranges import EACH, NULL, PRESENT, Key, Needs, Range, Ranges

BOXES_MAX = 64
"""Maximum boxes of a plan."""
ANY: Ranges = (*NULL, *PRESENT)
_CHOSEN = " FROM ix.e{table} e WHERE {where} AND +e.slot IN (SELECT slot FROM temp.spans)"
_UNCHANGED = (
    " AND NOT EXISTS (SELECT 1 FROM temp.changed c WHERE c.slot = e.slot AND c.link = e.link)"
)


class Box(NamedTuple):
    """Entries of an index that have these values of its first members, and a range of the next."""

    points: tuple[Range, ...] = ()
    range: Range | None = None


class Part(NamedTuple):
    """A condition on entries in SQL, and its parameters."""

    sql: str
    parameters: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """An index, and its entries that can fulfil a condition: none if no value can.

    walks: whether the entries of each box are in the order, after `fixed` members. has_changed:
    whether documents have changed, so that their entries do not count.
    """

    index: Index
    boxes: tuple[Box, ...]
    walks: bool = False
    fixed: int = 0
    is_reversed: bool = False
    has_changed: bool = False

    def rows(self, table: int, where: str) -> str:
        """Return the source of entries that fulfil a condition, in SQL."""
        return _CHOSEN.format(table=table, where=where) + (_UNCHANGED if self.has_changed else "")

    @property
    def used(self) -> tuple[Key, ...]:
        """The members whose ranges exclude documents, in the order of the index."""
        points, among = self.boxes[0] if self.boxes else Box()
        return tuple(key.key for key in self.index.keys[: len(points) + (among is not None)])


def plans_of(index: Index, needs: Needs, order: Order) -> Iterator[Plan]:
    """Yield the plans in which an index answers a search, the best one first."""
    ranges = [needs.get(key.key) for key in index.keys]
    points = 0
    for each in ranges:
        if not each or not all(one.is_point for one in each):
            break
        points += 1
    needed = 1 + max((n for n, key in enumerate(index.keys) if EACH in key.key[1:]), default=-1)
    for fixed in range(points, needed - 1, -1):
        is_reversed = _fits(index.keys[fixed:], order.keys)
        boxes = _boxes([each or () for each in ranges[:fixed]])
        if is_reversed is None or not boxes:
            continue
        among = ranges[fixed] if fixed < len(ranges) else None
        if among is not None:
            boxes = [box._replace(range=each) for box in boxes for each in among]
        if len(boxes) <= BOXES_MAX:
            yield Plan(index, tuple(boxes), True, fixed, is_reversed)
            break
    if ranges[0] is not None:
        yield from _gathering(index, ranges, points, needed)


def _gathering(
    index: Index, ranges: Sequence[Ranges | None], points: int, needed: int
) -> Iterator[Plan]:
    for fixed in range(points, -1, -1):
        boxes = _boxes([each or () for each in ranges[:fixed]])
        among = ranges[fixed] if fixed < len(ranges) else None
        is_cut = among is not None and len(boxes) * len(among) <= BOXES_MAX
        if is_cut:
            boxes = [box._replace(range=each) for box in boxes for each in among or ()]
        if 0 < len(boxes) <= BOXES_MAX and fixed + is_cut >= max(1, needed):
            yield Plan(index, tuple(boxes))
            return


def _boxes(ranges: Sequence[Ranges]) -> list[Box]:
    count = 1
    for each in ranges:
        count *= len(each)
    return [Box(points) for points in product(*ranges)] if count <= BOXES_MAX else []


def _fits(keys: Sequence[SortKey], wanted: Sequence[SortKey]) -> bool | None:
    """Return whether keys give the wanted order in reverse; None if they give another order."""
    if [each.key for each in keys] != [each.key for each in wanted]:
        return None
    turned = {one.descending != other.descending for one, other in zip(keys, wanted, strict=True)}
    return None if len(turned) > 1 else True in turned


def hits(plan: Plan, table: int, most: int) -> Part:
    """Return the statement for (slot, link) of a gathering plan's entries."""
    return _hits(plan, table, "e.slot, e.link", "", (), most)


def hits_by_link(plan: Plan, table: int, after: Place | None, most: int) -> Part:
    """Return the statement for the next (link, slot) of a gathering plan, by link."""
    columns, link = "e.link AS link, e.slot AS slot", "" if after is None else after[-2]
    return _hits(plan, table, columns, " AND e.link > ?", (link,), most, " ORDER BY link, slot")


def _hits(
    plan: Plan, table: int, columns: str, and_: str, its: tuple[str, ...], most: int, by: str = ""
) -> Part:
    # Only the elements of an array make several entries of one document.
    select, union = (
        ("SELECT DISTINCT", " UNION ") if plan.index.array else ("SELECT", " UNION ALL ")
    )
    parts = [_box(box) for box in plan.boxes]
    some = [f"{select} {columns}{plan.rows(table, part.sql + and_)}" for part in parts]
    parameters = tuple(each for part in parts for each in (*part.parameters, *its))
    return Part(f"{union.join(some)}{by} LIMIT {int(most)}", parameters)


def walks(
    plan: Plan, box: Box, table: int, order: Order, after: Place | None, most: int
) -> Iterator[Part]:
    """Yield the statements that read a box in the order, one behind the other.

    Each selects the keys of the order, the link and the slot.
    """
    keys = list(range(plan.fixed, len(plan.index.keys)))
    names = [f"e.{letter}{number}" for number in keys for letter in "rv"]
    signs = [order.keys[number - plan.fixed].descending for number in keys for _ in "rv"]
    terms = [f"{name} DESC" if sign else name for name, sign in zip(names, signs, strict=True)]
    chosen = ", ".join([*names, "e.link", "e.slot"])
    by = ", ".join([*terms, "e.link"])
    fixed = _points(box.points)
    for part in _stretches(names, signs, box.range, after):
        where = " AND ".join(filter(None, (fixed.sql, part.sql))) or "1"
        text = f"SELECT {chosen}{plan.rows(table, where)}"
        yield Part(f"{text} ORDER BY {by} LIMIT {int(most)}", (*fixed.parameters, *part.parameters))


def _stretches(
    names: Sequence[str], signs: Sequence[bool], among: Range | None, after: Place | None
) -> Iterator[Part]:
    """Yield conditions that each are one stretch of the index, in the order.

    A condition such as "a > 1 or a = 1 and b > 2" would make SQLite read all entries of `a`.
    """
    if not names:
        yield Part("e.link > ?", (after[-2],)) if after is not None else Part("", ())
        return
    ranges = [among] if among is not None else list(ANY)
    ranges.sort(reverse=signs[0])
    for each in ranges:
        if after is None or after[0] == each.rank:
            yield from _within(names, signs, each, after)
        elif (after[0] > each.rank) == signs[0]:
            yield _range(names[0], names[1], each)


def _within(
    names: Sequence[str], signs: Sequence[bool], among: Range, after: Place | None
) -> Iterator[Part]:
    if after is None:
        yield _range(names[0], names[1], among)
        return
    *keys, link, _ = after
    equal = [f"{name} = ?" for name in names]
    low, high = among.low, among.high
    is_inside = (low is None or keys[1] >= low) and (high is None or keys[1] <= high)
    if is_inside:
        yield Part(" AND ".join([*equal, "e.link > ?"]), (*keys, link))
        for at in range(len(names) - 1, 1, -1):
            beyond = f"{names[at]} {'<' if signs[at] else '>'} ?"
            yield Part(" AND ".join([*equal[:at], beyond]), tuple(keys[: at + 1]))
        among = among._replace(high=keys[1]) if signs[0] else among._replace(low=keys[1])
        yield _range(names[0], names[1], among, is_behind="high" if signs[0] else "low")
    elif (low is not None and keys[1] < low) != signs[0]:
        yield _range(names[0], names[1], among)


def _range(rank: str, value: str, among: Range, is_behind: str = "") -> Part:
    """Return the condition of a range. is_behind: a bound that is excluded."""
    sql, parameters = f"{rank} = ?", [among.rank]
    if among.is_point and not is_behind:
        return Part(f"{sql} AND {value} = ?", (among.rank, among.low))
    for bound, sign in (("low", ">"), ("high", "<")):
        limit = getattr(among, bound)
        if limit is not None:
            sql += f" AND {value} {sign}{'' if bound == is_behind else '='} ?"
            parameters.append(limit)
    return Part(sql, tuple(parameters))


def _points(points: Sequence[Range]) -> Part:
    sql = " AND ".join(f"e.r{number} = ? AND e.v{number} = ?" for number in range(len(points)))
    return Part(sql, tuple(value for each in points for value in (each.rank, each.low)))


def _box(box: Box) -> Part:
    fixed = _points(box.points)
    if box.range is None:
        return Part(fixed.sql or "1", fixed.parameters)
    at = len(box.points)
    among = _range(f"e.r{at}", f"e.v{at}", box.range)
    sql = " AND ".join(filter(None, (fixed.sql, among.sql)))
    return Part(sql, (*fixed.parameters, *among.parameters))


def wanted(needs: Needs, order: Order) -> str:
    """Return the index that would help a search, "" if none would."""
    fixed = [key for key, each in needs.items() if len(each) == 1 and each[0].is_point]
    ordered = [each for each in order.keys if each.key not in fixed]
    if ordered:
        told = [spelt(each.key, descending=each.descending) for each in ordered]
        room = max(0, 4 - len(told))
        return ", ".join([*(spelt(key) for key in fixed[:room]), *told])
    first = fixed or list(needs)
    return spelt(first[0]) if first else ""
