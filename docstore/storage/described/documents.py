"""Statements on the tables of `schema.py`, and how statements become text."""

from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Integer,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    column,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
    values,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.elements import CompilerElement

from docstore.storage.described.schema import (
    after,
    current,
    dead,
    expires,
    history,
    journal,
    live,
    metadata,
    node,
    slots,
)
from docstore.storage.inserts import MANY


def sql(statement: CompilerElement) -> str:
    """Return the text of a statement, with a question mark for each `bindparam`.

    No literal of a statement has white space, which is thus only SQLAlchemy's way to indent.
    """
    compiled = statement.compile(dialect=sqlite.dialect(paramstyle="qmark"))
    return " ".join(str(compiled).split())


def replacing(line: Insert) -> str:
    """Return the text of an INSERT that replaces the row with the same primary key."""
    key = [column.name for column in line.table.primary_key]
    fresh = {each.name: each for each in line.excluded if each.name not in key}
    return sql(line.on_conflict_do_update(index_elements=key, set_=fresh))


def _is(*columns: Column[int] | Column[str]) -> list[ColumnElement[bool]]:
    return [column == bindparam(column.name) for column in columns]


ONE = literal_column("1", Integer)
NONE = literal_column("0", Integer)
LIMIT = bindparam("limit", type_=Integer)


def in_one_line(lines: Select[Any]) -> Select[Any]:
    """Return up to `limit` lines as one, [[...], ...] in JSON, for the reason given at MANY."""
    part = lines.limit(LIMIT).offset(NONE).subquery()
    return select(func.json_group_array(func.json_array(*part.columns)))


def links_between(table: Table, *is_live: ColumnElement[bool]) -> str:
    """Return the text that selects live documents from `first` up to `beyond`, by link."""
    columns = table.c
    found = select(columns.slot, columns.link, columns.version).where(
        *is_live, *_between(columns.link)
    )
    return sql(in_one_line(found.order_by(columns.link, columns.slot)))


def count_between(table: Table, *is_live: ColumnElement[bool]) -> str:
    """Return the text that counts live documents by slot.

    Links that have a slash from `name_at` on do not count.
    """
    name = func.substr(table.c.link, bindparam("name_at", type_=Integer))
    return sql(
        select(table.c.slot, func.count(literal_column("*")))
        .where(*is_live, *_between(table.c.link), func.instr(name, literal_column("'/'")) == NONE)
        .group_by(table.c.slot)
    )


def _between(link: Column[Any]) -> tuple[ColumnElement[bool], ...]:
    return link >= bindparam("first"), link < bindparam("beyond")


# `+ 0` keeps SQLite from walking the whole slot by n: a link's rows are found by its key.
_until = history.c.n + literal_column("0") <= bindparam("until", type_=Integer)
_of_link = _is(history.c.slot, history.c.link)
_newest_first = (
    select(history).where(*_of_link).order_by(history.c.version.desc()).limit(ONE).offset(NONE)
)
_current_n = (
    select(current.c.n)
    .where(current.c.slot == history.c.slot, current.c.link == history.c.link)
    .scalar_subquery()
)

CREATE = [
    *(sql(CreateTable(table)) for table in metadata.sorted_tables),
    *sorted(sql(CreateIndex(each)) for table in metadata.sorted_tables for each in table.indexes),
]

# Without OR ROLLBACK, SQLite would copy each page that a statement of many rows touches, to undo
# that statement alone. A failure rolls the whole batch back anyway.
INSERT_ROW = sql(insert(history).prefix_with("OR ROLLBACK"))
_pointer = insert(current).prefix_with("OR ROLLBACK")
POINT = replacing(_pointer)
# SQLite rewrites an index whose columns or condition a statement sets, even to the same values.
# Hence most updates use this one, which leaves `current_live` alone: a third random page per row.
ADVANCE = sql(
    _pointer.on_conflict_do_update(
        index_elements=list(current.primary_key),
        set_={name: _pointer.excluded[name] for name in ("version", "n")},
        where=and_(
            current.c.deleted == _pointer.excluded.deleted,
            current.c.expires_us == _pointer.excluded.expires_us,
        ),
    )
)
UNPOINT = sql(delete(current).where(*_is(current.c.slot, current.c.link)))
_above = (history.c.slot == bindparam("slot"), history.c.n > bindparam("end"))
# Not "distinct", which would make SQLite walk the whole slot in the order of links.
LINKS_ABOVE = sql(select(history.c.link).where(*_above))
CUT = sql(delete(history).where(*_above))
POINTER_BELOW = sql(
    select(*(history.c[name] for name in (*current.c.keys()[:-1], "state")))
    .where(*_of_link)
    .order_by(history.c.version.desc())
    .limit(ONE)
    .offset(NONE)
)
LINKS_BETWEEN = sql(
    select(history.c.link).where(
        *_is(history.c.slot), history.c.n > bindparam("after"), history.c.n <= bindparam("kept")
    )
)
NEWEST_VERSION = sql(select(func.max(history.c.version)).where(*_of_link, _until))
SUPERSEDED = sql(
    delete(history).where(
        *_of_link,
        history.c.version < bindparam("version"),
        history.c.n + literal_column("0") <= bindparam("kept", type_=Integer),
    )
)
_newest_row = (
    history.c.slot == current.c.slot,
    history.c.link == current.c.link,
    history.c.version == current.c.version,
)
TOMBSTONES = sql(
    select(history)
    .select_from(current.join(history, and_(*_newest_row)))
    .where(
        current.c.slot == bindparam("slot"),
        dead,
        current.c.n <= bindparam("until"),
        history.c.updated_us < bindparam("before"),
    )
    .order_by(current.c.n)
    .limit(LIMIT)
    .offset(NONE)
)
_due = (current.c.expires_us, current.c.slot, current.c.n)
EXPIRED = sql(
    select(history)
    .select_from(current.join(history, and_(*_newest_row)))
    .where(expires, current.c.expires_us < bindparam("before"), after(*_due))
    .order_by(*_due)
    .limit(LIMIT)
    .offset(NONE)
)
_has_agenda = func.substr(history.c.operation, ONE, ONE) == literal_column("x'9c'")
WITH_AGENDA = sql(
    select(history)
    .select_from(current.join(history, and_(*_newest_row)))
    .where(*_is(current.c.slot), *_between(current.c.link), _has_agenda)
    .order_by(current.c.link)
)
PURGE = sql(delete(history).where(*_of_link, history.c.version <= bindparam("last")))
UNPOINT_VERSION = sql(
    delete(current).where(
        *_is(current.c.slot, current.c.link), current.c.version == bindparam("last")
    )
)
ERASE_HISTORY = sql(delete(history).where(*_is(history.c.slot)))
ERASE_CURRENT = sql(delete(current).where(*_is(current.c.slot)))
SAVE_SLOT = replacing(insert(slots))
INSERT_NODE = sql(insert(node))
UPDATE_NODE = sql(update(node))
INSERT_JOURNAL = sql(insert(journal))
_place = journal.c.keys()[:-1]
# SQLite neither writes nor syncs a transaction without a change, so this statement always has one.
UPDATE_JOURNAL = sql(
    update(journal).values(
        {name: bindparam(name) for name in _place} | {"written": journal.c.written + ONE}
    )
)

