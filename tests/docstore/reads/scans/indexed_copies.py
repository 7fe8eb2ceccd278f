"""Files with random documents of many types, and questions to indexes of them and to a scan."""

import json
import random
from typing import Any

from docstore.query.aggregates import Totals, grouping_of
from tests.docstore.reads.scans.copies import SLOTS, Copy

VALUES: list[Any] = [
    None, True, False, 0, 1, 2, -1, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, 1.0, 1e300, "", "x", "xy",
    "y", "é", "😀", "x" * 130, "x" * 131, [], {}, [1], {"a": 1},
]  # fmt: skip
LITERALS = [
    "0", "1", "2", "-1", "0.5", "1.0", "true", "false", "'x'", "'xy'", "''", "'é'", "'😀'",
    "9007199254740993", "1e300", f"'{'x' * 130}'", "'Rome'", "'x*'",
]  # fmt: skip
INDEXES = [
    "a", "b desc", "a, b", "a desc, b desc", "a, b desc", "o/c", "tags[*]", "tags[*], b", "b, a",
    "documentUpdateTimeMicros desc", "o/c, documentVersion", "cast[*]/n desc", "a, cast[*].n",
]  # fmt: skip
ORDERS = [
    "", "", "a", "a desc", "b desc", "a,b", "a desc,b desc", "a,b desc", "a desc, b", "o/c",
    "documentUpdateTimeMicros desc", "documentUpdateTimeMicros", "b desc, a",
    "documentSelfLink desc",
]  # fmt: skip
TOTALS = {"aggregates": "count(*), sum(cast(a as double))", "groupBy": "b"}
STORE = ["store", 1]

Question = dict[str, Any]


def any_state(rng: random.Random) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for name in ("a", "b"):
        if rng.random() < 0.85:
            state[name] = rng.choice(VALUES) if rng.random() < 0.6 else rng.randrange(4)
    if rng.random() < 0.8:
        state["o"] = {"c": rng.choice(["Rome", "Oslo", 1, None])}
    if rng.random() < 0.8:
        elements = ["x", "y", "xy", 1, 2, 1.0, True, None]
        state["tags"] = [rng.choice(elements) for _ in range(rng.randrange(4))]
        state["cast"] = [{"n": rng.choice(elements), "m": 1} for _ in range(rng.randrange(3))]
    return state


def any_filter(rng: random.Random, depth: int = 0) -> str:
    chance = rng.random()
    if depth < 2 and chance < 0.25:
        return f"({any_filter(rng, depth + 1)} and {any_filter(rng, depth + 1)})"
    if depth < 2 and chance < 0.35:
        return f"({any_filter(rng, depth + 1)} or {any_filter(rng, depth + 1)})"
    if chance < 0.38:
        return f"not ({any_filter(rng, 2)})"
    member = rng.choice(["a", "b", "o/c"])
    match rng.randrange(10):
        case 0:
            return f"{member} {rng.choice(['eq', 'ne'])} null"
        case 1:
            prefix = rng.choice(["'x'", "''", "'Ro'", "'é'"])
            return f"startswith({member},{prefix})"
        case 2:
            return f"{member} in ({', '.join(rng.choices(LITERALS, k=3))})"
        case 3:
            return f"tags/any(t: t {rng.choice(['eq', 'gt', 'le'])} {rng.choice(LITERALS)})"
        case 4:
            return f"documentUpdateTimeMicros {rng.choice(['gt', 'le'])} {rng.randrange(300)}"
        case 5:
            more = rng.choice(["", "", " and c/m eq 1", " or c/m eq 2"])
            quantifier = rng.choice(["any", "any", "all"])
            return (
                f"cast/{quantifier}(c: c/n {rng.choice(['eq', 'ge'])} {rng.choice(LITERALS)}{more})"
            )
        case 6:
            return rng.choice(["tolower(a) eq 'x'", "length(b) gt 1", "a gt 2020-01-01"])
        case _:
            sign = rng.choice(["eq", "eq", "gt", "ge", "lt", "le", "ne"])
            return f"{member} {sign} {rng.choice(LITERALS)}"


