"""A connection of apsw that looks like one of sqlite3, as far as storage uses it."""

import sqlite3
from collections.abc import Iterable
from typing import Any

import apsw

from docstore.storage.database_threads import PRAGMAS
from tests.disk.shared import SharedVfs
from tests.disk.vfs import Vfs

FILE = "docstore.db"


class Connection:
    """Executes statements on a simulated disk, and fails as the standard library does."""

    def __init__(
        self, vfs: Vfs | SharedVfs, *, synchronous: str = "FULL", file: str = FILE
    ) -> None:
        self._is_alone = isinstance(vfs, Vfs)
        self._raw = _translated(
            apsw.Connection, vfs.path_of(file), vfs=vfs.name,
            flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
        )  # fmt: skip
        try:
            self._configure(synchronous)
        except BaseException:
            self.close()  # Else the collector does, perhaps after it has removed the disk.
            raise

    def _configure(self, synchronous: str) -> None:
        if self._is_alone:
            self.execute("PRAGMA locking_mode = EXCLUSIVE")  # No shared memory on this disk.
        for pragma in PRAGMAS:
            self.execute(f"PRAGMA {pragma}")
        self.execute(f"PRAGMA synchronous = {synchronous}")

    def execute(self, sql: str, parameters: Iterable[Any] = ()) -> Any:
        """Execute one statement, to its end."""
        return _Cursor(_translated(self._run, sql, tuple(parameters)))

    def executemany(self, sql: str, parameters: Iterable[Any]) -> None:
        """Execute a statement for each of the parameters."""
        for each in parameters:
            _translated(self._run, sql, tuple(each))

    def _run(self, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return list(self._raw.execute(sql, parameters))

    @property
    def total_changes(self) -> int:
        """Return the number of rows that were changed so far."""
        return int(self._raw.total_changes())

    @property
    def in_transaction(self) -> bool:
        """Say whether a transaction is open."""
        return bool(self._raw.in_transaction)

    def close(self) -> None:
        """Close, which may copy the log into the file."""
        self._raw.close(True)


class _Cursor:
    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = iter(rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)

    def __iter__(self) -> Any:
        return self._rows


def _translated(call: Any, *arguments: Any, **named: Any) -> Any:
    """Call; raise what sqlite3 raises for the same error."""
    try:
        return call(*arguments, **named)
    except apsw.Error as error:
        code = getattr(error, "extendedresult", apsw.SQLITE_ERROR)
        damaged = isinstance(error, apsw.CorruptError | apsw.NotADBError)
        raised = (sqlite3.DatabaseError if damaged else sqlite3.OperationalError)(str(error))
        raised.sqlite_errorcode = code
        raised.sqlite_errorname = apsw.mapping_extended_result_codes.get(
            code, apsw.mapping_result_codes.get(code & 0xFF, "SQLITE_ERROR")
        )
        raise raised from error
