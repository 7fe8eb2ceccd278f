"""A master and a worker from pip's own Spark, two processes; the session is a client of theirs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from docstore.client.local import LocalCluster
from tests.pipeline.stage import Stage

pytestmark = pytest.mark.thorough  # It starts four Javas of its own.

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import json, sys
from docstore import pipeline
master, url, path = sys.argv[1:]
spark = pipeline.session(master, "standalone", driver_host="127.0.0.1", executor_memory="512m")
spark.sparkContext.setLogLevel("OFF")
rows = spark.range(300).selectExpr("concat('a', id) AS name", "id")
pipeline.write(rows, url, path, key="name")
print(json.dumps(pipeline.read(spark, url, path).count()))
spark.stop()
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    home = Path(pyspark.__file__).parent
    group = LocalCluster(1, tmp_path)  # Never started: it only claims the ports.
    port = int(group.urls[0].rpartition(":")[2])
    address = f"spark://127.0.0.1:{port}"
    deploy, script = "org.apache.spark.deploy", str(home / "bin" / "spark-class")
    commands = (
        [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)],
        [f"{deploy}.worker.Worker", address, "--host", "127.0.0.1", "-c", "2", "-m", "1g",
         "-d", str(tmp_path / "work")],
    )  # fmt: skip
    processes = [
        subprocess.Popen(
            [script, *command, "--webui-port", str(webui)],
            env=environment(home),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for webui, command in enumerate(commands, port + 1)
    ]
    yield address
    for process in reversed(processes):
        process.terminate()
        process.wait(20)


def environment(home: Path) -> dict[str, str]:
    ours = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    return {**os.environ, **ours, "SPARK_LOCAL_IP": "127.0.0.1"}


def test_a_standalone_cluster_reads_and_writes(factory: Stage, master: str, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    home = Path(pyspark.__file__).parent
    asked = [sys.executable, str(script), master, factory.url, factory.path]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT,
                          env=environment(home))  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == 300
