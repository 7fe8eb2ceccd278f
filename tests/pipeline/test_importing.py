"""A file is stored as it is, or the wrong line is named and none is written."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docstore import pipeline
from docstore.pipeline.group_client import GroupError
from docstore.pipeline.jobs.contents import value_of
from docstore.pipeline.jobs.exporting import export, local_path
from docstore.pipeline.jobs.importing import BadLines, NotTheSame, import_
from docstore.pipeline.jobs.restoring import restore
from docstore.pipeline.jobs.work import Work
from tests.pipeline.stage import Stage

ROWS: list[dict[str, Any]] = [
    {"id": "C#", "mixed": 1, "none": None, "small": 0.0001, "large": 12345678.9},
    {"id": "C++", "mixed": "1", "deep": {"none": None, "list": [None, {}, [], 1, "1"]}},
    {"id": "中文", "mixed": [1], "big": 2**63 - 1, "least": -(2**63), "far": 1.7e308},
    {"id": "rocky", "mixed": {"k": 1}, "text": 'a\n"b"\\ \u2028 😀 00501', "": 5e-324},
    {"id": "rocky-2", "mixed": True, "whole": 1.0, "zero": -0.0},
    {"id": "rocky_2", "mixed": None},
]


def run(stage: Stage, file: Path, **asked: Any) -> dict[str, Any]:
    work = Work(stage.spark, stage.url, "import")
    return work.run(import_, **{"source": str(file), "into": stage.path, "ids": "id"} | asked)


def written(file: Path, text: str | bytes) -> Path:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def stored(stage: Stage) -> list[dict[str, Any]]:
    return sorted(stage.documents().values(), key=lambda body: str(body["id"]))


WANTED = sorted(ROWS, key=lambda body: str(body["id"]))


@pytest.mark.thorough
def test_json_is_stored_as_it_came(stage: Stage, tmp_path: Path) -> None:
    array = written(tmp_path / "a #1%.json", "\ufeff" + json.dumps(ROWS, indent=2))
    done = run(stage, array)
    assert (done["rows"], done["digestsEqual"], done["versions"]) == (6, True, "begin anew")
    assert stored(stage) == WANTED
    assert stage.documents().keys() == {row["id"] for row in ROWS}
    lines = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
    again = run(stage, written(tmp_path / "b.ndjson", lines), ids="")
    assert again["digestsEqual"]
    assert len(stage.documents()) == 12


@pytest.mark.thorough
def test_the_values_of_a_table_are_texts_without_inferred_types(
    stage: Stage, tmp_path: Path
) -> None:
    text = 'id,zip,n,note\nx,00501,1.50,"a ""b""\nc"\ny,00502,,\n'
    file = written(tmp_path / "a.csv", text)
    run(stage, file)
    rows = [
        {"id": "x", "zip": "00501", "n": "1.50", "note": 'a "b"\nc'},
        {"id": "y", "zip": "00502", "n": "", "note": ""},
    ]
    assert stored(stage) == rows
    run(stage, file, infer=True)
    assert stored(stage)[0] == {"id": "x", "zip": 501, "n": 1.5, "note": 'a "b"\nc'}
    run(stage, file, schema="id string, zip string, n decimal(10,2)")
    assert stored(stage) == [
        {"id": "x", "zip": "00501", "n": 1.5}, {"id": "y", "zip": "00502", "n": None},
    ]  # fmt: skip
    with pytest.raises(BadLines, match=r"a\.csv: line 2: note is no bigint: a \"b\""):
        run(stage, file, schema="id string, note bigint")
    with pytest.raises(BadLines, match="line 2: there is no column zap"):
        run(stage, file, schema="zap string")


@pytest.mark.thorough
def test_lines_that_are_no_rows_are_named_skipped_or_kept(stage: Stage, tmp_path: Path) -> None:
    lines = [json.dumps({"id": str(n)}) for n in range(5)]
    lines[2:2] = ['{"id": "x", "y"', "", '{"id": "z", "id": "w"}', '{"no": 1}', '{"id": 1e999}']
    file = written(tmp_path / "bad lines.ndjson", "\n".join(lines))
    with pytest.raises(BadLines, match=r"bad lines\.ndjson: line 3: not JSON.*and 3 more") as found:
        run(stage, file)
    assert "\n" not in str(found.value)
    assert stage.documents() == {}
    assert run(stage, file, bad_lines="skip")["badLines"] == 4
    assert stage.documents().keys() == set("01234")
    done = run(stage, file, bad_lines="deadletter")
    page = stage.group.json("GET", "/core/spark/dead?expand&$limit=500")
    letters = [each for each in page["documents"].values() if each["job"] == done["jobId"]]
    said = sorted(each["detail"].partition("bad lines.ndjson: ")[2] for each in letters)
    assert [each.partition(":")[0] for each in said] == ["line 3", "line 5", "line 6", "line 7"]
    assert '{"id": "x", "y"' in {each["row"] for each in letters}
    # Without its end, the lines that would be skipped are unknown.
    broken = written(tmp_path / "broken.json", '[{"id": "1"},\n{"id": "2"')
    with pytest.raises(BadLines, match=r"broken\.json: line 2: not JSON"):
        run(stage, broken, bad_lines="skip")


def test_a_line_is_counted_over_the_parts_of_a_file(stage: Stage, tmp_path: Path) -> None:
    lines = [json.dumps({"id": str(n), "pad": "x" * 100}) for n in range(2000)]
    lines[1500] = "{"
    file = written(tmp_path / "long.ndjson", "\n".join(lines))
    before = stage.spark.conf.get("spark.sql.files.maxPartitionBytes")
    stage.spark.conf.set("spark.sql.files.maxPartitionBytes", "50000")
    try:
        with pytest.raises(BadLines, match="line 1501: not JSON"):
            run(stage, file, ids="")
    finally:
        stage.spark.conf.set("spark.sql.files.maxPartitionBytes", before)


@pytest.mark.thorough
def test_rows_of_one_id_are_refused_with_both_named(stage: Stage, tmp_path: Path) -> None:
    rows = [{"id": "a", "n": 1}, {"id": "b"}, {"id": "a", "n": 2}]
    file = written(tmp_path / "twice.json", json.dumps(rows, indent=1))
    with pytest.raises(BadLines, match=r"line 2 and .*twice\.json: line 9 have the same id 'a'"):
        run(stage, file)
    file = written(tmp_path / "same.ndjson", '{"a": 1}\n{"a": 1.0}\n{"a": 1}\n{"a": 2}\n')
    assert run(stage, file, ids="")["rows"] == 4
    assert len(stage.documents()) == 4


@pytest.mark.thorough
def test_a_column_keeps_nulls_and_refuses_nan(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "n": [None, 0.1], "list": [[1, None], None]}), file)
    run(stage, file)
    assert stored(stage) == [
        {"id": "a", "n": None, "list": [1, None]},
        {"id": "b", "n": 0.1, "list": None},
    ]
    pq.write_table(pa.table({"id": ["a", "b"], "n": [1.0, float("nan")]}), file)
    with pytest.raises(BadLines, match=r"line 2: n is NaN, which has no form in JSON"):
        run(stage, file)


DAY = dt.datetime(1850, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)
TYPES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "file": (pa.string(), "mine", "mine"),
    "row": (pa.binary(), b"\x00\xff", "AP8="),
    "d": (pa.decimal128(20, 4), Decimal("1234567890123456.7891"), "1234567890123456.7891"),
    "e": (pa.decimal128(20, 4), Decimal("1.5000"), 1.5),
    "day": (pa.date32(), DAY.date(), "1850-01-01"),
    "at": (pa.timestamp("us", "UTC"), DAY, "1850-01-01T00:00:00.000001Z"),
    "here": (pa.timestamp("us"), DAY.replace(tzinfo=None), "1850-01-01T00:00:00.000001"),
    "m": (pa.map_(pa.date32(), pa.int64()), [(DAY.date(), None)], {"1850-01-01": None}),
    "a.`b": (pa.struct([("x", pa.list_(pa.binary()))]), {"x": [None, b"a"]}, {"x": [None, "YQ=="]}),
}  # fmt: skip
"""Columns of a file: their type, a value, and its stored form."""


@pytest.mark.thorough
def test_the_columns_of_a_file_have_the_forms_of_the_table_of_types(
    stage: Stage, tmp_path: Path
) -> None:
    arrays = {name: pa.array([value, None], kind) for name, (kind, value, _) in TYPES.items()}
    table = pa.table({"id": ["a", "b"], **arrays})
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as file:
        file.write_table(table)
    forms = {name: form for name, (_, _, form) in TYPES.items()}
    for name in ("a.parquet", "a.arrow"):
        run(stage, tmp_path / name, into=f"{stage.path}-{name[2:]}")
        there = Stage.of(stage.spark, stage.cluster, f"{stage.path}-{name[2:]}")
        assert stored(there) == [{"id": "a", **forms}, {"id": "b", **dict.fromkeys(forms)}]


@pytest.mark.parametrize(
    ("kind", "value", "where"),
    [
        (pa.list_(pa.float64()), [1.0, float("nan")], r"x\[\] is NaN"),
        (pa.struct([("y", pa.float32())]), {"y": float("-inf")}, r"x\.y is -Infinity"),
        (pa.map_(pa.string(), pa.float64()), [("k", float("inf"))], r"x\[\] is Infinity"),
    ],
)
def test_a_nested_value_without_a_json_form_is_refused(
    stage: Stage, tmp_path: Path, kind: pa.DataType, value: Any, where: str
) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "x": pa.array([None, value], kind)}), file)
    with pytest.raises(BadLines, match=rf"a\.parquet: line 2: {where}, which has no form in JSON"):
        run(stage, file)


def test_a_column_without_a_form_is_refused_before_anything_is_read(
    stage: Stage, tmp_path: Path
) -> None:
    table = stage.spark.sql("SELECT 'a' id, interval 1 day v, 1 n")
    table.write.parquet(str(tmp_path / "a.parquet"))
    with pytest.raises(ValueError, match="column 'v' is interval day"):
        run(stage, tmp_path / "a.parquet")


@pytest.mark.parametrize("names", ["n n", "n N"])
def test_two_columns_of_one_name_are_refused_with_their_file(
    stage: Stage, tmp_path: Path, names: str
) -> None:
    """Spark takes such names for one, since it ignores the case of letters."""
    table = pa.table([pa.array([1]), pa.array([2])], names=names.split())
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as file:
        file.write_table(table)
    for name in ("a.parquet", "a.arrow"):
        with pytest.raises(pipeline.PipelineError, match=rf"{name}: .* named twice"):
            run(stage, tmp_path / name)


@pytest.mark.thorough
def test_a_schema_selects_members_and_refuses_values_that_do_not_fit(
    stage: Stage, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.ndjson", '{"id": "a", "n": 1, "x": 1}\n{"id": "b"}\n')
    run(stage, file, schema="id string, n bigint")
    assert stored(stage) == [{"id": "a", "n": 1}, {"id": "b", "n": None}]
    file = written(tmp_path / "b.ndjson", '{"id": "a", "n": 1}\n{"id": "b", "n": "one"}\n')
    with pytest.raises(BadLines, match="line 2: does not fit the schema"):
        run(stage, file, schema="id string, n bigint")


@pytest.mark.thorough
def test_a_file_of_arrow_is_read_as_parquet_is(stage: Stage, tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b"], "n": [None, 2**53 + 1], "a.b": [[None], []]})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as file:
        file.write_table(table)
    run(stage, tmp_path / "a.arrow")
    assert stored(stage) == table.to_pylist()
    written(tmp_path / "b.arrow", "nonsense")
    with pytest.raises(ValueError, match=r"b\.arrow is not in Arrow"):
        run(stage, tmp_path / "b.arrow")


@pytest.mark.thorough
def test_a_restore_is_equal_by_value_and_begins_versions_anew(stage: Stage, tmp_path: Path) -> None:
    for n, body in enumerate(('{ "b": 1.0,\n"a": "\\u00e9" }', '{"x": 1e2}', '{"x": [0.10]}')):
        with stage.group.open(
            "PUT", stage.group.urls[0], f"{stage.path}/{n}", body.encode(),
            {"Content-Type": "application/json"},
        ) as answer:  # fmt: skip
            assert answer.status < 300
    to = str(tmp_path / "out #1? 50%").replace("?", "")
    Work(stage.spark, stage.url, "export").run(export, path=stage.path, to=to)
    assert (Path(to) / "_manifest.json").exists()
    before = stage.documents()
    restored = Work(stage.spark, stage.url, "restore")
    done = restored.run(restore, source=to, into=f"{stage.path}-back")
    assert (done["digestsEqual"], done["versions"]) == (True, "begin anew")
    assert run(stage, Path(to), into=f"{stage.path}-again")["digestsEqual"]
    assert Stage.of(stage.spark, stage.cluster, f"{stage.path}-back").documents() == before
    parts = Path(to).glob("part-*.parquet")
    next(each for each in parts if pq.read_metadata(each).num_rows).unlink()
    with pytest.raises(NotTheSame, match="manifest"):
        Work(stage.spark, stage.url, "restore").run(restore, source=to, into=stage.path)
    assert stage.documents() == before


def test_an_export_does_not_go_where_it_could_not_be_read_again(
    stage: Stage, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="as a pattern"):
        Work(stage.spark, stage.url, "export").run(
            export, path=stage.path, to=str(tmp_path / "out[1]")
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("directory", "path"),
    [
        ("/a#b?c%20", "/a#b?c%20"), ("a b", "a b"), ("file:/a#b", "/a#b"),
        ("file:///a?b", "/a?b"), ("s3a://bucket/a", None), ("hdfs://n:1/a", None),
    ],
)  # fmt: skip
def test_the_local_path_of_a_directory_keeps_its_characters(
    directory: str, path: str | None
) -> None:
    found = local_path(directory)
    assert (str(found) if found is not None else None) == path


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ('{"a":1,"b":2}', '{ "b": 2.0, "a": 1e0 }', True),
        ('{"a":"é"}', '{"a":"\\u00e9"}', True),
        ('{"a":1}', '{"a":1,"documentVersion":7,"documentSelfLink":"/x/1"}', True),
        ('{"a":9007199254740993}', '{"a":9007199254740992}', False),
        ('{"a":1}', '{"a":"1"}', False),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":null}', "{}", False),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":0.1}', '{"a":0.10000000000000001}', True),
        ('{"a":"e\\u0301"}', '{"a":"é"}', False),
    ],
)
def test_documents_are_compared_by_meaning(one: str, other: str, *, is_same: bool) -> None:
    assert (value_of(one) == value_of(other)) == is_same


def test_a_time_of_expiry_that_the_factory_adds_is_no_difference() -> None:
    whole, lasting = value_of('{"a":1,"documentExpirationTimeMicros":99}')
    assert lasting == value_of('{"a":1}')[0] != whole


def test_a_word_that_is_none_is_refused_before_anything_is_read(stage: Stage) -> None:
    with pytest.raises(ValueError, match="--bad-lines must be one of"):
        run(stage, Path("/nowhere.json"), bad_lines="sometimes")
    with pytest.raises(ValueError, match="--infer must be left out"):
        run(stage, Path("/nowhere.json"), infer=True)
    with pytest.raises(GroupError):
        stage.group.json("GET", f"{stage.path}/x")
