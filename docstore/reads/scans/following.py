"""The file of indexes, and how a scanning process has it follow the file of documents.

    store (name, boot)                  the store of the documents, and its last start
    indexes (ix, prefix, name)          declared indexes; the entries of each are in the table e<ix>
    positions (ix, slot, n, epoch, owner)    the row up to which a slot is indexed

An index has, of each slot, the newest versions up to a decided row. Decided rows never change, so
what is in the file holds for ever, as long as the slot's log is the same: its row at the position
must still be there, under the same ballot (two logs with an equal row are equal up to it), and no
link may have been removed for good behind the position. Else the slot is built anew.

The file is no part of any commit, and is not synced. It can be deleted at any time: it is built
again from the documents.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from docstore.query import statements
from docstore.query.indexes import Index, parse_index
from docstore.query.ranges import text_behind

PATIENCE_S = 0.1
"""Seconds after which a question is answered, although more is to be indexed."""
WAL_PAGES = 4_000
CACHE_KIB = 8 << 10
"""Cache of the file: SQLite's 2 MiB would make random changes a third slower."""

_TABLES = {
    "store": "(name TEXT, boot INTEGER)",
    "indexes": "(ix INTEGER PRIMARY KEY AUTOINCREMENT, prefix TEXT, name TEXT)",
    "positions": (
        "(ix INTEGER, slot INTEGER, n INTEGER, epoch INTEGER, owner TEXT, PRIMARY KEY (ix, slot))"
        " WITHOUT ROWID"
    ),
}
NEWEST = (
    "CREATE TEMP TABLE newest (slot INTEGER, link TEXT, row INTEGER, PRIMARY KEY (slot, link))"
    " WITHOUT ROWID"
)
"""Rows of the newest versions of the links that are indexed."""
INDEXES = "SELECT ix, prefix, name FROM ix.indexes"
_STANDING = (
    "SELECT k.slot, p.n IS NOT NULL AND coalesce(s.kept, 0) <= p.n AND (p.n = 0 OR EXISTS"
    " (SELECT 1 FROM history h WHERE h.slot = k.slot AND h.n = p.n AND h.epoch = p.epoch"
    " AND h.owner = p.owner)), k.until - coalesce(p.n, 0)"
    " FROM temp.spans k LEFT JOIN main.slots s ON s.slot = k.slot"
    " LEFT JOIN ix.positions p ON p.ix = ? AND p.slot = k.slot"
    " WHERE p.n IS NULL OR k.slot NOT IN (SELECT value FROM json_each(?)) ORDER BY k.slot"
)
"""(slot, 1 if its position holds, rows from there to the row in `spans`)."""
# Rows of a slot come in the order of n, so the last row of a link replaces earlier ones.
_CHANGED = (
    "INSERT OR REPLACE INTO temp.newest SELECT h.slot, h.link, h.rowid"
    " FROM json_each(?) j CROSS JOIN temp.spans k ON k.slot = j.value"
    " CROSS JOIN ix.positions p ON p.ix = ? AND p.slot = k.slot"
    " CROSS JOIN history h INDEXED BY history_n ON h.slot = k.slot AND h.n > p.n AND h.n <= k.until"
    " WHERE h.link >= ? AND h.link < ? AND instr(substr(h.link, ?), '/') = 0"
)
_ALL = (
    "INSERT INTO temp.newest SELECT c.slot, c.link, h.rowid FROM json_each(?) j"  # noqa: S608
    " CROSS JOIN temp.spans k ON k.slot = j.value"
    f" CROSS JOIN current c ON c.slot = k.slot AND c.link >= ? AND c.link < ?{statements.NEWEST}"
    " WHERE instr(substr(c.link, ?), '/') = 0"
)
_REACHED = (
    "INSERT OR REPLACE INTO ix.positions SELECT ?, k.slot, k.until, coalesce(h.epoch, -1),"
    " coalesce(h.owner, '') FROM json_each(?) j CROSS JOIN temp.spans k ON k.slot = j.value"
    " LEFT JOIN history h ON h.slot = k.slot AND h.n = k.until"
)
_BEHIND = (
    "SELECT i.prefix, i.name, count(p.n) FROM ix.indexes i LEFT JOIN ix.positions p ON p.ix = i.ix"
    " GROUP BY i.ix"
)
"""Number of slots of each index that are built."""
_SLOTS_AT_ONCE, _ROWS_AT_ONCE = 256, 2_000
"""Greatest number of slots that are indexed together, and of their rows."""