NODE = sql(select(node))
JOURNAL = sql(select(journal))
SLOT = sql(select(slots).where(*_is(slots.c.slot)))
SLOTS = sql(select(slots).order_by(slots.c.slot))
LAST_ROW_BEFORE_SLOT = sql(
    select(history)
    .where(history.c.slot < bindparam("slot"))
    .order_by(history.c.slot.desc(), history.c.n.desc())
    .limit(ONE)
    .offset(NONE)
)
ENDS_BY_POINTERS = sql(
    select(current.c.slot, func.max(current.c.n)).group_by(current.c.slot).order_by(current.c.slot)
)
END_BY_POINTERS = sql(select(func.max(current.c.n)).where(*_is(current.c.slot)))
NEWEST = sql(_newest_first.where(_until).add_columns(_current_n))


def _used() -> str:
    """Return the text that finds which of MANY (slot, link) have any row.

    The answer is one line, "0,3,12" or NULL, for the reason given at MANY.
    """
    fields = (column("place", Integer), column("slot", Integer), column("link", Text))
    lines: list[tuple[object, ...]] = [
        (literal_column(str(place)), bindparam(f"slot{place}"), bindparam(f"link{place}"))
        for place in range(MANY)
    ]
    asked = values(*fields, name="asked").data(lines).cte()
    known = [
        select(ONE).where(table.c.slot == asked.c.slot, table.c.link == asked.c.link)
        for table in (history, current)
    ]
    found = select(func.group_concat(asked.c.place)).where(or_(*(each.exists() for each in known)))
    return sql(found)


USED = _used()
CURRENT_N = sql(select(current.c.n).where(*_is(current.c.slot, current.c.link)))
VERSION = sql(select(history).where(*_of_link, *_is(history.c.version)))
AS_OF = sql(_newest_first.where(_until, history.c.updated_us <= bindparam("at_us")))
AFTER_VERSION = sql(
    select(history)
    .where(*_of_link, history.c.version > bindparam("version"))
    .order_by(history.c.version)
    .limit(ONE)
    .offset(NONE)
)
HISTORY = sql(
    select(history)
    .where(*_of_link, history.c.version < bindparam("before"), _until)
    .order_by(history.c.version.desc())
    .limit(LIMIT)
    .offset(NONE)
)
ROWS = sql(
    select(history)
    .where(
        *_is(history.c.slot),
        history.c.n >= bindparam("first"),
        history.c.n <= bindparam("last"),
    )
    .order_by(history.c.n)
)
ROWS_AFTER = sql(
    select(history)
    .where(*_is(history.c.slot), history.c.n > bindparam("after"), history.c.n <= bindparam("last"))
    .order_by(history.c.n)
    .limit(LIMIT)
    .offset(NONE)
)
LAST_N = sql(
    select(history.c.n)
    .where(*_is(history.c.slot))
    .order_by(history.c.n.desc())
    .limit(ONE)
    .offset(NONE)
)
LINKS = links_between(current, live)
_bounds = func.json_each(bindparam("bounds", type_=Text)).table_valued("key", "value")
_beyond = and_(history.c.slot == _bounds.c.key, history.c.n > _bounds.c.value)
LINKS_BEYOND = sql(
    in_one_line(select(history.c.slot, history.c.link).select_from(_bounds.join(history, _beyond)))
)
BOUNDED = sql(
    select(history.c.version, history.c.deleted)
    .where(*_of_link, _until)
    .order_by(history.c.version.desc())
    .limit(ONE)
    .offset(NONE)
)
LIVE = sql(select(ONE).where(*_is(current.c.slot, current.c.link), live))
COUNT = count_between(current, live)
# A subquery and not a join, which SQLite would begin at `history`, with all its old versions.
_current_digest = (
    select(history.c.digest)
    .where(
        history.c.slot == current.c.slot,
        history.c.link == current.c.link,
        history.c.version == current.c.version,
    )
    .scalar_subquery()
)
DIGESTS = sql(
    select(current.c.link, current.c.version, _current_digest).where(*_is(current.c.slot), live)
)