class IndexedCopy(Copy):
    """A file with random documents, and indexes that follow it up to a given row."""

    def put_some(self, most: int) -> None:
        """Put and delete documents of a factory, and of others that are not indexed."""
        factories = ["/a/", "/a/", "/a/b/", "/A/"]
        self.write_links(
            [f"{self.rng.choice(factories)}{self.rng.randrange(80)}" for _ in range(most)]
        )

    def follow(
        self,
        ends: dict[int, int] | None = None,
        names: list[str] | None = None,
        held: list[int] | None = None,
        store: list[Any] | None = None,
        sure: list[int] | None = None,
    ) -> Question:
        """Have the indexes follow up to some rows of some slots; all by default."""
        fields, _ = self.pages.answer(
            {"indexes": "follow", "cut": sorted((ends or self.ends).items()),
             "store": store or STORE, "held": sorted(self.ends) if held is None else held,
             "wanted": [["/a/", name] for name in (INDEXES if names is None else names)],
             "sure": sure or []}
        )  # fmt: skip
        return fields

    def question(
        self, filter_: str, order: str = "", cut: dict[int, int] | None = None
    ) -> Question:
        """Return a search, of all documents by default."""
        return {"prefix": "/a/", "filter": filter_, "orderBy": order,
                "cut": sorted((cut or self.ends).items())}  # fmt: skip

    def indexed(self, asked: Question, rows: int = 50, links: int = 10_000) -> Question:
        """Return the first answer of an index."""
        fields, payload = self.pages.answer(
            {**asked, "rows": rows, "after": None, "links": links, "indexes": "find",
             "store": STORE, "most": 10}
        )  # fmt: skip
        return {**fields, "found": json.loads(payload or "[]")}

    def walked(self, asked: Question, rows: int, *, by_index: bool) -> tuple[list[Any], str]:
        """Return the rows of all pages, and the index of the last one."""
        how = {"indexes": "find", "store": STORE, "most": 10} if by_index else {}
        after, found, name = None, [], ""
        while True:
            links = self.rng.choice([1, 5, 10_000])
            fields, payload = self.pages.answer(
                {**asked, "rows": rows, "after": after, "links": links, **how}
            )
            assert "error" not in fields, fields
            if by_index and not fields["index"]:
                return [], ""
            found += json.loads(payload)
            after, name = fields["until"], fields.get("index", "")
            if after is None:
                return found, name

    def totals(self, asked: Question, *, by_index: bool) -> Totals | None:
        """Return aggregates by an index (None if there is none), or by a scan."""
        question = {name: asked[name] for name in ("prefix", "filter", "cut")} | TOTALS
        grouping = grouping_of(TOTALS["aggregates"], TOTALS["groupBy"])
        assert grouping is not None
        totals = Totals(grouping)
        if by_index:
            fields, payload = self.pages.answer({**question, "indexes": "total", "store": STORE})
            for line in payload.splitlines():
                totals.add(json.loads(line))
            return totals if fields["index"] else None
        after: Any = [-1, "", -1]
        while after is not None:
            fields, payload = self.pages.answer(
                {**question, "columns": (), "format": "ndjson", "compression": "", "after": after,
                 "rows": 100, "schema": False, "skipped": False, "damages": 0}
            )  # fmt: skip
            for line in bytes(payload).splitlines():
                totals.add(json.loads(line))
            after = fields["next"]
        return totals


class Life:
    """Random events of a file and its indexes, in any order."""

    def __init__(self, copy: IndexedCopy) -> None:
        self.copy = copy
        copy.state = any_state
        self.rng = copy.rng
        self.kept = dict.fromkeys(range(SLOTS), 0)

    def happen(self) -> None:
        """Write, trim, and have some indexes follow some slots to some of their rows."""
        rng, copy = self.rng, self.copy
        if rng.random() < 0.5:
            copy.put_some(rng.randrange(60))
        if rng.random() < 0.1:
            slot = rng.randrange(SLOTS)
            kept = rng.randrange(self.kept[slot], copy.ends[slot] + 1)
            copy.trim(slot, kept)
            self.kept[slot] = kept
        if rng.random() < 0.4:
            ends = {slot: self._row(slot, 0) for slot in range(SLOTS) if rng.random() < 0.8}
            names = [name for name in INDEXES if rng.random() < 0.97]
            held = [slot for slot in range(SLOTS) if rng.random() < 0.98]
            assert "why" not in copy.follow(ends or copy.ends, names, held)

    def any_question(self) -> Question:
        """Return a search at any cut that can be read."""
        rng = self.rng
        cut = {slot: self._row(slot, 0.6) for slot in range(SLOTS)}
        filter_ = any_filter(rng) if rng.random() < 0.85 else ""
        return self.copy.question(filter_, rng.choice(ORDERS), cut)

    def _row(self, slot: int, is_last: float) -> int:
        end = self.copy.ends[slot]
        if self.rng.random() < is_last:
            return end
        return max(self.kept[slot], self.rng.randrange(end + 1))
