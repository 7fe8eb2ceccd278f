"""Rows of one slot that the tables lack, and the answers from them alone. Pure."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import assert_never

from docstore.model.document import Row
from docstore.storage import store
from docstore.storage.answers import row_bytes, within_bytes

_n = attrgetter("n")
_version = attrgetter("version")
_updated_us = attrgetter("updated_us")


@dataclass(frozen=True, slots=True)
class Wait:
    """Plan of a query that the tables answer alone, once they have followed entry `number`."""

    number: int
    hurry: bool = True
    """Whether a caller waits for the answer, so that the tables must follow at once."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Queries to the tables; `Overlay.merged` makes the answer from their results."""

    queries: tuple[store.Query, ...]
    rows: Sequence[Row] = ()
    """Rows of the overlay, in the order of the answer."""
    rewritten: int = 0
    """Number of the last entry, when the plan was made, that removed rows of the slot."""
    lacked: int = 0
    """Number of the last entry, when the plan was made, that the answer may need if a page is
    short."""


Plan = list[Row] | Ask | Wait


class Tail:
    """The rows of one slot in the order of their journal entries.

    Reads ignore it while the tables still have to remove rows of that slot.
    """

    __slots__ = ("entries", "last", "links", "number", "rows")

    def __init__(self, number: int) -> None:
        self.number = number
        self.last = 0
        """The last entry that changes the slot."""
        self.rows: list[Row] = []
        self.entries: list[int] = []
        """Number of the entry of each row."""
        self.links: dict[str, list[Row]] = {}

    def drop(self, until: int) -> None:
        """Drop the rows of entries up to number `until`."""
        count = bisect_right(self.entries, until)
        for link, number in Counter(row.link for row in self.rows[:count]).items():
            del self.links[link][:number]
            if not self.links[link]:
                del self.links[link]
        del self.rows[:count], self.entries[:count]

    def has_below(self, prefix: str, bound: int) -> bool:
        """Return whether a row with n <= `bound` has a link that begins with `prefix`."""
        return any(
            link.startswith(prefix) and rows[0].n <= bound for link, rows in self.links.items()
        )

    def newest(self, link: str, until: int) -> Row | None:
        """Return the newest of a link's rows with n <= `until`, None if the tail has none."""
        rows = self.links.get(link)
        if rows is None:
            return None
        index = bisect_right(rows, until, key=_n)
        return rows[index - 1] if index else None

    def plan(self, query: store.OfLog) -> list[Row] | Ask:
        """Return the answer, or the queries to the tables that it needs."""
        match query:
            case store.Newest(_, link, until):
                row = self.newest(link, until)
                return [row] if row is not None else Ask((query,))
            case store.Version(_, link, version, until):
                rows = self.links.get(link, ())
                if not rows or version < rows[0].version:
                    return Ask((query,))
                index = bisect_left(rows, version, key=_version)
                found = rows[index : index + 1]
                return [row for row in found if row.version == version and row.n <= until]
            case store.AsOf(_, link, at_us, until):
                rows = self.links.get(link, ())
                index = bisect_right(rows, at_us, key=_updated_us)
                index = min(index, bisect_right(rows, until, key=_n))
                return [rows[index - 1]] if index else Ask((query,))
            case store.LastBefore(_, before_us, until):
                index = bisect_left(self.rows, before_us, key=_updated_us)
                index = min(index, bisect_right(self.rows, until, key=_n))
                return [self.rows[index - 1]] if index else Ask((query,))
            case store.History():
                return self._history(query)
            case store.Rows(_, first, last):
                return self._stretch(query, first, last)
            case store.After(_, after, until):
                return self._stretch(query, after + 1, until)
            case store.Tombstones():
                return Ask((query,), [rows[-1] for rows in self.links.values()])
            case _:
                assert_never(query)

    def _history(self, query: store.History) -> list[Row] | Ask:
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

    def _stretch(self, query: store.Rows | store.After, first: int, last: int) -> list[Row] | Ask:
        begin = self.rows[0].n if self.rows else store.UNBOUNDED
        if last < begin:
            return Ask((query,))
        start = max(0, first - begin)
        rows = self.rows[start : max(start, last - begin + 1)]
        if first >= begin:
            limit = query.limit if isinstance(query, store.After) else len(rows)
            return within_bytes(rows[:limit], query.bytes_max)
        end = begin - 1
        narrowed: store.Query
        if isinstance(query, store.After):
            narrowed = replace(query, until=end)
        else:
            narrowed = replace(query, last=end)
        return Ask((narrowed, store.Rows(query.slot, end, end)), rows)
