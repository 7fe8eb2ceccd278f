"""The jobs: their results equal their sources, and faults are named."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F  # noqa: N812

from docstore.client.local import LocalCluster
from docstore.pipeline import cuts, tables
from docstore.pipeline.group_client import GroupError
from docstore.pipeline.jobs.auditing import audit
from docstore.pipeline.jobs.balancing import balance
from docstore.pipeline.jobs.checking import histcheck, violations
from docstore.pipeline.jobs.compacting import compact, seconds
from docstore.pipeline.jobs.contents import digest
from docstore.pipeline.jobs.exporting import export
from docstore.pipeline.jobs.importing import NotTheSame, import_
from docstore.pipeline.jobs.migrating import migrate
from docstore.pipeline.jobs.restoring import restore
from docstore.pipeline.jobs.viewing import matview
from docstore.pipeline.jobs.work import Work
from tests.pipeline.stage import Stage


def work(stage: Stage, name: str, **options: Any) -> Work:
    return Work(stage.spark, stage.url, name, **options)


def contents(stage: Stage, path: str) -> dict[str, Any]:
    columns = ("documentSelfLink", "body")
    return digest(tables.read(stage.spark, stage.url, path, columns=columns))


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """A typical file: an array, with titles that no path can hold."""
    rows = [
        {"title": f"Film {n % 40}: {'é' * (n % 3)}/", "year": 1980 + n % 45, "genres": genres(n)}
        for n in range(200)
    ]
    file = tmp_path / "films.json"
    file.write_text(json.dumps(rows))
    return file


def genres(n: int) -> list[str]:
    return [name for bit, name in enumerate(("C#", "C++", "中文")) if n >> bit & 1]


def test_a_file_goes_in_and_comes_out_and_back(stage: Stage, films: Path, tmp_path: Path) -> None:
    done = work(stage, "import").run(import_, source=str(films), into=stage.path, ids="title,year")
    assert (done["rows"], done["digestsEqual"]) == (200, True)
    again = work(stage, "import").run(import_, source=str(films), into=stage.path, ids="title,year")
    assert again["rows"] == 200
    to = str(tmp_path / "out")
    first = work(stage, "export", job_id="ex").run(export, path=stage.path, to=to)
    assert first["rows"] == 200
    assert work(stage, "export", job_id="ex").run(export, path=stage.path, to=to)["repeated"]
    # Parquet that any reader reads.
    plain = stage.spark.newSession().read.parquet(to)
    assert plain.count() == len(pd.read_parquet(to)) == 200
    back = f"{stage.path}-back"
    work(stage, "import").run(import_, source=to, into=back)
    assert contents(stage, back) == contents(stage, stage.path)
    next(Path(to).glob("part-*.parquet")).unlink()
    with pytest.raises(NotTheSame):
        work(stage, "import").run(import_, source=to, into=f"{stage.path}-broken")


def test_a_dry_run_changes_nothing(stage: Stage, films: Path, tmp_path: Path) -> None:
    into = f"{stage.path}-dry"
    dry = work(stage, "import", dry_run=True).run(import_, source=str(films), into=into)
    assert dry["rows"] == 200
    to = tmp_path / "never"
    work(stage, "export", dry_run=True).run(export, path=stage.path, to=str(to))
    assert not to.exists()
    with pytest.raises(GroupError, match="there is no factory"):
        contents(stage, into)


@pytest.mark.thorough
def test_a_factory_goes_back_to_a_moment(stage: Stage, tmp_path: Path) -> None:
    stage.put({str(n): {"n": n} for n in range(50)})
    to = str(tmp_path / "out")
    work(stage, "export").run(export, path=stage.path, to=to)
    stage.put({str(n): {"n": -n} for n in range(0, 50, 5)})
    stage.delete(["1", "2"])
    moment, wanted = stage.cut(), stage.documents()
    stage.put({str(n): {"n": "wrong"} for n in range(60)})
    done = work(stage, "restore").run(
        restore, source=to, into=stage.path, feed_url=stage.url, until=moment
    )
    assert done["digestsEqual"]
    assert stage.documents() == wanted


@pytest.mark.thorough  # Each turn is a batch of a stream and one of all rows.
@pytest.mark.parametrize("turns", [2, 4])
def test_a_view_fed_by_changes_equals_a_batch(stage: Stage, tmp_path: Path, turns: int) -> None:
    stage = Stage.of(stage.spark, stage.cluster, f"{stage.path}-{turns}")
    view = {
        "path": stage.path, "into": f"{stage.path}-view", "keys": "decade,genre", "sums": "n",
        "rows": "SELECT floor(year / 10) * 10 AS decade, explode(genres) AS genre, n"
                " FROM documents",
        "schema": "year long, genres array<string>, n long",
        "checkpoint": str(tmp_path / "checkpoint"), "check": True,
    }  # fmt: skip
    for turn in range(turns):
        stage.put({
            f"{n}": {"year": 1990 + (n + turn) % 30, "genres": genres(n + turn), "n": n * turn}
            for n in range(turn, 60, turn + 1)
        })  # fmt: skip
        stage.delete([str(turn), str(turn + 10)])
        done = work(stage, "matview", job_id=stage.path[1:]).run(matview, **view)
        assert done["equalsBatch"]
    assert work(stage, "matview", job_id=stage.path[1:]).run(matview, **view)["equalsBatch"]
    reader = stage.spark.read.format("docstore").option("url", stage.url)
    stored = reader.option("members", "decade long, genre string, n double, rows long")
    assert stored.load(f"{stage.path}-view").filter("rows > 0").count() > 3


@pytest.mark.thorough
def test_a_factory_moves_while_it_is_written_to(stage: Stage) -> None:
    stage.put({str(n): {"n": n} for n in range(100)})
    with LocalCluster(1) as other:
        done = work(stage, "migrate").run(
            migrate, path=stage.path, to=other.urls[0], into="/moved", lag=0
        )
        assert done["left"] == 0
        there = Stage(stage.spark, other, "/moved")
        assert there.documents() == stage.documents()


def test_how_evenly_things_lie(stage: Stage) -> None:
    found = work(stage, "balance").run(balance)
    assert sum(found["slotsOwned"].values()) == 1024
    assert 0 <= found["slotGini"] <= 1


def operation(
    process: str, kind: str, version: int | None, started: int, ended: int | None, *,
    ok: bool | None = True, link: str = "/a/1",
) -> dict[str, Any]:  # fmt: skip
    return {"process": process, "kind": kind, "link": link, "version": version,
            "started": started, "ended": ended, "ok": ok}  # fmt: skip


CLEAN = [
    operation("a", "write", 0, 0, 10),
    operation("b", "read", 0, 5, 12),
    operation("b", "read", None, 1, 2),
    operation("a", "write", 1, 20, 40),
    operation("b", "read", 1, 25, 30),  # Before its write has ended: it may.
    operation("c", "read", 0, 22, 29),
    operation("c", "write", 7, 50, None, ok=None),
    operation("d", "write", 3, 50, 55, ok=False),
]


def test_a34_a_history_that_can_have_been_is_clean() -> None:
    assert violations(CLEAN) == []


@pytest.mark.parametrize(
    ("planted", "proof"),
    [
        (operation("e", "read", 0, 60, 70), ["a write v1", "e read v0"]),
        (operation("e", "write", 1, 60, 70), ["a write v1", "e write v1"]),
        (operation("e", "read", None, 31, 32), ["b read v1", "e read vNone"]),
    ],
)
def test_a34_a_stale_operation_is_found_with_its_proof(
    planted: dict[str, Any], proof: list[str]
) -> None:
    first = violations([*CLEAN, planted])[0]["operations"].split("; ")
    assert [step.split(" [")[0] for step in first][-2:] == proof
    assert len(first) <= 3


def test_a34_histcheck_reads_logs_and_the_store(stage: Stage, tmp_path: Path) -> None:
    stage.put({"1": {"n": 0}})
    stage.put({"1": {"n": 1}})
    link = f"{stage.path}/1"
    log = tmp_path / "log.ndjson"
    lines = [
        operation("a", "write", 0, 0, 1, link=link),
        operation("a", "write", 1, 2, 3, link=link),
        operation("b", "read", 1, 4, 5, link=link),
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert work(stage, "histcheck").run(histcheck, log=str(log), path=stage.path)["clean"]
    lines += [
        operation("c", "read", 0, 6, 7, link=link),
        operation("c", "write", 9, 8, 9, link=link),
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = work(stage, "histcheck").run(histcheck, log=str(log), path=stage.path)
    assert [each["link"] for each in found["violations"]] == [link]
    assert found["lost"] == [{"link": link, "version": 9}]


@pytest.mark.thorough  # It has a group of its own, whose copies are damaged by hand.
def test_a33_an_audit_names_differences_and_changes_nothing(spark: Any, tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path) as cluster:
        stage = Stage.of(spark, cluster, "/audited")
        stage.put({f"{n:04d}": {"n": n} for n in range(2000)})
        assert work(stage, "audit").run(audit, path=stage.path)["differences"] == []
        # Not the last rows of their slots: those are looked at when a node starts.
        first = stage.load().filter("seq = 1").select("documentSelfLink", "slot")
        more = stage.load().filter("seq = 2").select("slot")
        links = first.join(more, "slot").select("documentSelfLink").orderBy("documentSelfLink")
        altered, missing, copied = (row[0].rpartition("/")[2] for row in links.take(3))
        victim = cluster.nodes[2]
        cluster.kill(victim)
        _spoil(victim.data / "docstore.db", stage.path, altered, missing, copied)
        cluster.start(victim)
        cluster.wait_ready()
        for _ in range(2):
            found = work(stage, "audit").run(audit, path=stage.path)
            assert [(each["documentSelfLink"], each["what"]) for each in found["differences"]] == [
                (f"{stage.path}/{altered}", "altered"),
                (f"{stage.path}/{missing}", "missing"),
                (f"{stage.path}/9999", "extra"),
            ]
            assert {node for each in found["differences"] for node in each["nodes"]} == {"n3"}


def _spoil(file: Path, path: str, altered: str, missing: str, copied: str) -> None:
    """Alter one copy, remove one, and add one that no client wrote."""
    connection = sqlite3.connect(file)
    with connection:
        for link, sql in (
            (altered, "UPDATE history SET state = CAST('{\"n\":-8}' AS BLOB) WHERE link = ?"),
            (missing, "DELETE FROM history WHERE link = ?"),
            (missing, "DELETE FROM current WHERE link = ?"),
        ):
            assert connection.execute(sql, (f"{path}/{link}",)).rowcount == 1
        names = [row[1] for row in connection.execute("PRAGMA table_info(history)")]
        values = {"n": "0", "link": f"'{path}/9999'"}
        chosen = ", ".join(values.get(name, name) for name in names)
        insert = f"INSERT INTO history SELECT {chosen} FROM history WHERE link = ?"
        assert connection.execute(insert, (f"{path}/{copied}",)).rowcount == 1
        pointer = f"INSERT INTO current SELECT slot, '{path}/9999', 0, 0, 0, 0 FROM current"
        assert connection.execute(pointer + " WHERE link = ?", (f"{path}/{copied}",)).rowcount == 1
    connection.close()


@pytest.mark.parametrize(
    "wrong",
    ["{", "1", '{"title": "Heat"}', '{"kind": "raed", "link": "/a/1", "started": 1}',
     '{"kind": "read", "link": "/a/1", "version": "x", "started": 1}'],
)  # fmt: skip
def test_a_log_that_is_none_is_not_called_clean(stage: Stage, tmp_path: Path, wrong: str) -> None:
    log = tmp_path / "log.ndjson"
    log.write_text(json.dumps(CLEAN[0]) + f"\n{wrong}\n")
    with pytest.raises(ValueError, match=r"log\.ndjson: line 2 must be an operation"):
        work(stage, "histcheck").run(histcheck, log=str(log))


def test_contents_distinguish_documents(spark: Any) -> None:
    rows = [("/a/1", "{}"), ("/a/2", '{"n":1}')]
    table = spark.createDataFrame(rows, "documentSelfLink string, body string")
    assert digest(table) == digest(table.orderBy(F.desc("body")))
    assert digest(table) != digest(table.withColumn("body", F.lit("{}")))
    assert digest(table.unionByName(table)) != digest(table)


@pytest.mark.thorough  # It waits until every node knows of every snapshot, for half a minute.
def test_compact_removes_versions_that_no_snapshot_holds(stage: Stage, tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path) as cluster:
        own, first = Stage.of(stage.spark, cluster, "/notes"), ""
        for turn in range(3):
            own.put({str(n): {"turn": turn} for n in range(20)})
            first = first or own.group.json("GET", "/core/spark/plan")["cut"]
        own.delete(["0", "1"])
        counted = Stage.of(stage.spark, cluster, "/counted", retention={"versions": 2})
        for turn in range(5):
            counted.put({str(n): {"turn": turn} for n in range(3)})
        held = cuts.snapshot(own.url, "before", ttl_s=600)
        own.put({str(n): {"turn": 9} for n in range(2, 5)})  # "before" holds the old ones.
        dry = Work(own.spark, own.url, "compact", dry_run=True).run(compact, older_than="0s")
        # All older versions and deleted documents; of counted factories all but two versions.
        assert dry["versions"] == {"/notes": 2 * 20 + 2, "/counted": 3 * 3}
        assert len(own.history("2")) == 4

        done = Work(own.spark, own.url, "compact").run(compact, older_than="0s")
        assert (done["planned"], done["left"]) == (51, 0)
        assert len(set(done["rowsPassed"].values())) == 1
        assert own.documents(asOf=held)["3"] == {"turn": 2}
        assert own.documents()["3"] == {"turn": 9}
        assert len(own.history("2")) == 2
        assert counted.load(versions="all").count() == 3 * 2
        assert own.documents().keys() == {str(n) for n in range(2, 20)}
        with pytest.raises(Exception, match="snapshot-gone"):
            own.documents(asOf=first)


@pytest.mark.parametrize("text", ["7", "d", "-1d", "1w", "1d2h"])
def test_durations_need_a_unit(text: str) -> None:
    with pytest.raises(ValueError, match="a duration must be"):
        seconds(text)
