"""Versions at levels 1 and 2 in memory, as `branching.py` keeps them in the file."""

from collections.abc import Iterator, Sequence
from itertools import islice

from docstore.document import Row
from docstore.storage.store import (
    Aged,
    Arrivals,
    Arrive,
    Heads,
    Lines,
    Prune,
    SaveCursor,
    Stand,
    Standing,
)

ROW_BYTES = 128
"""What a row weighs in an answer beside its state and its link: about its other fields."""


class Shelf:
    """Number of arrival -> version and how it stands, and the cursors."""

    __slots__ = ("_of", "_rows", "arrived", "cursors")

    def __init__(self) -> None:
        self._rows: dict[int, tuple[Row, Standing]] = {}
        self._of: dict[str, list[int]] = {}
        self.arrived = 0
        self.cursors: dict[str, tuple[int, int]] = {}

    def copy(self) -> "Shelf":
        """Return a shelf that is equal now and goes its own way from here on."""
        shelf = Shelf()
        shelf._rows = self._rows.copy()
        shelf._of = {link: numbers.copy() for link, numbers in self._of.items()}
        shelf.arrived, shelf.cursors = self.arrived, self.cursors.copy()
        return shelf

    def apply(self, write: Arrive | Stand | Prune | SaveCursor) -> None:
        """Do one write."""
        match write:
            case Arrive(row, standing):
                assert row.n > self.arrived, "numbers of arrival grow"
                self._rows[row.n] = (row, standing)
                self._of.setdefault(row.link, []).append(row.n)
                self.arrived = row.n
            case Stand(n, standing):
                self._rows[n] = (self._rows[n][0], standing)
            case Prune(numbers):
                for n in numbers:
                    row, _ = self._rows.pop(n)
                    self._of[row.link].remove(n)
            case SaveCursor(disk, configuration, n):
                self.cursors[disk] = (configuration, n)

    def answer(self, query: Heads | Lines | Arrivals | Aged) -> list[Row]:
        """Return the result of a query."""
        match query:
            case Heads(_, link):
                found = [self._rows[n] for n in self._of.get(link, ())]
                return [row for row, standing in found if standing is not Standing.PAST]
            case Lines(_, link, limit):
                rows = [self._rows[n][0] for n in self._of.get(link, ())]
                return sorted(rows, key=lambda row: (row.version, row.n), reverse=True)[:limit]
            case Arrivals(after, limit, bytes_max):
                later = (row for n, (row, _) in self._rows.items() if n > after)
                return within_bytes(list(islice(later, limit)), bytes_max)
            case Aged(wanted, before_us, limit):
                aged = [
                    row
                    for row, standing in self._rows.values()
                    if standing is wanted and row.updated_us < before_us
                ]
                return sorted(aged, key=lambda row: row.updated_us)[:limit]

    def winners(self) -> Iterator[Row]:
        """Yield the version of each document that readers see."""
        return (row for row, standing in self._rows.values() if standing is Standing.WINNER)

    def in_conflict(self) -> int:
        """Return how many documents have branches that lost."""
        return len(
            {row.link for row, standing in self._rows.values() if standing is Standing.LOSER}
        )


def within_bytes(rows: Sequence[Row], bytes_max: int) -> list[Row]:
    """Return the first rows that weigh `bytes_max` together; at least one if there is one."""
    weight = 0
    for index, row in enumerate(rows):
        weight += row_bytes(row)
        if weight > bytes_max and index:
            return list(rows[:index])
    return list(rows)


def row_bytes(row: Row) -> int:
    """Return about how many bytes a row takes on the wire."""
    return ROW_BYTES + len(row.link) + len(row.state)
