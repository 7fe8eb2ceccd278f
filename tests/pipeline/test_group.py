"""The way to the nodes without Spark: connections are kept from one request to the next."""

import subprocess
import sys

from docstore.client.local import LocalCluster

SCRIPT = """
import sys
from docstore.pipeline.group import Group
for _ in range(2):
    assert Group(sys.argv[1:]).json("GET", "/core/spark/plan")["ends"]
"""


def test_a_process_ends_without_a_word_about_what_it_kept_open(cluster: LocalCluster) -> None:
    asked = [sys.executable, "-W", "error", "-c", SCRIPT, *cluster.urls]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
