"""What a slot or a factory holds, as a reader sees it: links, counts and digests."""

import sqlite3
from collections.abc import Iterable, Sequence

from docstore.storage import branching, tables
from docstore.storage.ledger import digest_hex, is_child, link_digest
from docstore.storage.reading import number, record_of, snapshot


def links(
    connection: sqlite3.Connection,
    prefix: str,
    after: str,
    limit: int,
    slots: frozenset[int],
    *,
    level: int,
) -> list[tuple[int, str, int]]:
    """Return up to `limit` (slot, link, version) of live children of `prefix`, by link."""
    statement = tables.LINKS if level == 3 else branching.LINKS
    found: list[tuple[int, str, int]] = []
    beyond = _beyond(prefix)
    first: str | None = max(after + "\x00", prefix) if after else prefix
    with snapshot(connection):
        while first is not None:
            below = connection.execute(statement, (first, beyond))
            first = None
            for slot, link, version in below:
                if len(found) >= limit:
                    break
                if is_child(link, prefix):
                    if slot in slots:
                        found.append((slot, link, version))
                elif link != prefix:
                    # A grandchild: go on behind all of its siblings, however many there are.
                    first = _beyond(link[: link.index("/", len(prefix)) + 1])
                    break
    return found


def count(connection: sqlite3.Connection, prefix: str, slots: frozenset[int], *, level: int) -> int:
    """Return how many live direct children `prefix` has in the given slots."""
    statement = tables.COUNT if level == 3 else branching.COUNT
    with snapshot(connection):
        # Behind the slash: `prefix` itself is not its own child.
        span = (prefix + "\x00", _beyond(prefix), len(prefix) + 1)
        return sum(n for slot, n in connection.execute(statement, span) if slot in slots)


def digests(
    connection: sqlite3.Connection, slots: Sequence[int]
) -> dict[int, tuple[int, int, str]]:
    """Return slot -> (end, number of links, digest in hex).

    SQLite gives up the interpreter's lock at every row, so that the event loop gets its turns.
    """
    with snapshot(connection):
        records = map(record_of, connection.execute(tables.SLOTS))
        kept = {record.slot: record.kept for record in records}
        return {
            slot: (
                max(number(connection, tables.LAST_N, slot), kept.get(slot, 0)),
                *_digest(connection.execute(tables.DIGESTS, (slot,))),
            )
            for slot in slots
        }


def _digest(newest: Iterable[tuple[str, int, bytes | None]]) -> tuple[int, str]:
    total = number = 0
    for link, version, digest in newest:
        total += link_digest(link, version, digest or b"")
        number += 1
    return number, digest_hex(total)


def _beyond(prefix: str) -> str:
    """Return the first string behind all that begin with `prefix`, which ends in "/"."""
    assert prefix.endswith("/")
    return prefix[:-1] + chr(ord("/") + 1)