Execute = Callable[..., list[tuple[Any, ...]]]


class IndexFile:
    """The file of indexes, attached to a connection that reads the file of documents."""

    def __init__(self, execute: Execute, path: Path) -> None:
        self._execute = execute
        self._path = path
        self._attached = 0
        """Inode of the attached file, which another process may replace; 0 for none."""

    def attach(self, store: Sequence[Any], *, creating: bool = False) -> bool:
        """Attach the file of this store's documents; return whether there is one.

        store: the store's identity, and the number of its start. A file of another store, or of a
        later start, belongs to documents that were replaced.
        """
        if self._attached and self._attached == _inode(self._path):
            return True
        self.detach()
        if not creating and not self._path.exists():
            return False
        if creating:  # It has values of documents, so only this process's user may read it.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._execute("ATTACH ? AS ix", (f"file:{quote(str(self._path))}?mode=rwc",))
        self._attached = _inode(self._path)
        self._execute(f"PRAGMA ix.cache_size = -{CACHE_KIB}")
        if creating:
            self._create(store)
        if self._fits(store):
            return True
        self.detach()
        if creating:
            self.delete()
            return self.attach(store, creating=True)
        return False

    def _create(self, store: Sequence[Any]) -> None:
        self._execute("PRAGMA ix.journal_mode = WAL")
        self._execute("PRAGMA ix.synchronous = NORMAL")
        self._execute(f"PRAGMA ix.wal_autocheckpoint = {WAL_PAGES}")
        with self._transaction():
            for name, columns in _TABLES.items():
                self._execute(f"CREATE TABLE IF NOT EXISTS ix.{name} {columns}")
            if not self._execute("SELECT 1 FROM ix.store"):
                self._execute("INSERT INTO ix.store VALUES (?, ?)", store)

    def _fits(self, store: Sequence[Any]) -> bool:
        name, boot = store
        found = self._execute("SELECT name, boot FROM ix.store")
        return bool(found) and found[0][0] == name and found[0][1] <= boot

    def detach(self) -> None:
        if self._attached:
            self._attached = 0
            self._execute("DETACH ix")

    def delete(self) -> None:
        delete(self._path)

    def tables(self, prefix: str) -> list[tuple[int, Index]]:
        """Return the indexes of a factory."""
        return [
            (ix, parse_index(name)) for ix, its, name in self._execute(INDEXES) if its == prefix
        ]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._execute("ROLLBACK")
            raise

    def follow(
        self,
        store: Sequence[Any],
        wanted: Sequence[Sequence[str]],
        held: Sequence[int],
        sure: Sequence[int],
    ) -> dict[str, Any]:
        """Index the rows up to those in `spans`.

        wanted: (prefix, name) of all indexes. held: the slots of this node, if they have changed.
        sure: slots whose log was not replaced since the last round. Return the slots for which
        there was no time, and, unless all are sure, how many slots of each index are built.
        """
        until = time.monotonic() + PATIENCE_S
        with self._transaction():
            self._execute("UPDATE ix.store SET boot = ? WHERE boot <> ?", (store[1], store[1]))
            self._declare({(prefix, name) for prefix, name in wanted})
            if held:
                self._drop_slots(held)
            late: set[int] = set()
            is_sure = True
            for ix, prefix, name in self._execute(INDEXES):
                filling = _Filling(self._execute, ix, prefix, parse_index(name))
                standing = self._execute(_STANDING, (ix, _json(sure)))
                is_sure = is_sure and not standing
                late |= _follow(filling, standing, sure, until)
            built = [] if is_sure else self._execute(_BEHIND)
        return {"late": sorted(late), "built": built}

    def _declare(self, wanted: set[tuple[str, str]]) -> None:
        """Create the tables of new indexes, and drop those of others."""
        known = {(prefix, name): ix for ix, prefix, name in self._execute(INDEXES)}
        for each in sorted(known.keys() - wanted):
            ix = known[each]
            self._execute(f"DROP TABLE ix.e{ix}")
            self._execute("DELETE FROM ix.positions WHERE ix = ?", (ix,))
            self._execute("DELETE FROM ix.indexes WHERE ix = ?", (ix,))
        for prefix, name in sorted(wanted - known.keys()):
            self._execute("INSERT INTO ix.indexes (prefix, name) VALUES (?, ?)", (prefix, name))
            [(ix,)] = self._execute("SELECT last_insert_rowid()")
            self._execute(f"CREATE TABLE ix.e{ix} {parse_index(name).table}")
            self._execute(f"CREATE INDEX ix.l{ix} ON e{ix} (slot, link)")

    def _drop_slots(self, held: Sequence[int]) -> None:
        """Forget the slots that have left this node: they may come back with other rows."""
        gone = self._execute(
            "SELECT ix, slot FROM ix.positions WHERE slot NOT IN (SELECT value FROM json_each(?))",
            (_json(held),),
        )
        for ix, slot in gone:
            self._execute(f"DELETE FROM ix.e{int(ix)} WHERE slot = ?", (slot,))  # noqa: S608
            self._execute("DELETE FROM ix.positions WHERE ix = ? AND slot = ?", (ix, slot))


