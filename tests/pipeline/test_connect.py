"""Scenario A37 over Connect: the session is a client, and the server does the work."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.stage import Stage

pytestmark = pytest.mark.thorough  # It starts a Java of its own.

ROOT = Path(__file__).parent.parent.parent
NEEDED = ("grpc", "grpc_status", "zstandard")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: pip install pyspark[connect]")
def test_a37_the_basics_over_connect(factory: Stage, tmp_path: Path) -> None:
    asked = [
        sys.executable,
        "-m",
        "tests.pipeline.connected",
        factory.url,
        factory.path,
        str(tmp_path),
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT,
                          env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("remote").startswith("pyspark.sql.connect")
    assert found == {
        "job": "connected", "count": 300, "where": 10, "kinds": [[0, 100], [1, 100], [2, 100]],
        "sum": 299 * 150, "past": 0, "now": 5, "changes": 5, "lookup": [False, True], "slots": 1024,
    }  # fmt: skip
