"""Loading: rows of files, ids of rows, and a load into real nodes."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.cli.load import BadFile, Plan, links_of, read_rows
from docstore.client import LocalCluster
from tests.fork_server import SERVER

ROWS = [
    {"title": "Heat", "year": 1995, "href": "Heat"},
    {"title": "Face/Off", "year": 1997, "href": None},
    {"title": "Heat", "year": 1986, "href": "Heat_86"},
]


def written(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(ROWS)),
        ("a.ndjson", "\n".join(json.dumps(row) for row in ROWS) + "\n\n"),
    ],
)
def test_arrays_and_lines_give_the_same_rows(tmp_path: Path, name: str, text: str) -> None:
    assert read_rows(written(tmp_path, name, text)) == ROWS


def test_csv_gives_its_columns(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", "id,name\n1,x\n2,y\n")
    assert read_rows(file) == [{"id": "1", "name": "x"}, {"id": "2", "name": "y"}]


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    assert read_rows(written(tmp_path, "a.ndjson", '{"a": "x\u2028y"}\n')) == [{"a": "x\u2028y"}]


@pytest.mark.parametrize("text", ["[1]", "{", '{"a":1}\n[]'])
def test_a_file_that_is_not_a_list_of_objects_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadFile):
        read_rows(written(tmp_path, "a.json", text))


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("a.ndjson", '{"a": 1}\n\n{"a": }\n', "line 3"),
        ("a.json", '[{"a": 1},\n{"a": }]', "line 2"),
        ("a.csv", "id,name\n1,x\n2,y,z\n", "line 3: 3 fields"),
        ("a.csv", "id,name\n1\n", "line 2: 1 fields"),
        ("a.csv", 'id,name\n1,"x\ny"\n2,"z\n', "line 4: not CSV"),
        ("a.csv", "id,id\n1,2\n", "two columns of the header have the name 'id'"),
        ("a.ndjson", '{"a": 1, "a": 2}\n', "line 1: the key 'a' is there twice"),
        ("a.ndjson", '{"a": 1}\n{"a": NaN}\n', "line 2: NaN is not JSON"),
        (
            "a.json",
            '[{"a": 1},\n\n{"a": 9223372036854775808}]',
            "line 3: an integer must fit into 64 bits",
        ),
        ("a.csv", f"id,name\n1,{'x' * 200_000}\n", "field larger"),
    ],
)
def test_a_refusal_names_the_place(tmp_path: Path, name: str, text: str, error: str) -> None:
    with pytest.raises(BadFile, match=error):
        read_rows(written(tmp_path, name, text))


def test_ids_come_from_fields_and_are_escaped_for_a_path() -> None:
    plan = Plan(Path("films.json"), "/films", "title,year")
    assert links_of(plan, ROWS) == [
        "/films/Heat~1995",
        "/films/Face%2FOff~1997",
        "/films/Heat~1986",
    ]


def test_rows_are_numbered_by_default() -> None:
    assert links_of(Plan(Path("films.json"), "/films"), ROWS)[1] == "/films/films-000002"


def test_a_duplicate_names_both_rows() -> None:
    with pytest.raises(BadFile, match="rows 1 and 3"):
        links_of(Plan(Path("f.json"), "/films", "title"), ROWS)
    assert links_of(Plan(Path("f.json"), "/films", "title", upsert=True), ROWS)[2] == "/films/Heat"


@pytest.mark.parametrize("ids", ["name", "name,kind"])
def test_different_fields_are_different_documents(ids: str) -> None:
    names = [
        "C",
        "c",
        "C#",
        "C++",
        "中文",
        "русский",
        "a/b",
        "a b",
        "rocky",
        "rocky-2",
        "..",
        "%2E.",
    ]
    rows = [{"name": name, "kind": "x"} for name in names]
    assert len(set(links_of(Plan(Path("f.json"), "/f", ids), rows))) == len(names)
    split = [{"name": "a-b", "kind": "c"}, {"name": "a", "kind": "b-c"}]
    assert len(set(links_of(Plan(Path("f.json"), "/f", "name,kind"), split))) == 2


def test_a_missing_id_is_an_error_with_its_row_and_advice() -> None:
    with pytest.raises(BadFile, match=r"row 2 has no href.*--id row"):
        links_of(Plan(Path("f.json"), "/films", "href"), ROWS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Yield three running nodes."""
    with LocalCluster(3) as group:
        yield group


