"""Listings of a slot or a factory: links, counts and digests."""

import sqlite3
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import orjson

from docstore.model.document import Row
from docstore.storage import branch_tables, tables
from docstore.storage.answers import digest_hex, is_child, link_digest
from docstore.storage.packing import row_of
from docstore.storage.reading import answer_within, number, record_of
from docstore.storage.store import UNBOUNDED, Bounds, Newest
from docstore.storage.transactions import snapshot

LINES_AT_ONCE = 4096
"""Lines of one page: a few more than the limit, because other nodes own some of them."""

_by_link = itemgetter(1, 0)


def links(
    connection: sqlite3.Connection,
    prefix: str,
    after: str,
    limit: int,
    until: Bounds,
    *,
    level: int,
) -> list[tuple[int, str, int]]:
    """Return up to `limit` (slot, link, version) of live children of `prefix`, by link."""
    with snapshot(connection):
        if level < 3:
            return list(_live(connection, branch_tables.LINKS, prefix, after, limit, until))
        beyond = _written_beyond(connection, until)
        found = list(_live(connection, tables.LINKS, prefix, after, limit, until, beyond))
        last = found[-1][1] if len(found) == limit > 0 else None
        for slot, link in beyond:
            if is_child(link, prefix) and link > after and (last is None or link <= last):
                found += _as_bounded(connection, slot, link, until[slot])
    found.sort(key=_by_link)
    return found[:limit]


def count(
    connection: sqlite3.Connection, prefix: str, until: Bounds, *, level: int
) -> dict[int, int]:
    """Return slot -> number of live direct children of `prefix`, where it has some."""
    # Begin after the slash: `prefix` is not a child of itself.
    span = (prefix + "\x00", _beyond(prefix), len(prefix) + 1)
    with snapshot(connection):
        if level < 3:
            counted = dict(connection.execute(branch_tables.COUNT, span).fetchall())
        else:
            counted = dict(connection.execute(tables.COUNT, span).fetchall())
            for slot, link in _written_beyond(connection, until):
                if is_child(link, prefix):
                    now = connection.execute(tables.LIVE, (slot, link)).fetchone()
                    then = len(_as_bounded(connection, slot, link, until[slot]))
                    counted[slot] = counted.get(slot, 0) + then - (now is not None)
    return {slot: n for slot, n in counted.items() if slot in until and n}


def below(connection: sqlite3.Connection, prefix: str, slots: Collection[int]) -> list[Row]:
    """Return the newest rows of live documents at any depth below `prefix`, by link."""
    found: list[tuple[int, str]] = []
    first: str | None = prefix + "\x00"  # Begin after the slash: `prefix` is not below itself.
    with snapshot(connection):
        while first is not None:
            lines = _lines(connection, tables.LINKS, first, _beyond(prefix), LINES_AT_ONCE)
            first = lines[-1][1] + "\x00" if len(lines) == LINES_AT_ONCE else None
            found += [(slot, link) for slot, link, _ in lines if slot in slots]
        asked = [Newest(slot, link, UNBOUNDED) for slot, link in found]
        results = answer_within(connection, asked)
    return [row for result in results if isinstance(result, list) for row in result]


def with_agenda(connection: sqlite3.Connection, prefix: str, slots: Collection[int]) -> list[Row]:
    """Return the newest rows of links below `prefix` that have an agenda, by slot and link."""
    span = (prefix + "\x00", _beyond(prefix))
    found = (
        row_of(columns)
        for slot in sorted(slots)
        for columns in connection.execute(tables.WITH_AGENDA, (slot, *span))
    )
    return [row for row in found if row is not None]


def _live(
    connection: sqlite3.Connection,
    statement: str,
    prefix: str,
    after: str,
    limit: int,
    slots: Container[int],
    passed_over: Container[tuple[int, str]] = (),
) -> Iterator[tuple[int, str, int]]:
    """Yield up to `limit` (slot, link, version) of children as the tables have them, by link."""
    beyond = _beyond(prefix)
    first: str | None = max(after + "\x00", prefix) if after else prefix
    while first is not None and limit > 0:
        at_once = min(4 * limit, LINES_AT_ONCE)
        lines = _lines(connection, statement, first, beyond, at_once)
        first = lines[-1][1] + "\x00" if len(lines) == at_once else None
        for slot, link, version in lines:
            if is_child(link, prefix):
                if slot in slots and (slot, link) not in passed_over:
                    yield slot, link, version
                    limit -= 1
                    if limit == 0:
                        break
            elif link != prefix:
                # A grandchild: continue after all of its siblings.
                first = _beyond(link[: link.index("/", len(prefix)) + 1])
                break


def _written_beyond(connection: sqlite3.Connection, until: Bounds) -> set[tuple[int, str]]:
    """Return the (slot, link) with rows beyond the bounds: seldom more than the rows in flight."""
    bounds = orjson.dumps(until, option=orjson.OPT_NON_STR_KEYS).decode()
    lines = _lines(connection, tables.LINKS_BEYOND, bounds, -1)  # -1 is no limit.
    return {(slot, link) for slot, link in lines}


def _lines(connection: sqlite3.Connection, statement: str, *asked: object) -> list[Any]:
    """Return the lines of a statement that returns all lines as one JSON array."""
    (found,) = connection.execute(statement, asked).fetchone()
    lines: list[Any] = orjson.loads(found)
    return lines


def _as_bounded(
    connection: sqlite3.Connection, slot: int, link: str, until: int
) -> list[tuple[int, str, int]]:
    """Return the (slot, link, version) of a document as of row `until`; none if it was not live."""
    found = connection.execute(tables.BOUNDED, (slot, link, until)).fetchone()
    return [(slot, link, found[0])] if found and not found[1] else []


def digests(
    connection: sqlite3.Connection, slots: Sequence[int]
) -> dict[int, tuple[int, int, str]]:
    """Return slot -> (end, number of links, digest in hex).

    SQLite releases the interpreter's lock at every row, so the event loop keeps running.
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
    """Return the first string after all that begin with `prefix`, which ends in "/"."""
    assert prefix.endswith("/")
    return prefix[:-1] + chr(ord("/") + 1)
