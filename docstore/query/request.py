"""What a scan asks for: which slots up to where, which columns, which rows. Pure.

    {"prefix": "/orders/", "cut": [[slot, n], ...], "columns": ["documentSelfLink", "body"],
     "where": "status = 'open'", "versions": "latest", "deleted": false, "skip": 0, "limit": 10}

    {"prefix": "/orders/", "ranges": [[slot, after, until], ...], "columns": [...], ...}

    {"prefix": "/orders/", "cut": [[slot, n], ...], "aggregates": "count(*), sum(total)",
     "groupBy": "status", "where": "status = 'open'"}

    {"prefix": "/orders/", "cut": [[slot, n], ...], "filter": "status eq 'open'",
     "orderBy": "total desc"}

The first is a snapshot: of each document the newest version with n up to the slot's, in the order
of (slot, link). The second is a stretch of the slots' logs, in the order of (slot, n). Both orders
are the same on every replica, so `skip` takes up a scan where another one broke off. The third is
a snapshot's aggregates (`query/aggregates.py`): partial results, to be put together by who asks.
The fourth is a search: where the documents of a snapshot stand in an order (`query/ordering.py`). A
`filter` is a condition as `where` is, in other words (`query/filter.py`); with both, both must
hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docstore.errors import BadRequest
from docstore.query.aggregates import Grouping, grouping_of
from docstore.query.condition import Condition
from docstore.query.filter import parse_filter
from docstore.query.ordering import Order, parse_order
from docstore.query.predicates import every
from docstore.query.scans_columns import COLUMNS
from docstore.query.tokens import Members
from docstore.query.where import parse

INT_MAX = (1 << 63) - 1
SLOTS_MAX = 65_536
EVERYTHING = Condition("1", ())
VERSIONS = ("latest", "all")
Spans = tuple[tuple[int, int, int], ...]
"""(slot, after, until) of each slot that is asked for, in order."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan, checked.

    spans: (slot, after, until); a snapshot's `after` is 0.
    is_log: a stretch of the logs rather than a snapshot.
    latest: only the newest version of each document; of a stretch of the log, the newest in it.
    deleted: tombstones as well. skip, limit: rows left out at the beginning, and rows in all.
    grouping: no rows, but aggregates of them. order: no rows, but where they stand in it.
    nested: whatever is at the prefix or below it, not only the documents of one factory.
    direct: from the node's file itself, whatever is kept of it beside: for an audit.
    """

    prefix: str
    spans: Spans
    columns: tuple[str, ...]
    where: Condition = EVERYTHING
    is_log: bool = False
    latest: bool = True
    deleted: bool = False
    skip: int = 0
    limit: int = INT_MAX
    grouping: Grouping | None = None
    order: Order | None = None
    nested: bool = False
    direct: bool = False


MEMBERS = frozenset(
    "prefix cut ranges columns where filter orderBy versions deleted skip limit nested direct"
    " aggregates groupBy".split()
)


def scan_of(asked: Mapping[str, Any]) -> Scan:
    """Return the scan that a request's body describes. Raises BadRequest."""
    unknown = sorted(set(asked) - MEMBERS)
    if unknown:
        raise BadRequest(f"a scan has no member {unknown[0][:40]!r}")
    is_log = "ranges" in asked
    if is_log == ("cut" in asked):
        raise BadRequest("a scan has either a cut or ranges")
    prefix = asked.get("prefix")
    if not isinstance(prefix, str) or not prefix.startswith("/") or not prefix.endswith("/"):
        raise BadRequest("prefix is the path of a factory with a slash behind it")
    spans = spans_of(asked["ranges"], 3) if is_log else spans_of(asked["cut"], 2)
    versions = asked.get("versions", "all" if is_log else "latest")
    if versions not in VERSIONS:
        raise BadRequest(f"versions is one of {', '.join(VERSIONS)}")
    if asked.get("limit") == 0:
        raise BadRequest("limit is at least 1")
    deleted = asked.get("deleted", is_log)
    if not isinstance(deleted, bool):
        raise BadRequest("deleted is true or false")
    direct = asked.get("direct", False)
    if not isinstance(direct, bool):
        raise BadRequest("direct is true or false")
    grouping = _grouping(asked, is_log=is_log)
    return Scan(
        prefix,
        spans,
        () if grouping else _columns(asked.get("columns", list(COLUMNS))),
        condition_of(asked),
        is_log,
        versions == "latest",
        deleted,
        _whole(asked.get("skip", 0), "skip"),
        _whole(asked.get("limit", INT_MAX), "limit"),
        grouping,
        _order(asked, is_log=is_log),
        _nested(asked, is_log=is_log),
        direct,
    )


def condition_of(asked: Mapping[str, Any], known: Members = None) -> Condition:
    """Return what `where` and `filter` of a request say together. Raises BadRequest.

    known: which members a filter may name, None for any.
    """
    where, filter_ = _text(asked, "where"), _text(asked, "filter")
    said = [parse(where)] if where.strip() else []
    said += [parse_filter(filter_, known)] if filter_.strip() else []
    return every(said) if said else EVERYTHING


def _order(asked: Mapping[str, Any], *, is_log: bool) -> Order | None:
    if "orderBy" not in asked:
        return None
    if is_log or {"columns", "aggregates", "groupBy", "skip", "limit"} & set(asked):
        raise BadRequest("orderBy is for a cut, without columns, aggregates, skip and limit")
    return parse_order(_text(asked, "orderBy"))


def _text(asked: Mapping[str, Any], name: str) -> str:
    text = asked.get(name, "")
    if not isinstance(text, str):
        raise BadRequest(f"{name} is a text")
    return text


def _nested(asked: Mapping[str, Any], *, is_log: bool) -> bool:
    nested = asked.get("nested", False)
    if not isinstance(nested, bool) or (nested and not is_log):
        raise BadRequest("nested is true or false, and true only with ranges")
    return nested


def _grouping(asked: Mapping[str, Any], *, is_log: bool) -> Grouping | None:
    grouping = grouping_of(_text(asked, "aggregates"), _text(asked, "groupBy"))
    if grouping is not None and (is_log or asked.get("columns") or {"skip", "limit"} & set(asked)):
        raise BadRequest("aggregates are of a whole cut: without ranges, columns, skip and limit")
    return grouping


def _columns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadRequest("columns is an array of names")
    unknown = [each for each in value if each not in COLUMNS]
    if unknown:
        raise BadRequest(f"there is no column {unknown[0][:60]!r}; there are {', '.join(COLUMNS)}")
    if len(set(value)) < len(value):
        raise BadRequest("a column is there twice")
    return tuple(value)


def spans_of(value: Any, width: int) -> Spans:
    """Return the slots of a cut (width 2) or of ranges (3), in order. Raises BadRequest."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > SLOTS_MAX:
        raise BadRequest("cut and ranges are arrays of slots with row numbers")
    spans = []
    for each in value:
        if not isinstance(each, Sequence) or isinstance(each, str) or len(each) != width:
            raise BadRequest(f"a slot is given by {width} whole numbers")
        slot, *bounds = (_whole(number, "a slot or row number") for number in each)
        spans.append((slot, bounds[0] if width == 3 else 0, bounds[-1]))
    if len({slot for slot, _, _ in spans}) < len(spans):
        raise BadRequest("a slot is there twice")
    return tuple(sorted(spans))


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT_MAX:
        raise BadRequest(f"{name} is a whole number, not {str(value)[:40]}")
    return value
