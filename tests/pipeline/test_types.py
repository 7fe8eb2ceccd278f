"""Types: a column is written as JSON and read back equal, or is refused by name.

Most tests use the code of tasks without Spark: rows of Arrow become lines, their bodies become what
a node would keep, and those are read back with the schema of the rows.
"""

import base64
import datetime as dt
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from docstore.model import json as store
from docstore.pipeline import bodies, fitting
from docstore.pipeline.bulk_lines import BulkLine, BulkLines
from docstore.pipeline.options import Options
from tests.pipeline.stage import Stage

MICRO = dt.timedelta(microseconds=1)
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a time without a zone


def micros(time: dt.datetime) -> int:
    return (time - EPOCH) // MICRO


TIMES = st.one_of(
    st.datetimes().map(micros),
    st.sampled_from([micros(dt.datetime.min), micros(dt.datetime.max), -1, 0]),  # noqa: DTZ901
)
DOUBLES = st.floats()
SCALARS: dict[T.DataType, st.SearchStrategy[Any]] = {
    T.BooleanType(): st.booleans(),
    T.ByteType(): st.integers(-(1 << 7), (1 << 7) - 1),
    T.ShortType(): st.integers(-(1 << 15), (1 << 15) - 1),
    T.IntegerType(): st.integers(-(1 << 31), (1 << 31) - 1),
    T.LongType(): st.integers(-(1 << 63), (1 << 63) - 1),
    T.FloatType(): st.floats(width=32),
    T.DoubleType(): DOUBLES,
    T.DecimalType(38, 9): st.decimals(-(10**28), 10**28, places=9),
    T.DecimalType(38, 38): st.decimals(-0.5, 0.5, places=38),
    T.DecimalType(30, 0): st.integers(1 - 10**30, 10**30 - 1).map(Decimal),
    T.DecimalType(5, 2): st.decimals(-999, 999, places=2),
    T.StringType(): st.text(st.characters(exclude_categories=["Cs"])),
    T.BinaryType(): st.binary(),
    T.DateType(): st.dates(),
    T.TimestampType(): TIMES,
    T.TimestampNTZType(): TIMES,
}
NAMING = [kind for kind in SCALARS if not isinstance(kind, T.FloatType | T.DoubleType
                                                     | T.BinaryType)]  # fmt: skip


def nested(inner: tuple[T.DataType, Any]) -> st.SearchStrategy[tuple[T.DataType, Any]]:
    """Draw a type that has another one in it, with the strategy of its values."""
    kind, drawn = inner
    maybe = st.none() | drawn
    structs = T.StructType([T.StructField("a", kind), T.StructField("é", T.LongType())])
    found = [
        (T.ArrayType(kind), st.lists(maybe, max_size=4)),
        (structs, st.fixed_dictionaries({"a": maybe, "é": st.none() | st.integers(0, 9)})),
    ]
    for key in NAMING:
        pairs = st.dictionaries(SCALARS[key], maybe, max_size=4).map(lambda each: [*each.items()])
        found.append((T.MapType(key, kind), pairs))
    return st.sampled_from(found)


KINDS = st.recursive(st.sampled_from(list(SCALARS.items())), lambda inner: inner.flatmap(nested),
                     max_leaves=3)  # fmt: skip


@st.composite
def columns(draw: st.DrawFn) -> tuple[T.DataType, list[Any]]:
    """Draw a type and some values of it."""
    kind, values = draw(KINDS)
    return kind, draw(st.lists(st.none() | values, min_size=1, max_size=6))


def arrow(kind: T.DataType) -> pa.DataType:
    return to_arrow_schema(T.StructType([T.StructField("v", kind)]), timezone="UTC").field("v").type


def lines(kind: T.DataType, column: pa.Array, **options: str) -> list[BulkLine]:
    """Return the operations that a task would send of rows with this column."""
    schema = T.StructType([T.StructField("id", T.StringType()), T.StructField("v", kind)])
    ids = pa.array([str(at) for at in range(len(column))])
    batch = pa.RecordBatch.from_arrays([ids, column], names=["id", "v"])
    given = Options({"path": "/t", "key": "id", **options})
    return list(BulkLines(given, schema, 64).of(batch, "job", 0))


def kept(line: BulkLine) -> str:
    """Return the body that a node stores for a line: parsed and written anew."""
    assert line.wrong == ""
    return store.dump(store.parse(line.value)["body"]).decode()


