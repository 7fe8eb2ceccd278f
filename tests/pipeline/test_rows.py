"""The key, the body and the members of a row, and why a row is refused."""

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from docstore.pipeline.bulk_lines import BulkLine, BulkLines, version_of
from docstore.pipeline.options import Options
from tests.pipeline.test_types import kept


def row(given: dict[str, Any], names: str, **options: str) -> BulkLine:
    """Return the operation of one row of columns, by their DDL."""
    schema = T.StructType([T.StructField(name, T.StringType()) for name in names.split()])
    batch = pa.RecordBatch.from_pylist([given], to_arrow_schema(schema))
    (line,) = BulkLines(Options({"path": "/t", "key": "id"} | options), schema, 64).of(
        batch, "job", 0
    )
    return line


@pytest.mark.parametrize(
    ("given", "options", "wrong"),
    [
        ({"id": None, "body": "{}"}, {}, "'id' is null or empty in a row"),
        ({"id": "", "body": "{}"}, {}, "'id' is null or empty in a row"),
        ({"id": "1", "body": None}, {}, "body is null"),
        ({"id": "1", "body": ""}, {}, "body is not JSON"),
        ({"id": "1"}, {"operation": "delete", "expectversion": "body"}, "'body' is null in a row"),
        ({"id": "1", "body": "x"}, {"operation": "delete", "expectversion": "body"}, "body is 'x'"),
        ({"id": "1", "body": "1.5"}, {"operation": "delete", "expectversion": "body"}, "body is"),
        ({"id": "1", "body": "1_0"}, {"operation": "delete", "expectversion": "body"}, "body is"),
    ],
)
def test_a_malformed_row_is_refused_alone(
    given: dict[str, Any], options: dict[str, str], wrong: str
) -> None:
    assert row(given, "id body", **options).wrong.startswith(wrong)


@pytest.mark.parametrize(
    ("value", "version"),
    [(7, 7), ("7", 7), (7.0, 7), (Decimal("7.00"), 7), (-1, -1), (7.5, None), (math.nan, None),
     (math.inf, None), (Decimal("0.1"), None), ("7.0", None), ("", None), (b"7", None)],
)  # fmt: skip
def test_a_version_is_a_whole_number_and_never_rounded(value: Any, version: int | None) -> None:
    assert version_of(value) == version


OWN = ("slot", "seq", "deleted", "digest", "before", "documentExpirationTime")


@pytest.mark.parametrize("name", OWN)
def test_a_member_may_be_called_as_a_column_of_the_store_is(name: str) -> None:
    assert kept(row({"id": "1", name: "mine"}, f"id {name}")) == f'{{"{name}":"mine","id":"1"}}'
    line = row({"id": "1", name: "mine", "documentVersion": "7", "body": "{}"},
               f"id {name} documentVersion body")  # fmt: skip
    assert kept(line) == "{}"
    assert kept(row({name: "1"}, name, key=name)) == f'{{"{name}":"1"}}'


@pytest.mark.parametrize("name", OWN)
def test_a_column_that_may_have_been_read_with_the_row_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"column '{name}' may be a member"):
        row({"id": "1"}, f"id n {name} documentVersion")
    line = row({"id": "1"}, f"id n {name} documentVersion", operation="delete")
    assert line.wrong == ""


@pytest.mark.parametrize("option", ["key", "body", "sequenceby", "expectversion"])
def test_a_missing_column_is_named(option: str) -> None:
    with pytest.raises(ValueError, match="'zz'"):
        row({"id": "1"}, "id n", **{option: "zz"})


def test_the_column_that_orders_rows_is_stored_as_any_other() -> None:
    schema = T.StructType().add("id", "string").add("n", "long")
    batch = pa.RecordBatch.from_pylist([{"id": "a", "n": 7}])
    given = Options({"path": "/t", "key": "id", "sequenceby": "n"})
    (line,) = BulkLines(given, schema, 64).of(batch, "job", 0)
    assert (line.wrong, json.loads(line.value)["body"]) == ("", {"id": "a", "n": 7})


def test_a_sequence_that_was_read_with_the_row_is_no_member() -> None:
    schema = T.StructType().add("documentSelfLink", "string").add("seq", "long").add("n", "long")
    batch = pa.RecordBatch.from_pylist([{"documentSelfLink": "/t/a", "seq": 7, "n": 1}])
    (line,) = BulkLines(Options({"path": "/t", "sequenceby": "seq"}), schema, 64).of(
        batch, "job", 0
    )
    assert (line.wrong, json.loads(line.value)["body"]) == ("", {"n": 1})


@pytest.mark.parametrize("operation", ["replace", "patch", "jsonPatch"])
def test_an_expected_version_is_sent_with_a_change(operation: str) -> None:
    body = "[]" if operation == "jsonPatch" else "{}"
    options = {"operation": operation, "expectversion": "v"}
    line = row({"id": "1", "body": body, "v": "3"}, "id body v", **options)
    assert (line.wrong, json.loads(line.value)["ifVersion"]) == ("", 3)
    assert "'v' is null in" in row({"id": "1", "body": body}, "id body v", **options).wrong


@pytest.mark.parametrize("operation", ["upsert", "insert", "ignore"])
def test_an_expected_version_is_refused_where_it_would_be_ignored(operation: str) -> None:
    with pytest.raises(ValueError, match=f"{operation} would ignore expectVersion"):
        row({"id": "1", "body": "{}"}, "id body v", operation=operation, expectversion="v")
