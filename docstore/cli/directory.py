"""Inspect the data directory of a node that is stopped, without writing to it.

SQLite writes files beside a database that has a log. So a database without a log is opened as
immutable, and the files of a killed node are copied first.
"""

import fcntl
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from docstore.cli.diagnosis.directory import Found
from docstore.config import database_in, streams_in
from docstore.errors import BadConfig
from docstore.maintenance.restored import restored_in
from docstore.node.quarantine import NOTE
from docstore.runtime.secret_files import is_open_to_others
from docstore.storage.migrations import DOCUMENTS, STREAMS
from docstore.storage.starting import Sizes

FORMAT = {"documents": "SELECT format FROM node", "streams": "SELECT format FROM file"}
ALONE = "SELECT alone FROM journal"
"""Query for 1 if the tables contain the whole journal, as after an orderly stop."""
CHECK = "PRAGMA quick_check(1)"
"""Check of the pages of a file and of their references; it takes seconds for a gigabyte."""
FAULTY = "SELECT count(*) FROM slots WHERE status != 'full'"


def look(data: Path) -> Found:
    """Return the state of a data directory. Raises OSError for files that cannot be read."""
    documents, streams = database_in(data), streams_in(data)
    try:
        has_node = (data / "node-id").exists() or restored_in(data) is not None
    except BadConfig as error:
        return Found(unrestored=str(error))
    if not documents.exists() or not has_node:
        return Found(is_node=False)
    if _is_locked(documents):
        return Found(runs=True)
    note = data / NOTE
    found = Found(
        damage=note.read_text("utf-8", "replace").strip() if note.exists() else "",
        was_killed=any(_has_log(each) for each in (documents, streams)),
        has_journal=any(Path(f"{documents}.journal").glob("*")),
        lacks_life=streams.exists() and not Path(f"{streams}.life").exists(),
        has_ballast=Path(f"{documents}.ballast").exists(),
        free_bytes=shutil.disk_usage(data).free,
        start_bytes=Sizes().start_bytes,
        open_files=_open_files(data, documents, streams),
    )
    if not found.was_killed:
        return _read(found, documents, streams)
    with TemporaryDirectory() as place:
        left = [each for path in (documents, streams) for each in (path, _log(path))]
        left = [each for each in left if each.exists()]
        if sum(each.stat().st_size for each in left) > shutil.disk_usage(place).free:
            return replace(found, no_room_in=place)
        for each in left:
            shutil.copy(each, place)
        copies = [Path(place) / each.name for each in (documents, streams)]
        return replace(_read(found, *copies), was_killed=True)


def _read(found: Found, documents: Path, streams: Path) -> Found:
    """Add formats, damage and faulty slots, read from the files."""
    formats, unreadable = {}, {}
    for path, kind in ((documents, DOCUMENTS), (streams, STREAMS)):
        if path.exists():
            try:
                (formats[kind.holds],) = _line(path, FORMAT[kind.holds])
                (damage,) = _line(path, CHECK)
                if damage != "ok":
                    unreadable[path.name] = damage.replace("\n", " ")
            except sqlite3.Error as error:
                unreadable[path.name] = str(error)
    known = {kind.holds: kind.format for kind in (DOCUMENTS, STREAMS)}
    found = replace(
        found, unreadable=unreadable, formats={k: (v, known[k]) for k, v in formats.items()}
    )
    if formats.get("documents") != DOCUMENTS.format or documents.name in unreadable:
        return found
    (alone,), (faulty,) = _line(documents, ALONE), _line(documents, FAULTY)
    return replace(found, was_killed=not alone, faulty_slots=faulty)


def _is_locked(path: Path) -> bool:
    """Say whether a process holds the lock of a store, by taking it for a moment."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _log(path: Path) -> Path:
    return Path(f"{path}-wal")


def _has_log(path: Path) -> bool:
    return _log(path).exists() and _log(path).stat().st_size > 0


def _line(path: Path, question: str) -> tuple[Any, ...]:
    access = "mode=rw" if _has_log(path) else "mode=ro&immutable=1"
    address = f"{path.resolve().as_uri()}?{access}"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        line = connection.execute(question).fetchone()
    if line is None:
        raise sqlite3.DatabaseError("the entry is no longer in the file; try again")
    found: tuple[Any, ...] = line
    return found


def _open_files(data: Path, *files: Path) -> tuple[str, ...]:
    if not data.stat().st_mode & 0o011:
        return ()  # Other users cannot enter the directory.
    return tuple(each.name for each in files if each.exists() and is_open_to_others(each))
