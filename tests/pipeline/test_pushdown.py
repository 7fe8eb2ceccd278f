"""Filters that Spark hands to the nodes: the same rows as without, for all scans of a relation."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pyspark.sql.functions as F  # noqa: N812
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import datasource as P  # noqa: N812

from docstore import pipeline
from docstore.pipeline import pushing
from docstore.pipeline.filters import condition_of
from docstore.pipeline.options import COMMON, READ, Options
from tests.pipeline.stage import Stage

MEMBERS = "n long, x double, s string, b boolean, at struct<city: string, k: int>"
COLUMNS = ["documentSelfLink", "documentVersion", "documentUpdateTime", "slot"]
WHOLE = [0, 1, -1, 5, 2**53 + 1, 2**63 - 1, -(2**63)]
REAL = [0.1, 0.3, -0.5, 1e300, 5e-324, 1.0, 2.0**53, 123456.789, 2**53 - 1]
TEXTS = ["", "a", "ab", "b", "A", "é", "O'Neil", "x*", "a%b", "NaN", "1", "\\", "`"]
ODD: list[Any] = [None, True, "NaN", "Infinity", "-Infinity", "x", 1.5, {}, [], {"city": 1}]


class Said(NamedTuple):
    """A condition of Spark as text, and in the form that a source gets."""

    text: str
    filter: P.Filter

    @property
    def filter_path(self) -> tuple[str, ...]:
        inner: Any = self.filter.child if isinstance(self.filter, P.Not) else self.filter
        return tuple(inner.attribute)


def documents() -> dict[str, dict[str, Any]]:
    rng = random.Random(43)
    made: dict[str, dict[str, Any]] = {}
    for number in range(400):
        body: dict[str, Any] = {
            "n": rng.choice(WHOLE), "x": rng.choice([*REAL, *WHOLE]), "s": rng.choice(TEXTS),
            "b": rng.random() < 0.5, "at": {"city": rng.choice(TEXTS), "k": rng.randrange(9)},
        }  # fmt: skip
        for name in rng.sample(sorted(body), rng.choice([0, 0, 1, 2])):
            del body[name]
        if rng.random() < 0.3:
            body[rng.choice("nxsb")] = rng.choice(ODD)
        made[f"{number:03}"] = body
    return made


def literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, float):
        return f"{value!r}D"
    return f"{value}L" if type(value) is int and value > -(2**63) else f"cast('{value}' as bigint)"


def said(rng: random.Random) -> Said:
    """Return a condition that Spark hands over."""
    name, values = rng.choice(
        [("n", WHOLE), ("x", REAL), ("s", TEXTS), ("at.city", TEXTS), ("slot", WHOLE)]
    )
    path, value = tuple(name.split(".")), rng.choice(values)
    signs: dict[str, Callable[..., P.Filter]] = {
        "=": P.EqualTo, "<=>": P.EqualNullSafe, "<": P.LessThan, "<=": P.LessThanOrEqual,
        ">": P.GreaterThan, ">=": P.GreaterThanOrEqual,
    }  # fmt: skip
    kind = rng.randrange(5 if values is TEXTS else 4)
    if kind < 2:
        sign = rng.choice(sorted(signs))
        found = Said(f"{name} {sign} {literal(value)}", signs[sign](path, value))
    elif kind == 2:
        some = rng.sample(values, 3)
        found = Said(f"{name} in ({', '.join(map(literal, some))})", P.In(path, tuple(some)))
    elif kind == 3:
        test: type[Any] = rng.choice([P.IsNull, P.IsNotNull])
        found = Said(f"{name} is {'not ' * (test is P.IsNotNull)}null", test(path))
    else:
        tests: dict[str, Callable[..., P.Filter]] = {
            "startswith": P.StringStartsWith, "endswith": P.StringEndsWith,
            "contains": P.StringContains,
        }  # fmt: skip
        test_name = rng.choice(sorted(tests))
        found = Said(f"{test_name}({name}, {literal(value)})", tests[test_name](path, value))
    return Said(f"not ({found.text})", P.Not(found.filter)) if rng.random() < 0.3 else found


@pytest.fixture(scope="module")
def mixed(spark: Any, cluster: Any) -> Stage:
    stage = Stage.of(spark, cluster, "/mixed")
    stage.put(documents())
    return stage


def table(stage: Stage, **options: Any) -> Any:
    given = {"columns": COLUMNS, "members": MEMBERS, **options}
    return pipeline.read(stage.spark, stage.url, stage.path, **given)


def plain(stage: Stage, strings: str, corrupt: str = "") -> Any:
    """Return the table as Spark filters it by itself."""
    members = MEMBERS + (f", {corrupt} string" if corrupt else "")
    return stage.load(columns=",".join(COLUMNS), members=members, strings=strings)


def links(stage: Stage, condition: str) -> set[str]:
    """Return the documents that nodes find; a page may end early."""
    asked: dict[str, Any] = {"path": stage.path, "where": condition, "limit": 1_000}
    found: set[str] = set()
    while True:
        page = stage.group.json("POST", "/core/query-tasks", asked)
        found |= set(page["documentLinks"])
        if "cursor" not in page:
            return found
        asked = {"cursor": page["cursor"]}


@pytest.mark.parametrize("count", [100, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("strings", ["exact", "any"])
def test_nodes_keep_the_rows_that_spark_keeps(mixed: Stage, strings: str, count: int) -> None:
    rng = random.Random(f"{strings}{count}")
    all_said = [said(rng) for _ in range(count)]
    own = plain(mixed, strings, "_corrupt_record").cache()
    schema = own.schema
    fit = {row[0] for row in own.filter("_corrupt_record is null").collect()}
    assert 200 < len(fit) < 400
    handed = 0
    for first in range(0, count, 100):
        some = all_said[first : first + 100]
        columns = [F.expr(each.text).alias(f"c{at}") for at, each in enumerate(some)]
        rows = own.select("documentSelfLink", *columns).collect()
        for at, each in enumerate(some):
            condition = condition_of([each.filter], schema, any_is_text=strings == "any")
            if not condition:
                continue
            handed += 1
            theirs = links(mixed, condition)
            ours = {row[0] for row in rows if row[f"c{at}"]}
            assert ours <= theirs, (each.text, condition)
            if strings == "exact" and "x" not in each.filter_path:
                kept = theirs if each.filter_path == ("slot",) else theirs & fit
                assert ours == kept, (each.text, condition)
    own.unpersist()
    assert handed > count // 2


@pytest.mark.parametrize("count", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_a_filtered_table_has_the_rows_of_an_unfiltered_one(mixed: Stage, count: int) -> None:
    rng = random.Random(count)
    own = plain(mixed, "exact").cache()
    for _ in range(count):
        text = " and ".join(said(rng).text for _ in range(rng.choice([1, 1, 2])))
        wanted = sorted(row[0] for row in own.filter(text).collect())
        found = table(mixed).filter(text).select("documentSelfLink").collect()
        assert sorted(row[0] for row in found) == wanted, text
    own.unpersist()


def test_only_rows_that_match_leave_their_node(mixed: Stage) -> None:
    before = mixed.metric("docstore_scan_rows_total")
    found = table(mixed, where="s is not null").filter("n = 5 and at.city = 'ab'").count()
    wanted = plain(mixed, "exact").filter("n = 5 and at.city = 'ab' and s is not null").count()
    assert 0 < found == wanted
    sent = mixed.metric("docstore_scan_rows_total") - before - 400
    bodies = [each for each in documents().values() if each.get("n") == 5]
    assert found <= sent <= len(bodies)


@pytest.mark.parametrize(
    "true",
    [P.GreaterThanOrEqual(("slot",), 0), P.GreaterThan(("documentSelfLink",), ""),
     P.GreaterThanOrEqual(("documentVersion",), 0)],
    ids=lambda each: each.attribute[0],
)  # fmt: skip
def test_nodes_check_no_filter_that_is_always_true(mixed: Stage, true: Any) -> None:
    """A scan without a filter of its caller must not cost a condition for each row."""
    given = {"url": mixed.url, "path": mixed.path, "relation": "0" * 32}
    schema = table(mixed).schema
    reader = pushing.PushingReader(Options.of(given, READ + COMMON), schema)
    always = [P.IsNotNull(true.attribute), true]
    assert true.attribute[0] in pushing.ALWAYS
    reader.pushFilters(always)
    assert reader.asked == ""
    reader.pushFilters([*always, P.EqualTo(("n",), 5)])
    assert reader.asked == "(`n` = 5)"


def test_scans_of_one_relation_have_their_own_rows(mixed: Stage) -> None:
    """Spark keeps one reader for all of them."""
    shared = table(mixed)
    own = plain(mixed, "exact")
    low, high = "n < 0", "n >= 5"
    planned = shared.filter(low)
    planned.explain()
    counts = {text: own.filter(text).count() for text in (low, high, f"{low} or {high}")}
    assert shared.filter(high).count() == counts[high]
    assert planned.count() == counts[low]
    both = shared.filter(low).union(shared.filter(high))
    assert both.count() == counts[f"{low} or {high}"]
    assert shared.filter(low).join(shared.select("documentSelfLink"), "documentSelfLink").count() \
        == counts[low]  # fmt: skip
    shared.createOrReplaceTempView("pushed")
    assert mixed.spark.sql(f"select count(*) from pushed where {high}").first()[0] == counts[high]
    assert shared.count() == 400


def test_a_document_that_does_not_fit_fails_a_strict_read(mixed: Stage) -> None:
    with pytest.raises(PySparkException, match="does not fit the schema"):
        table(mixed, parseMode="FAILFAST").filter("n = 5").count()


def test_the_option_is_set_by_the_pipeline_alone(mixed: Stage) -> None:
    with pytest.raises(PySparkException, match="leave relation out"):
        mixed.load(relation="/etc/passwd").count()
