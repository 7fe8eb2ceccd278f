"""Requests of scans: slots with their cut, columns, and conditions. Pure.

    {"prefix": "/orders/", "cut": [[slot, n], ...], "columns": ["documentSelfLink", "body"],
     "where": "status = 'open'", "versions": "latest", "deleted": false, "skip": 0, "limit": 10}

    {"prefix": "/orders/", "ranges": [[slot, after, until], ...], "columns": [...], ...}

    {"prefix": ["/orders/", "/carts/"], "ranges": [...], "where": "total > 9", "events": true,
     "nested": true}

    {"prefix": "/orders/", "cut": [[slot, n], ...], "aggregates": "count(*), sum(total)",
     "groupBy": "status", "where": "status = 'open'"}

    {"prefix": "/orders/", "cut": [[slot, n], ...], "filter": "status eq 'open'",
     "orderBy": "total desc"}

1. A snapshot: the newest version of each document up to row n of its slot, in the order of
   (slot, link).
2. A range of the slots' logs, in the order of (slot, n). Both orders are the same on every replica,
   so that `skip` continues an interrupted scan. With `events`, rows that end a match are found too.
3. Aggregates of a snapshot (`query/aggregates.py`): partial results, which the caller merges.
4. A search: the places of a snapshot's documents in an order (`query/ordering.py`).

`filter` and `where` are conditions in one language (`query/parser.py`); both must hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docstore.errors import BadRequest
from docstore.model.settings import quoted
from docstore.query.aggregates import Grouping, grouping_of
from docstore.query.condition import Condition
from docstore.query.ordering import Order, parse_order
from docstore.query.parser import parse
from docstore.query.predicates import And, every
from docstore.query.scans_columns import COLUMNS
from docstore.query.tokens import Members

INT_MAX = (1 << 63) - 1
SLOTS_MAX = 65_536
EVERYTHING = Condition.of(And(()))
VERSIONS = ("latest", "all")
Spans = tuple[tuple[int, int, int], ...]
"""(slot, after, until) of each requested slot, in order."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A validated request.

    spans: (slot, after, until); a snapshot's `after` is 0.
    is_log: a range of the logs rather than a snapshot.
    latest: only the newest version of each document, in the range if it is a log's.
    deleted: with tombstones. skip, limit: rows to leave out at the beginning, and rows in all.
    grouping: aggregates instead of rows. order: places in the order instead of rows.
    nested: all documents at the prefix and below, not only those of one factory.
    others: further prefixes of a nested range.
    events: of a range: also rows whose version before fulfils the condition, each with its event.
    direct: from the node's file, not from segments: for an audit.
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
    others: tuple[str, ...] = ()
    events: bool = False


MEMBERS = frozenset(
    "prefix cut ranges columns where filter orderBy versions deleted skip limit nested direct"
    " aggregates groupBy events".split()
)


def scan_of(asked: Mapping[str, Any]) -> Scan:
    unknown = sorted(set(asked) - MEMBERS)
    if unknown:
        raise BadRequest(f"a scan must not have the member {quoted(unknown[0])}")
    is_log = "ranges" in asked
    if is_log == ("cut" in asked):
        raise BadRequest("a scan must have either `cut` or `ranges`")
    nested = _nested(asked, is_log=is_log)
    prefix, *others = _prefixes(asked.get("prefix"), nested=nested)
    spans = spans_of(asked["ranges"], 3) if is_log else spans_of(asked["cut"], 2)
    versions = asked.get("versions", "all" if is_log else "latest")
    if versions not in VERSIONS:
        raise BadRequest(f"versions must be one of {', '.join(VERSIONS)}; got {quoted(versions)}")
    if asked.get("limit") == 0:
        raise BadRequest("limit must be at least 1; got 0")
    deleted = asked.get("deleted", is_log)
    if not isinstance(deleted, bool):
        raise BadRequest(f"deleted must be true or false; got {quoted(deleted)}")
    direct = asked.get("direct", False)
    if not isinstance(direct, bool):
        raise BadRequest(f"direct must be true or false; got {quoted(direct)}")
    events = asked.get("events", False)
    if not isinstance(events, bool) or (events and not nested):
        raise BadRequest("events must be true or false, and true only with nested")
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
        nested,
        direct,
        tuple(others),
        events,
    )


