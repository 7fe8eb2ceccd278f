"""How a file of an earlier format becomes one of this version, in the transaction of a start.

A file has a format, a whole number, in its one line (`node`, `file`). Whatever the code of before
could not read, or would misread, raises it by one, and comes with a step here that makes a file of
format n one of n + 1. A start plays the steps that a file lacks in the transaction that counts the
boot: after a cut of power the file is what it was or what this version makes of it, never between
the two. There is no step back (see decision 43).

In every format the line begins with the number and ends with what vouches for the definitions of
the tables and for the line itself. So it can be verified, and renewed after a step, without knowing
what else is in it.
"""

import sqlite3
from collections.abc import Callable, Mapping
from typing import NamedTuple

from docstore.errors import StoreBroken
from docstore.storage.packing import checksum, schema_checksum
from docstore.storage.tables import SCHEMA

Step = Callable[[sqlite3.Connection], None]
"""Makes a file of one format one of the next, but for its line. It may not end the transaction (as
`executescript` does), and the file needs room for what it writes twice: in the log, then itself."""


class Kind(NamedTuple):
    """A kind of file: what it holds, the table of its line, and what this version makes of it.

    format: what this version reads and writes. steps: n -> the step from n to n + 1.
    """

    holds: str
    table: str
    format: int
    steps: Mapping[int, Step]


def _with_a_journal(connection: sqlite3.Connection) -> None:
    """2 -> 3: the tables stand at a place in a journal, which is before its first entry."""
    connection.execute(
        "CREATE TABLE journal (key BLOB NOT NULL, number INTEGER NOT NULL, stamp BLOB NOT NULL,"
        " alone INTEGER NOT NULL, checksum INTEGER NOT NULL, written INTEGER NOT NULL)"
    )
    (key,) = connection.execute("SELECT randomblob(16)").fetchone()
    line = (key, 0, bytes(8), 1)
    connection.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?, 0)", (*line, checksum(line)))


DOCUMENTS = Kind("documents", "node", 3, {2: _with_a_journal})
STREAMS = Kind("streams", "file", 1, {})


def migrate(connection: sqlite3.Connection, kind: Kind) -> None:
    """Bring a file to the format of this version, within the transaction that is open.

    Raises StoreBroken when that cannot be done: the file is not of this kind, newer than this
    version, older than the first step, or damaged. Whatever a step raises takes all of them back.
    """
    found = _line(connection, kind)[0]
    if found > kind.format:
        raise StoreBroken(
            f"the file of {kind.holds} has format {found}, and this version reads up to"
            f" {kind.format}: start the version that wrote it, or a later one"
        )
    missing = [number for number in range(found, kind.format) if number not in kind.steps]
    if missing:
        raise StoreBroken(
            f"the file of {kind.holds} has format {found}, and this version takes over from"
            f" {missing[-1] + 1} on: start an earlier version first, which brings it there"
        )
    for number in range(found, kind.format):
        _insist_on_schema(connection, kind)
        kind.steps[number](connection)
        _renew_line(connection, kind, number + 1)
    _insist_on_schema(connection, kind)


def _line(connection: sqlite3.Connection, kind: Kind) -> tuple[int, ...]:
    """Return the line of a file of any format. Raises StoreBroken."""
    try:
        lines = connection.execute(f"SELECT * FROM {kind.table}").fetchall()  # noqa: S608 - ours
    except sqlite3.OperationalError as error:
        raise StoreBroken(f"not a store of {kind.holds}: {error}") from error
    if len(lines) != 1 or checksum(lines[0][:-1]) != lines[0][-1]:
        raise StoreBroken("the line of the file is damaged")
    line: tuple[int, ...] = lines[0]  # Of any types, in between.
    return line


def _insist_on_schema(connection: sqlite3.Connection, kind: Kind) -> None:
    if _line(connection, kind)[-2] != schema_checksum(connection.execute(SCHEMA).fetchall()):
        raise StoreBroken("the definitions of the tables are damaged")


def _renew_line(connection: sqlite3.Connection, kind: Kind, number: int) -> None:
    renewed = f"UPDATE {kind.table} SET format = ?, schema = ?, checksum = ?"  # noqa: S608 - ours
    _, *kept, _, _ = connection.execute(f"SELECT * FROM {kind.table}").fetchone()  # noqa: S608
    schema = schema_checksum(connection.execute(SCHEMA).fetchall())
    connection.execute(renewed, (number, schema, checksum((number, *kept, schema))))
