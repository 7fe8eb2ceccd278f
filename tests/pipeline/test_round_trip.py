"""Documents of all kinds, by every way in, are the same by every way out."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from rich.console import Console

from docstore.cli.load import Plan, load
from docstore.client import Client
from docstore.model import json as strict
from docstore.model.document_members import STORE_SET
from docstore.pipeline import tables
from docstore.pipeline.jobs.exporting import export
from docstore.pipeline.jobs.importing import import_
from docstore.pipeline.jobs.work import Work
from tests.pipeline.stage import Stage

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(["00501", "1", "null", "NaN", "2026-01-01", "\u2028", "{}", "\x01"])
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
DOCUMENT = st.dictionaries(st.sampled_from(["a", "b", "A"]) | TEXT, VALUE, max_size=5)
WHOLE = st.integers(-(2**63), 2**63 - 1)
TYPED: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "n": ("bigint", WHOLE),
    "x": ("double", st.floats(allow_nan=False, allow_infinity=False)),
    "s": ("string", TEXT),
    "slot": ("boolean", st.booleans()),
    "é.`": ("array<string>", st.lists(st.none() | TEXT, max_size=3)),
    "deep": ("struct<a: map<string, array<bigint>>>", st.fixed_dictionaries(
        {"a": st.dictionaries(TEXT, st.lists(st.none() | WHOLE, max_size=2), max_size=3)})),
}  # fmt: skip
"""Columns: their types and values."""
ROW = st.fixed_dictionaries({name: st.none() | drawn for name, (_, drawn) in TYPED.items()})


def generated(
    count: int, kinds: st.SearchStrategy[dict[str, Any]], id_of: str = "{:04d}"
) -> list[dict[str, Any]]:
    """Return documents of all kinds, the same ones every time, with ids of their own."""
    found: list[dict[str, Any]] = []

    @settings(max_examples=count, database=None, deadline=None, derandomize=True,
              phases=[Phase.generate])  # fmt: skip
    @given(kinds)
    def collect(document: dict[str, Any]) -> None:
        found.append(document)

    collect()
    return [{**document, "id": id_of.format(n)} for n, document in enumerate(found)]


def meant(body: dict[str, Any]) -> bytes:
    """Return a value that is equal for equal documents."""
    return strict.canonical({name: body[name] for name in body if name not in STORE_SET})


def through_load(stage: Stage, file: Path, into: str) -> None:
    async def run() -> None:
        async with Client(stage.url.split(",")) as client:
            await load(client, Plan(file, into, "id"), Console(file=io.StringIO()))

    asyncio.run(run())


def through_table(stage: Stage, documents: list[dict[str, Any]], into: str) -> None:
    """Write documents by a DataFrame, each as the text of one column."""
    rows = [(body["id"], json.dumps(body, ensure_ascii=False)) for body in documents]
    table = stage.spark.createDataFrame(rows, "id string, body string")
    Stage.of(stage.spark, stage.cluster, into)
    tables.write(table, stage.url, into, key="id")


def through_columns(stage: Stage, rows: list[dict[str, Any]], into: str) -> None:
    """Write documents by a DataFrame, a column for each member."""
    types = ["`{}` {}".format(name.replace("`", "``"), kind) for name, (kind, _) in TYPED.items()]
    table = stage.spark.createDataFrame(
        [tuple(row[name] for name in (*TYPED, "id")) for row in rows],
        ", ".join([*types, "id string"]),
    )
    tables.write(table, stage.url, into, key="id")


def read_everywhere(stage: Stage, path: str, to: Path) -> list[dict[str, bytes]]:
    """Return id -> the meaning of its document, by `read`, by an export, and over HTTP."""
    table = tables.read(stage.spark, stage.url, path, columns=("documentSelfLink", "body"))
    Work(stage.spark, stage.url, "export").run(export, path=path, to=str(to))
    exported = pq.read_table(to, columns=["documentSelfLink", "body"]).to_pylist()
    found = []
    for rows in ([row.asDict() for row in table.collect()], exported):
        bodies = {
            row["documentSelfLink"]: strict.parse_object(row["body"].encode()) for row in rows
        }
        found.append({link.rpartition("/")[2]: meant(body) for link, body in bodies.items()})
    links = {name: quote(f"{path}/{name}") for name in found[0]}
    over_http = {name: stage.group.json("GET", link) for name, link in links.items()}
    return [*found, {name: meant(body) for name, body in over_http.items()}]


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(40, marks=pytest.mark.thorough),
        pytest.param(2000, marks=pytest.mark.slow),
    ],
)
def test_documents_come_out_equal_by_value(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    documents = generated(count, DOCUMENT)
    wanted = {body["id"]: meant(body) for body in documents}
    assert len(wanted) >= count * 0.9
    file = tmp_path / "documents.ndjson"
    file.write_text("\n".join(json.dumps(body, ensure_ascii=False) for body in documents))
    imported, loaded = f"{stage.path}-{count}-imported", f"{stage.path}-{count}-loaded"
    Work(stage.spark, stage.url, "import").run(import_, source=str(file), into=imported, ids="id")
    through_load(stage, file, loaded)
    for path in (imported, loaded):
        for found in read_everywhere(stage, path, tmp_path / path[1:]):
            assert found == wanted
    rows, written = generated(count, ROW, "row-{}"), f"{stage.path}-{count}-written"
    through_table(stage, documents, written)
    through_columns(stage, rows, written)
    for row in rows:  # A null in a column is left out.
        wanted[row["id"]] = meant({name: row[name] for name in row if row[name] is not None})
    for found in read_everywhere(stage, written, tmp_path / "written"):
        assert found == wanted