class _Filling:
    """Writes the entries of one index."""

    def __init__(self, execute: Execute, ix: int, prefix: str, index: Index) -> None:
        self._execute = execute
        self.ix = int(ix)
        self._index = index
        self._within = (prefix, text_behind(prefix), len(prefix) + 1)
        execute("DROP TABLE IF EXISTS temp.made")
        execute(f"CREATE TEMP TABLE made {index.table}")

    def fill(self, slots: Sequence[int], *, anew: bool) -> None:
        """Index the rows up to `spans` of some slots: those after the position, or all anew."""
        self._execute("DELETE FROM temp.newest")
        if anew:
            self._execute(
                f"DELETE FROM ix.e{self.ix} WHERE slot IN (SELECT value FROM json_each(?))",  # noqa: S608
                (_json(slots),),
            )
            self._execute(_ALL, (_json(slots), *self._within))
        else:
            self._execute(_CHANGED, (_json(slots), self.ix, *self._within))
        self._make()
        if not anew:
            self._remove_old()
        self._execute(
            f"INSERT INTO ix.e{self.ix} SELECT * FROM temp.made"  # noqa: S608
            " WHERE 1 ON CONFLICT DO NOTHING"
        )
        self._execute(_REACHED, (self.ix, _json(slots)))

    def _remove_old(self) -> None:
        """Remove the entries of the newest versions that they no longer have."""
        same = " AND ".join(
            f"m.{name} = e{self.ix}.{name}" for name in (*self._index.columns, "link", "slot")
        )
        self._execute(
            f"DELETE FROM ix.e{self.ix}"  # noqa: S608 - our own words
            " WHERE (slot, link) IN (SELECT slot, link FROM temp.newest)"
            f" AND NOT EXISTS (SELECT 1 FROM temp.made m WHERE {same})"
        )

    def _make(self) -> None:
        """Compute the entries of the newest versions."""
        columns, its = self._index.entries
        elements, of_array = self._index.elements
        self._execute("DELETE FROM temp.made")
        self._execute(
            f"INSERT INTO temp.made SELECT {columns} FROM temp.newest x"  # noqa: S608
            f" CROSS JOIN history h ON h.rowid = x.row{elements} WHERE h.deleted = 0"
            " ON CONFLICT DO NOTHING",
            (*its, *of_array),
        )


def _follow(
    filling: _Filling, standing: Sequence[Sequence[int]], sure: Sequence[int], until: float
) -> set[int]:
    """Index the rows of one index; return the slots for which there was no time."""
    going = [(slot, rows) for slot, holds, rows in standing if holds and rows > 0]
    anew = [(slot, rows) for slot, holds, rows in standing if not holds]
    looked_at = {slot for slot, *_ in standing}
    going += [(slot, 1) for slot in sure if slot not in looked_at]
    parts = [*_parts(going), *_parts(anew, anew=True)]
    late: set[int] = set()
    for slots, is_anew in parts:
        if time.monotonic() >= until:
            late.update(slots)
        else:
            filling.fill(slots, anew=is_anew)
    return late


def _parts(
    slots: Sequence[tuple[int, int]], *, anew: bool = False
) -> Iterator[tuple[list[int], bool]]:
    """Yield parts of (slot, rows) that are indexed together."""
    part: list[int] = []
    size = 0
    for slot, rows in slots:
        if part and (len(part) == _SLOTS_AT_ONCE or size + rows > _ROWS_AT_ONCE):
            yield part, anew
            part, size = [], 0
        part.append(slot)
        size += rows
    if part:
        yield part, anew


def delete(path: Path) -> None:
    """Delete a file of indexes; processes that have it open notice before their next question."""
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _json(value: Sequence[int]) -> str:
    return orjson.dumps(value).decode()
