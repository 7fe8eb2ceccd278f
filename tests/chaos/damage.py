"""Damage to the files of a node that is down: bits are flipped, halves are restored."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from docstore.storage.journal import HEADER_BYTES, Header, headers_in

TABLES, JOURNAL = "docstore.db", "docstore.db.journal"


def flip(path: Path, count: int, rng: Random, *, first: int = 0, beyond: int | None = None) -> None:
    """Flip `count` bits in a stretch of a file, by default in the whole file."""
    with path.open("r+b") as file:
        beyond = file.seek(0, 2) if beyond is None else beyond
        for _ in range(count):
            at = rng.randrange(first, beyond)
            file.seek(at)
            old = file.read(1)[0]
            file.seek(at)
            file.write(bytes([old ^ (1 << rng.randrange(8))]))


def flip_in_journal(data: Path, rng: Random) -> None:
    """Flip a bit of one of the newest entries, except the last: that one would look torn.

    A killed process has no time to write an empty entry after its last one.
    """
    newest = sorted(_entries(data))[-300:-1]
    if newest:
        header, path, offset = rng.choice(newest)
        flip(path, 1, rng, first=offset, beyond=offset + HEADER_BYTES + header.length)


def _entries(data: Path) -> list[tuple[Header, Path, int]]:
    # Read only: else this would be a start of its own, and copy the log back.
    with closing(sqlite3.connect(f"file:{data / TABLES}?mode=ro", uri=True)) as connection:
        [(key,)] = connection.execute("SELECT key FROM journal").fetchall()
    return [
        (header, path, offset)
        for path in (data / JOURNAL).iterdir()
        for offset, header in headers_in(key, path.read_bytes())
    ]


def put_back_part(copy: Path, data: Path, part: str) -> None:
    """Replace the journal or the tables by those of an older copy."""
    if part == JOURNAL:
        shutil.rmtree(data / JOURNAL)
        shutil.copytree(copy / JOURNAL, data / JOURNAL)
    else:
        for end in ("", "-wal", "-shm"):
            (data / f"{TABLES}{end}").unlink(missing_ok=True)
        for end in ("", "-wal"):
            if (copy / f"{TABLES}{end}").exists():
                shutil.copy(copy / f"{TABLES}{end}", data)