def condition_of(asked: Mapping[str, Any], known: Members = None) -> Condition:
    """Return the condition of `where` and `filter`. known: names to use. Raises BadRequest."""
    where, filter_ = _text(asked, "where"), _text(asked, "filter")
    said = [parse(where)] if where.strip() else []
    said += [parse(filter_, "$filter", known)] if filter_.strip() else []
    return Condition.of(every([each.predicate for each in said])) if said else EVERYTHING


def _order(asked: Mapping[str, Any], *, is_log: bool) -> Order | None:
    if "orderBy" not in asked:
        return None
    if is_log or {"columns", "aggregates", "groupBy", "skip", "limit"} & set(asked):
        raise BadRequest(
            "orderBy must come with cut, and without columns, aggregates, groupBy, skip or limit"
        )
    return parse_order(_text(asked, "orderBy"))


def _prefixes(value: Any, *, nested: bool) -> list[str]:
    prefixes = value if nested and isinstance(value, list) and value else [value]
    for each in prefixes:
        if not isinstance(each, str) or not each.startswith("/") or not each.endswith("/"):
            raise BadRequest(
                "prefix must be the path of a factory and a /, such as /orders/;"
                f" got {quoted(each)}"
            )
    return prefixes


def _text(asked: Mapping[str, Any], name: str) -> str:
    text = asked.get(name, "")
    if not isinstance(text, str):
        raise BadRequest(f"{name} must be a string; got {quoted(text)}")
    return text


def _nested(asked: Mapping[str, Any], *, is_log: bool) -> bool:
    nested = asked.get("nested", False)
    if not isinstance(nested, bool) or (nested and not is_log):
        raise BadRequest("nested must be true or false, and true only with ranges")
    return nested


def _grouping(asked: Mapping[str, Any], *, is_log: bool) -> Grouping | None:
    grouping = grouping_of(_text(asked, "aggregates"), _text(asked, "groupBy"))
    if grouping is not None and (is_log or asked.get("columns") or {"skip", "limit"} & set(asked)):
        raise BadRequest(
            "aggregates and groupBy must come with cut, and without columns, skip or limit"
        )
    return grouping


def _columns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadRequest(f"columns must be an array of names; got {quoted(value)}")
    unknown = [each for each in value if each not in COLUMNS]
    if unknown:
        raise BadRequest(f"columns must be of {', '.join(COLUMNS)}; got {quoted(unknown[0])}")
    if len(set(value)) < len(value):
        raise BadRequest("columns must not name a column twice")
    return tuple(value)


def spans_of(value: Any, width: int) -> Spans:
    """Parse the slots of a cut (width 2) or of ranges (width 3). Raises BadRequest."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > SLOTS_MAX:
        raise BadRequest(
            f"`cut` and `ranges` must be arrays of at most {SLOTS_MAX} slots with row numbers"
        )
    spans = []
    for each in value:
        if not isinstance(each, Sequence) or isinstance(each, str) or len(each) != width:
            raise BadRequest(
                f"each slot must be an array of {width} whole numbers; got {quoted(each)}"
            )
        slot, *bounds = (_whole(number, "a slot or row number") for number in each)
        spans.append((slot, bounds[0] if width == 3 else 0, bounds[-1]))
    if len({slot for slot, _, _ in spans}) < len(spans):
        raise BadRequest("`cut` or `ranges` must name each slot once; got one twice")
    return tuple(sorted(spans))


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT_MAX:
        raise BadRequest(f"{name} must be a whole number from 0; got {quoted(value)}")
    return value