def read(texts: Sequence[str], kind: pa.DataType, mode: str = bodies.FAIL) -> pa.Array:
    (array,), _ = bodies.members(pa.array(texts, pa.string()), [pa.field("v", kind)], mode)
    array.validate(full=True)
    return array


def plain(value: Any) -> Any:
    """Return a value that is equal for equal ones, NaN included."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1.0, value))
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value


@given(columns())
def test_values_come_out_equal(drawn: tuple[T.DataType, list[Any]]) -> None:
    kind, values = drawn
    before = pa.array(values, arrow(kind))
    after = read([kept(line) for line in lines(kind, before)], before.type)
    assert plain(after.to_pylist()) == plain(before.to_pylist())


@given(columns(), st.integers(0, 5), st.integers(0, 5))
def test_a_slice_of_a_batch_is_written_as_alone(
    drawn: tuple[T.DataType, list[Any]], begin: int, end: int
) -> None:
    kind, values = drawn
    part = pa.array(values, arrow(kind)).slice(begin, max(0, end - begin))
    alone = pa.array(values[begin : max(begin, end)], arrow(kind))
    assert [each.value for each in lines(kind, part)] == [each.value for each in lines(kind, alone)]


TEXTS = [
    "", "a", "1", "-1.5", "1e3", "true", "NaN", "Infinity", "-Infinity", "AAE=", "AAE", "A A=",
    "2020-02-30", "2020-02-29", "2020-02-29T01:02:03", "2020-02-29 01:02:03.5Z", "1850-01-01T00",
    "2020-02-29T01:02:03.123456789Z", "2020-02-29T01:02:03+02:00", "0001-01-01T00:00:00.000001Z",
]  # fmt: skip
JSONS = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False,
        allow_infinity=False), st.sampled_from([1e300, 255, 32768]), st.sampled_from(TEXTS),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "é", "1"]),
                                                               inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


@given(KINDS, st.lists(JSONS, min_size=1, max_size=5))
def test_a_document_is_read_the_same_alone_and_among_others(
    drawn: tuple[T.DataType, Any], values: list[Any]
) -> None:
    kind = arrow(drawn[0])
    texts = [store.dump({"v": value}).decode() for value in values]
    together = read(texts, kind, bodies.PERMISSIVE).to_pylist()
    alone = []
    for text in texts:
        try:
            found = fitting.fitted(text, [pa.field("v", kind)])
        except fitting.SchemaMismatch:
            found = [None]
        alone += pa.array(found, kind).to_pylist()
    assert plain(together) == plain(alone)


FORMS = [
    (T.DoubleType(), math.nan, '"NaN"'),
    (T.DoubleType(), -math.inf, '"-Infinity"'),
    (T.FloatType(), math.inf, '"Infinity"'),
    (T.BinaryType(), b"\x00\xff", f'"{base64.b64encode(bytes([0, 255])).decode()}"'),
    (T.DateType(), dt.date(1582, 10, 4), '"1582-10-04"'),
    (T.TimestampType(), -1, '"1969-12-31T23:59:59.999999Z"'),
    (T.TimestampNTZType(), 0, '"1970-01-01T00:00:00.000000"'),
    (T.DecimalType(20, 4), Decimal("1.5000"), "1.5"),
    (T.DecimalType(20, 4), Decimal("1234567890123456.7891"), '"1234567890123456.7891"'),
    (T.DecimalType(20, 0), Decimal(1 << 63), f'"{1 << 63}"'),
    (T.MapType(T.StringType(), T.LongType()), [("b", 1), ("a", None)], '{"b":1,"a":null}'),
    (T.MapType(T.DateType(), T.LongType()), [(dt.date(2020, 1, 1), 1)], '{"2020-01-01":1}'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "form"), FORMS)
def test_each_type_has_its_form(kind: T.DataType, value: Any, form: str) -> None:
    (line,) = lines(kind, pa.array([value], arrow(kind)))
    assert kept(line) == f'{{"v":{form},"id":"0"}}'


REFUSED = [
    T.DayTimeIntervalType(), T.YearMonthIntervalType(), T.VariantType(), T.CalendarIntervalType(),
    T.MapType(T.BinaryType(), T.LongType()), T.ArrayType(T.DayTimeIntervalType()),
    T.StructType([T.StructField("a", T.LongType()), T.StructField("a", T.LongType())]),
    T.MapType(T.StringType(), T.StructType([T.StructField("x", T.VariantType())])),
]  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.simpleString())
def test_a_type_without_a_form_is_refused_with_its_column(kind: T.DataType) -> None:
    with pytest.raises(ValueError, match="column 'v"):
        lines(kind, pa.array([], pa.int64()))


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (T.DateType(), pa.array([3_000_000, 0], pa.int32()).cast(pa.date32())),
        (T.TimestampType(), pa.array([1 << 60, 0]).cast(pa.timestamp("us", "UTC"))),
        (T.StringType(), pa.array([b"\xff", b"ok"]).view(pa.string())),
        (
            T.ArrayType(T.DateType()),
            pa.array([[-800_000], [1, None]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
        ),
    ],
)
def test_a_value_without_a_form_is_refused_with_its_column_and_alone(
    kind: T.DataType, array: pa.Array
) -> None:
    wrong, right = lines(kind, array)
    assert wrong.wrong.startswith("v")
    assert right.wrong == ""


@pytest.mark.parametrize(
    ("kind", "value", "link"),
    [
        (T.LongType(), 7, "/t/7"),
        (T.BooleanType(), True, "/t/true"),
        (T.DateType(), dt.date(2020, 1, 1), "/t/2020-01-01"),
        (T.DecimalType(5, 2), Decimal("1.50"), "/t/1.50"),
        (T.TimestampNTZType(), 0, "/t/1970-01-01T00:00:00.000000"),
    ],
)
def test_ids_are_the_texts_of_their_values(kind: T.DataType, value: Any, link: str) -> None:
    (line,) = lines(kind, pa.array([value], arrow(kind)), key="v")
    assert line.link == link


def test_a_column_that_cannot_name_documents_is_refused() -> None:
    with pytest.raises(ValueError, match="'v' is binary"):
        lines(T.BinaryType(), pa.array([b"a"]), key="v")


def test_times_are_sequences_to_the_microsecond() -> None:
    at = [1_700_000_000_000_001, 1_700_000_000_000_002, -2_717_640_000_000_001]
    found = lines(T.TimestampType(), pa.array(at).cast(pa.timestamp("us", "UTC")), sequenceby="v")
    assert [json.loads(line.value)["writer"]["sequence"] for line in found] == at


def test_a_number_that_is_cut_off_is_no_sequence() -> None:
    with pytest.raises(Exception, match="whole number"):
        lines(T.DoubleType(), pa.array([1.5]), sequenceby="v")


def test_a_column_of_bodies_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="'bodi'"):
        lines(T.LongType(), pa.array([1]), body="bodi")


@pytest.mark.parametrize(
    "text", ["1", "4", "99", "-5", '"4"', "12e37", "0.1e1", "1e-39", "123e-40"]
)
def test_no_decimal_is_wrapped_around(text: str) -> None:
    kinds = [T.DecimalType(38, 38), T.DecimalType(38, 37), T.DecimalType(3, 3)]
    fields = [pa.field(f"d{at}", arrow(kind)) for at, kind in enumerate(kinds)]
    for field in fields:
        (found,), (good,) = bodies.members(
            pa.array([f'{{"{field.name}":{text}}}']), [field], bodies.PERMISSIVE
        )
        assert not good.as_py() or found[0].as_py() == Decimal(text.strip('"'))
        assert found.validate(full=True) is None


@pytest.mark.parametrize(
    "bad",
    [
        '{"t":5}',
        *(
            pytest.param(bad, marks=pytest.mark.thorough)
            for bad in ('{"t":"nonsense"}', '{"d":1.234}', '{"m":[1]}', '{"b":"x"}')
        ),
    ],
)
def test_one_document_that_does_not_fit_takes_no_other_along(bad: str) -> None:
    kinds: list[tuple[str, T.DataType]] = [
        ("n", T.LongType()), ("t", T.TimestampType()), ("d", T.DecimalType(10, 2)),
        ("b", T.BinaryType()), ("f", T.FloatType()),
    ]  # fmt: skip
    if "m" in bad:
        kinds.append(("m", T.MapType(T.StringType(), T.LongType())))
    schema = T.StructType([T.StructField(name, kind) for name, kind in kinds])
    fields = list(to_arrow_schema(schema, timezone="UTC"))
    text = '{"n":%d,"t":"1850-01-01T00:00:00.000001Z","d":1.25,"b":"AAE=","f":"NaN","m":{"a":1}}'
    texts = [text % n for n in range(2000)]
    texts[1234] = bad
    array = pa.array(texts)
    found, good = bodies.members(array, fields, bodies.PERMISSIVE)
    assert [at for at, fits in enumerate(good.to_pylist()) if not fits] == [1234]
    assert {column.null_count for column in found} == {1}
    assert found[0].to_pylist()[1235] == 1235
    links = pa.array([f"/t/{n}" for n in range(2000)])
    with pytest.raises(bodies.Malformed, match=r"/t/1234 does not fit the schema: \w"):
        bodies.members(array, fields, bodies.FAIL, links=links)


def test_a_string_takes_any_value_as_json_if_an_option_says_so() -> None:
    kind = pa.struct([("s", pa.string()), ("l", pa.list_(pa.string())), ("n", pa.int64()),
                      ("m", pa.map_(pa.string(), pa.string()))])  # fmt: skip
    given: list[Any] = ["1", 1, 0.1, -2e-7, True, None, [1, "a"], {"k": [None]}, "[1]", 1 << 62]
    values = [{"s": each, "l": [each], "n": 1, "m": {"k": each}} for each in given]
    texts = [each if isinstance(each, str) or each is None else store.dump(each).decode()
             for each in given]  # fmt: skip
    wanted = [{"s": each, "l": [each], "n": 1, "m": [("k", each)]} for each in texts]
    array = pa.array([store.dump({"v": value}).decode() for value in values])
    plain_struct = pa.struct([field for field in kind if field.name != "m"])
    for shape in (kind, plain_struct):  # Arrow's reader knows no maps.
        (found,), good = bodies.members(
            array, [pa.field("v", shape)], bodies.PERMISSIVE, any_is_text=True
        )
        names = [field.name for field in shape]
        assert found.to_pylist() == [{name: each[name] for name in names} for each in wanted]
        assert all(good.to_pylist())
    (_,), good = bodies.members(pa.array(['{"v":{"n":"1"}}']), [pa.field("v", kind)],
                                bodies.PERMISSIVE, any_is_text=True)  # fmt: skip
    assert good.to_pylist() == [False]


WIDE = (
    "id string, m map<string,array<int>>, k map<date,decimal(20,5)>, b binary, d date, x double,"
    " f float, t timestamp, z timestamp_ntz, c decimal(38,9), s struct<a:array<date>,b:float>"
)


def test_spark_reads_its_own_rows_back(stage: Stage) -> None:
    values = """
        map('a', array(1, null)) m, map(date'2020-01-01', 1.25000BD) k, X'00FF' b,
        date'1582-10-04' d, double('NaN') x, float('-Infinity') f,
        timestamp'1850-01-01 00:00:00.000001Z' t, timestamp_ntz'0001-01-01 00:00:00' z,
        12345678901234567890.123456789BD c,
        named_struct('a', array(date'9999-12-31'), 'b', float(0.1)) s"""
    rows = stage.spark.sql(f"SELECT CAST(id AS string) id, {values} FROM range(50)")
    zone = "spark.sql.session.timeZone"
    stage.spark.conf.set(zone, "America/New_York")  # Its clocks were four seconds off till 1883.
    try:
        rows.write.format("docstore").mode("append").options(url=stage.url, key="id").save(
            stage.path
        )
    finally:
        stage.spark.conf.set(zone, "UTC")
    stage.put({"unfit": {"d": "no date"}})
    reader = stage.spark.read.format("docstore").option("url", stage.url)
    reader = reader.option("asOf", stage.group.plan("latest", stage.path)["cut"])
    dropping = reader.option("parseMode", "DROPMALFORMED").schema(WIDE).load(stage.path)
    wanted = rows.selectExpr(*dropping.columns)
    shown = [f"to_json(struct({name})) {name}" for name in dropping.columns if name not in "tz"]
    shown += ["CAST(t AS string) t", "CAST(z AS string) z"]  # To the microsecond.
    found = {row["id"]: row for row in dropping.selectExpr(*shown, "id i").collect()}
    assert len(found) == 50
    assert sorted(found.values()) == sorted(wanted.selectExpr(*shown, "id i").collect())
    failing = reader.option("parseMode", "FAILFAST").schema(WIDE).load(stage.path)
    with pytest.raises(
        PySparkException, match=f"{stage.path}/unfit does not fit the schema: d must be"
    ):
        failing.collect()
    with pytest.raises(PySparkException, match=r"column .v. .*interval"):
        stage.spark.sql("SELECT '1' id, interval 1 day v").write.format("docstore").mode(
            "append"
        ).options(url=stage.url, key="id").save(stage.path)
