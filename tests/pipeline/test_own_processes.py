"""Jobs with Spark in a process of their own: commands, executors, a paused driver."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pipeline.stage import Stage
from tests.pipeline.test_errors import ran
from tests.source import ROOT

pytestmark = pytest.mark.thorough  # Each starts one to three Javas.


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}


SCRIPT = """
import json, os, signal, sys, time
from docstore import pipeline
url, path = sys.argv[1:]
spark = pipeline.session("local-cluster[2,1,1024]", executor_memory="512m",
                         executorEnv_PYTHONPATH=os.getcwd())
spark.sparkContext.setLogLevel("OFF")
table = pipeline.read(spark, url, path, partitions=8)
first = table.count()
pattern = "CoarseGrainedExecutorBackend.*" + spark.sparkContext.applicationId
mine = {int(p) for p in os.popen(f"pgrep -f '{pattern}'").read().split()}
os.kill(min(mine), signal.SIGKILL)
second = table.count()
copies = table.selectExpr("documentSelfLink", "'{\\"copied\\": true}' AS body")
pipeline.write(copies, url, path)
third = pipeline.read(spark, url, path, where="copied = true").count()
print(json.dumps([first, second, third, len(mine)]))
spark.stop()
"""


def test_a37_executors_of_a_cluster_read_and_write_and_may_die(
    factory: Stage, tmp_path: Path
) -> None:
    factory.put({f"{n:05d}": {"n": n} for n in range(1000)})
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    asked = [sys.executable, str(script), factory.url, factory.path]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT,
                          env=environment())  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    first, second, third, executors = json.loads(done.stdout.splitlines()[-1])
    assert (first, second, third) == (1000, 1000, 1000)
    assert executors >= 2


FOLLOWER = """
import sys, time
from docstore import pipeline
url, source, target, checkpoint, pause_s = sys.argv[1:]
spark = pipeline.session("local[2]", "follower")
spark.sparkContext.setLogLevel("OFF")

def slowly(batches):
    for batch in batches:
        for n in range(batch.num_rows):
            time.sleep(float(pause_s))
            yield batch.slice(n, 1)

feed = pipeline.changes(spark, url, source, start="earliest")
rows = feed.selectExpr("substring_index(documentSelfLink, '/', -1) AS name", "body")
query = (
    rows.mapInArrow(slowly, rows.schema).writeStream.format("docstore")
    .options(url=url, path=target, key="name", batchRows="5", checkpointLocation=checkpoint)
    .trigger(availableNow=True).start()
)
query.awaitTermination()
"""


def test_a25_a_driver_that_was_paused_changes_nothing_any_more(
    factory: Stage, tmp_path: Path
) -> None:
    source = Stage.of(None, factory.cluster, f"{factory.path}-source")
    names = [f"{n:03d}" for n in range(120)]
    source.put({name: {"turn": 0} for name in names})
    script, said = tmp_path / "job.py", tmp_path / "said.txt"
    script.write_text(FOLLOWER)

    def follow(pause_s: float) -> subprocess.Popen[bytes]:
        asked = [sys.executable, str(script), factory.url, source.path, factory.path,
                 str(tmp_path / "state"), str(pause_s)]  # fmt: skip
        with said.open("ab") as log:
            return subprocess.Popen(asked, cwd=ROOT, env=environment(), stdout=log,
                                    stderr=log, start_new_session=True)  # fmt: skip

    old = follow(0.1)
    try:
        _await_links(factory, 10, old, said)
        os.killpg(old.pid, signal.SIGSTOP)
        source.put({name: {"turn": 1} for name in names})
        assert follow(0.0).wait(240) == 0, said.read_text()[-3000:]
        before = factory.stored()
        assert {name: each["turn"] for name, each in before.items()} == dict.fromkeys(names, 1)
        os.killpg(old.pid, signal.SIGCONT)
        assert old.wait(240) != 0
    finally:
        if old.poll() is None:
            os.killpg(old.pid, signal.SIGKILL)
            old.wait()
    assert factory.stored() == before


def _await_links(factory: Stage, count: int, writer: "subprocess.Popen[bytes]", said: Path) -> None:
    """Wait until the factory has `count` documents."""
    deadline = time.monotonic() + 240.0
    while len(factory.group.json("GET", factory.path)["documentLinks"]) < count:
        assert writer.poll() is None, said.read_text()[-3000:]
        assert time.monotonic() < deadline, said.read_text()[-3000:]
        time.sleep(0.1)


def test_the_command_line_prints_one_line_of_json(factory: Stage) -> None:
    asked = [sys.executable, "-m", "docstore", "spark", "balance", "--url", factory.url]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=300)
    result = json.loads(done.stdout)
    assert result["job"] == "balance"
    page = factory.group.json("GET", f"/core/spark/jobs/{result['jobId']}")
    assert page["state"] == "DONE"


def test_the_command_prints_one_line_for_a_failed_task(factory: Stage, tmp_path: Path) -> None:
    factory.put({"a": {"n": 1}})
    done = ran("export", factory.path, "--to", str(tmp_path), "--url", factory.url)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("Traceback") == done.stderr.count("\tat ") == 0
    assert [line for line in done.stderr.splitlines() if line.startswith("docstore: ")] == [
        done.stderr.splitlines()[-1]
    ]
