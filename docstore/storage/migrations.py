"""Migration of a file from an earlier format to the one of this version, at a start.

A file has a format, a whole number, in its one line (`node`, `file`). A change of the tables that
the version before cannot read must raise the format by one, and must add a step here that turns a
file of format n into one of n + 1. A start runs the missing steps in the transaction that counts
the boot, so after a power cut the file has either its old format or the new one. There is no step
back (see decision 43).

In every format the line begins with the format and ends with two checksums: of the definitions of
the tables, and of the line itself. So each version can verify the line, and renew it after a step,
without knowing its other columns.
"""

import sqlite3
from collections.abc import Callable, Mapping
from typing import NamedTuple

from docstore.errors import StoreBroken
from docstore.storage.packing import SCHEMA, checksum, schema_checksum

Step = Callable[[sqlite3.Connection], None]
"""Function that brings a file to the next format; `migrate` renews the line of the file. A step
must not end the transaction (as `executescript` does). Its writes need room twice: in the log, then
in the file."""


class Kind(NamedTuple):
    """A kind of file: its content and the table of its line.

    format: the one that this version writes. steps: n -> the step from format n to n + 1.
    """

    holds: str
    table: str
    format: int
    steps: Mapping[int, Step]


DOCUMENTS = Kind("documents", "node", 1, {})
STREAMS = Kind("streams", "file", 1, {})


def migrate(connection: sqlite3.Connection, kind: Kind) -> None:
    """Bring a file to the format of this version, within the transaction that is open.

    Raises StoreBroken when the file is not of this kind, has a later format than this version
    reads, or is damaged. An exception of a step rolls all of them back.
    """
    found = _line(connection, kind)[0]
    if found > kind.format:
        raise StoreBroken(
            f"the file of {kind.holds} has format {found}, and this version reads up to"
            f" {kind.format}: start the version that wrote it, or a later one"
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
        raise StoreBroken(
            f"the file is not a store of {kind.holds}: {error}; restore the file,"
            " or name the data directory of a node"
        ) from error
    if len(lines) != 1 or checksum(lines[0][:-1]) != lines[0][-1]:
        raise StoreBroken(f"the header row of the file of {kind.holds} is damaged: restore it")
    line: tuple[int, ...] = lines[0]  # Later columns may have other types.
    return line


def _insist_on_schema(connection: sqlite3.Connection, kind: Kind) -> None:
    if _line(connection, kind)[-2] != schema_checksum(connection.execute(SCHEMA).fetchall()):
        raise StoreBroken(
            f"the table definitions in the file of {kind.holds} are damaged: restore it"
        )


def _renew_line(connection: sqlite3.Connection, kind: Kind, number: int) -> None:
    renewed = f"UPDATE {kind.table} SET format = ?, schema = ?, checksum = ?"  # noqa: S608 - ours
    _, *kept, _, _ = connection.execute(f"SELECT * FROM {kind.table}").fetchone()  # noqa: S608
    schema = schema_checksum(connection.execute(SCHEMA).fetchall())
    connection.execute(renewed, (number, schema, checksum((number, *kept, schema))))
