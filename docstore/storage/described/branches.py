"""Statements on the versions at levels 1 and 2."""

from sqlalchemy import Integer, bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects.sqlite import insert

from docstore.storage.described.documents import count_between, links_between, sql
from docstore.storage.described.schema import AFTER, after, branches, cursors, wins

row_columns = [each for each in branches.columns if each.name not in ("standing", "expires_us")]
ARRIVE = sql(insert(branches), *(column.name for column in branches.columns))
_n = branches.c.n == bindparam("number", type_=Integer)
STAND = sql(update(branches).where(_n).values(standing=bindparam("to")), "to", "number")
PRUNE = sql(delete(branches).where(_n), "number")
_cursor = insert(cursors)
SAVE_CURSOR = sql(
    _cursor.on_conflict_do_update(
        index_elements=[cursors.c.disk],
        set_={name: _cursor.excluded[name] for name in ("configuration", "n", "checksum")},
    ),
    *(column.name for column in cursors.columns),
)
_of = (branches.c.slot == bindparam("slot"), branches.c.link == bindparam("link"))
_at_most = bindparam("limit", type_=Integer)
_NONE = literal_column("0", Integer)
HEADS = sql(
    select(*row_columns).where(*_of, branches.c.standing > _NONE).order_by(branches.c.n),
    "slot",
    "link",
)
LINES = sql(
    select(*row_columns)
    .where(*_of)
    .order_by(branches.c.version.desc(), branches.c.n.desc())
    .limit(_at_most)
    .offset(_NONE),
    "slot",
    "link",
    "limit",
)
ARRIVALS = sql(
    select(*row_columns)
    .where(branches.c.n > bindparam("after"))
    .order_by(branches.c.n)
    .limit(_at_most)
    .offset(_NONE),
    "after",
    "limit",
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
    .limit(_at_most)
    .offset(_NONE),
    "standing",
    "before",
    "limit",
)
EXPIRED = sql(
    select(*row_columns)
    .where(
        wins,
        branches.c.deleted == _NONE,
        branches.c.expires_us > _NONE,
        branches.c.expires_us < bindparam("before"),
        after(branches.c.expires_us, branches.c.slot, branches.c.n),
    )
    .order_by(branches.c.expires_us, branches.c.slot, branches.c.n)
    .limit(_at_most)
    .offset(_NONE),
    "before",
    *AFTER,
    "limit",
)
ARRIVED = sql(select(func.max(branches.c.n)))
IN_CONFLICT = sql(
    select(func.count((branches.c.link).distinct())).where(
        _not_winning, branches.c.standing == literal_column("2")
    )
)
CURSORS = sql(select(cursors))
_live = (wins, branches.c.deleted == _NONE)
LINKS = links_between(branches, *_live)
COUNT = count_between(branches, *_live)
