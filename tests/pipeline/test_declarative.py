"""Scenario A22 as a declared pipeline: changes, the present state, and past states."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from docstore.client.local import LocalCluster
from tests.pipeline.stage import Stage

pytestmark = pytest.mark.thorough  # It starts a Java of its own.

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "declarative"
MISSING = [name for name in ("grpc", "grpc_status", "yaml") if not importlib.util.find_spec(name)]


@pytest.mark.skipif(
    bool(MISSING), reason=f"no {', '.join(MISSING)}: pip install pyspark[pipelines]"
)
def test_a22_tables_of_both_types_follow_the_feed(cluster: LocalCluster, tmp_path: Path) -> None:
    films = Stage.of(None, cluster, "/films")
    films.put({str(n): {"title": f"Film {n}", "year": 1980 + n} for n in range(20)})
    films.delete(["0", "1", "2"])
    films.put({"1": {"title": "Again", "year": 2001}})
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/films-pipeline", str(tmp_path / "state")))
    run(tmp_path, films.url)
    films.put({"30": {"title": "Later", "year": 2002}})
    run(tmp_path, films.url)
    now = {row["documentSelfLink"]: row["title"] for row in table(tmp_path, "films")}
    assert now == {f"/films/{name}": each["title"] for name, each in films.stored().items()}
    history = table(tmp_path, "films_history")
    versions = [row for row in history if row["documentSelfLink"] == "/films/1"]
    first, second = sorted(versions, key=lambda row: int(row["documentVersion"]))
    assert (first["documentVersion"], second["documentVersion"]) == (0, 2)
    assert first["since"] < first["until"] < second["since"]
    assert second["until"] is None


def run(directory: Path, url: str) -> None:
    environment = {
        **os.environ, "DOCSTORE_URL": url, "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [
        str(Path(sys.executable).parent / "spark-pipelines"),
        "run",
        "--conf",
        "spark.sql.catalogImplementation=hive",
    ]  # A catalog that outlives a run.
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True,
                          check=False, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def table(directory: Path, name: str) -> list[dict[str, Any]]:
    return parquet.read_table(directory / "spark-warehouse" / name).to_pylist()  # type: ignore[no-untyped-call]