def docstore(cluster: LocalCluster, cache: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command against the group; return exit code, output and errors."""
    urls = [part for url in cluster.urls for part in ("--url", url)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "COLUMNS": "200"}
    ended = SERVER.run(*arguments, *urls, environment=environment, timeout_s=180)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_file_is_loaded_listed_and_found_equal_everywhere(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    rows = [{"title": f"film {number}", "n": number} for number in range(700)]
    file = written(tmp_path, "films.json", json.dumps(rows))
    code, out, errors = docstore(cluster, tmp_path, "load", str(file), "--into", "/films")
    assert (code, errors) == (0, "")
    assert "700 documents" in out
    code, out, _ = docstore(cluster, tmp_path, "ls", "/films")
    assert (code, len(out.splitlines())) == (0, 700)
    code, out, _ = docstore(cluster, tmp_path, "get", "/films/films-000007")
    assert json.loads(out)["n"] == 6
    code, out, _ = docstore(cluster, tmp_path, "resync", "--json")
    assert json.loads(out)["state"] == "FINISHED"
    code, out, _ = docstore(cluster, tmp_path, "status", "--json")
    page = json.loads(out)
    assert {member["status"] for member in page["group"]["members"]} == {"ALIVE"}


def test_a_row_that_the_group_refuses_ends_the_load_in_one_line(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    rows = [{"n": 1}, {"n": 2, "documentSelfLink": "/elsewhere/2"}]
    file = written(tmp_path, "two.json", json.dumps(rows))
    code, _, errors = docstore(cluster, tmp_path, "load", str(file), "--into", "/two")
    assert (code, len(errors.splitlines())) == (1, 1)
    assert "row 2: /two/two-000002: documentSelfLink" in errors


def test_rows_stored_in_another_group_are_loaded_again(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Once, a load that was interrupted at one group skipped its first rows at the next."""
    file = written(tmp_path, "odd.json", json.dumps([{"n": number} for number in range(3000)]))
    few = {"path": "/odd", "schema": {"properties": {"n": {"maximum": 2950}}}}
    assert docstore(cluster, tmp_path, "post", "/core/factories", json.dumps(few))[0] == 0
    asked = ("load", str(file), "--into", "/odd")
    assert docstore(cluster, tmp_path, *asked)[0] == 1
    with LocalCluster(1) as other:
        code, out, _ = docstore(other, tmp_path, *asked, "--json")
    assert (code, json.loads(out)["documents"], json.loads(out)["skipped"]) == (0, 3000, 0)


def test_the_last_row_of_an_id_is_stored(cluster: LocalCluster, tmp_path: Path) -> None:
    rows = [{"id": "C#", "n": n} for n in range(600)]
    file = written(tmp_path, "same.json", json.dumps(rows))
    asked = ("load", str(file), "--into", "/same", "--id", "id", "--upsert")
    assert docstore(cluster, tmp_path, *asked)[0] == 0
    _, out, _ = docstore(cluster, tmp_path, "get", "/same/C#")
    page = json.loads(out)
    assert (page["n"], page["documentVersion"]) == (599, 0)


def test_commands_change_documents_and_fail_in_one_line(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    assert docstore(cluster, tmp_path, "put", "/nowhere/a", "{}")[0] == 1
    docstore(cluster, tmp_path, "post", "/core/factories", '{"path": "/notes"}')
    assert docstore(cluster, tmp_path, "put", "/notes/a", '{"x": 1}')[0] == 0
    assert docstore(cluster, tmp_path, "patch", "/notes/a", '{"y": 2}')[0] == 0
    code, out, _ = docstore(cluster, tmp_path, "history", "/notes/a", "--json")
    assert [each["documentVersion"] for each in json.loads(out)] == [1, 0]
    assert docstore(cluster, tmp_path, "delete", "/notes/a")[0] == 0
    code, out, errors = docstore(cluster, tmp_path, "get", "/notes/a")
    assert (code, out, len(errors.splitlines())) == (1, "", 1)
