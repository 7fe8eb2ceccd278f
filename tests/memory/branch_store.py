"""Versions at levels 1 and 2 in memory, as `storage/branching.py` keeps them in the file."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import assert_never

from docstore.model.document import Row, expiry_us
from docstore.storage.answers import within_bytes
from docstore.storage.replication_log import (
    Aged,
    Arrivals,
    Arrive,
    BranchQuery,
    BranchStatus,
    BranchWrite,
    Heads,
    Lines,
    Prune,
    SaveCursor,
    SetStatus,
)
from docstore.storage.store import Expired


class BranchStore:
    """The versions at levels 1 and 2 by arrival number, each with its status, and the cursors."""

    __slots__ = ("_of", "_rows", "arrived", "cursors")

    def __init__(self) -> None:
        self._rows: dict[int, tuple[Row, BranchStatus]] = {}
        self._of: dict[tuple[int, str], list[int]] = {}
        self.arrived = 0
        self.cursors: dict[str, tuple[int, int]] = {}

    def copy(self) -> "BranchStore":
        """Return an equal store that changes independently of this one."""
        store = BranchStore()
        store._rows = self._rows.copy()
        store._of = {key: numbers.copy() for key, numbers in self._of.items()}
        store.arrived, store.cursors = self.arrived, self.cursors.copy()
        return store

    def apply(self, write: BranchWrite) -> None:
        match write:
            case Arrive(row, standing):
                assert row.n > self.arrived, "arrival numbers grow"
                self._rows[row.n] = (row, standing)
                self._of.setdefault((row.slot, row.link), []).append(row.n)
                self.arrived = row.n
            case SetStatus(n, standing):
                self._rows[n] = (self._rows[n][0], standing)
            case Prune(numbers):
                for n in numbers:
                    assert n < self.arrived, "the last arrival stays"
                    row, _ = self._rows.pop(n)
                    self._of[row.slot, row.link].remove(n)
            case SaveCursor(disk, configuration, n):
                self.cursors[disk] = (configuration, n)
            case _:
                assert_never(write)

    def answer(self, query: BranchQuery | Expired) -> list[Row]:
        match query:
            case Heads(slot, link):
                found = [self._rows[n] for n in self._of.get((slot, link), ())]
                return [row for row, standing in found if standing is not BranchStatus.PAST]
            case Lines(slot, link, limit):
                rows = [self._rows[n][0] for n in self._of.get((slot, link), ())]
                return sorted(rows, key=lambda row: (row.version, row.n), reverse=True)[:limit]
            case Arrivals(after, limit, bytes_max):
                later = (row for n, (row, _) in self._rows.items() if n > after)
                return within_bytes(list(islice(later, limit)), bytes_max)
            case Expired():
                return expired((row for row in self.winners() if not row.deleted), query)
            case Aged(wanted, before_us, limit):
                aged = [
                    row
                    for row, standing in self._rows.values()
                    if standing is wanted and row.updated_us < before_us
                ]
                return sorted(aged, key=lambda row: (row.updated_us, row.n))[:limit]

    def winners(self) -> Iterator[Row]:
        """Yield the version of each document that readers see."""
        return (row for row, standing in self._rows.values() if standing is BranchStatus.WINNER)

    def in_conflict(self) -> int:
        """Return the number of documents with losing branches."""
        return len(
            {row.link for row, standing in self._rows.values() if standing is BranchStatus.LOSER}
        )


def expired(rows: Iterable[Row], query: Expired) -> list[Row]:
    """Return the rows whose expiry time has passed, the earliest first."""
    due = {(expiry_us(row.state), row.slot, row.n): row for row in rows}
    over = [place for place in due if 0 < place[0] < query.before_us and place > query.after]
    return [due[place] for place in sorted(over)[: query.limit]]
