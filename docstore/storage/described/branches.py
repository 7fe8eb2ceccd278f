"""Statements on the versions at levels 1 and 2."""

from sqlalchemy import Integer, bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects.sqlite import insert

from docstore.storage.described.documents import (
    LIMIT,
    NONE,
    count_between,
    links_between,
    replacing,
    sql,
)
from docstore.storage.described.schema import after, branches, cursors, wins

row_columns = [each for each in branches.columns if each.name not in ("standing", "expires_us")]
ARRIVE = sql(insert(branches))
_n = branches.c.n == bindparam("number", type_=Integer)
STAND = sql(update(branches).where(_n).values(standing=bindparam("to")))
PRUNE = sql(delete(branches).where(_n))
SAVE_CURSOR = replacing(insert(cursors))
_of = (branches.c.slot == bindparam("slot"), branches.c.link == bindparam("link"))
HEADS = sql(select(*row_columns).where(*_of, branches.c.standing > NONE).order_by(branches.c.n))
LINES = sql(
    select(*row_columns)
    .where(*_of)
    .order_by(branches.c.version.desc(), branches.c.n.desc())
    .limit(LIMIT)
    .offset(NONE)
)
ARRIVALS = sql(
    select(*row_columns)
    .where(branches.c.n > bindparam("after"))
    .order_by(branches.c.n)
    .limit(LIMIT)
    .offset(NONE)
)
_not_winning = branches.c.standing != literal_column("1")
AGED = sql(
    select(*row_columns)
    .where(
        _not_winning,
        branches.c.standing == bindparam("standing"),
        branches.c.updated_us < bindparam("before"),
    )
    .order_by(branches.c.updated_us, branches.c.n)
    .limit(LIMIT)
    .offset(NONE)
)
EXPIRED = sql(
    select(*row_columns)
    .where(
        wins,
        branches.c.deleted == NONE,
        branches.c.expires_us > NONE,
        branches.c.expires_us < bindparam("before"),
        after(branches.c.expires_us, branches.c.slot, branches.c.n),
    )
    .order_by(branches.c.expires_us, branches.c.slot, branches.c.n)
    .limit(LIMIT)
    .offset(NONE)
)
ARRIVED = sql(select(func.max(branches.c.n)))
IN_CONFLICT = sql(
    select(func.count((branches.c.link).distinct())).where(
        _not_winning, branches.c.standing == literal_column("2")
    )
)
CURSORS = sql(select(cursors))
_live = (wins, branches.c.deleted == NONE)
LINKS = links_between(branches, *_live)
COUNT = count_between(branches, *_live)
