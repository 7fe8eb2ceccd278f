"""Each metric has a text and a name as Prometheus wants them, and docs/metrics.md has the texts."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from docstore.http.metrics import HttpMetrics, help_texts
from tests.edges.measures import PAGE, page_of_docs, shown_by_a_node

HISTOGRAM = "docstore_http_request_seconds"
NO_BASE_UNIT = re.compile(
    "_(?:ms|us|ns|milliseconds|microseconds|minutes|hours|days|kb|mb|kilobytes|megabytes|percent)"
    "(?:_total)?$"
)
PARTS = {HISTOGRAM + part: HISTOGRAM for part in ("_bucket", "_sum", "_count")}


def every() -> str:
    """Return a page with every metric that a node can have."""
    counted = HttpMetrics()
    counted.note("GET", 200, 0.001)
    return counted.text({name: 1.0 for name in help_texts() if name != HISTOGRAM}).decode()


def faults(page: str) -> Iterator[str]:
    """Yield the faults in names, texts and types of a page of metrics."""
    texts = dict(re.findall("^# HELP ([^ ]+) (.+)$", page, re.MULTILINE))
    types = dict(re.findall("^# TYPE ([^ ]+) (.+)$", page, re.MULTILINE))
    for sample in re.findall("^[a-z][^ {]+", page, re.MULTILINE):
        name = PARTS.get(sample, sample)
        if name not in texts or name not in types:
            yield f"{name}: no text or no type"
        elif name.endswith("_total") != (types[name] == "counter"):
            yield f"{name}: a {types[name]}"
        if NO_BASE_UNIT.search(name):
            yield f"{name}: not a base unit"


def test_each_metric_of_a_node_has_a_text_and_a_good_name() -> None:
    assert not [*faults(shown_by_a_node())]
    assert not [*faults(every())]


def test_a_fault_is_found() -> None:
    page = '# HELP a_ms x\n# TYPE a_ms counter\na_ms{to="b"} 1\nb_total 2\n'
    assert [*faults(page)] == [
        "a_ms: a counter", "a_ms: not a base unit", "b_total: no text or no type"
    ]  # fmt: skip


def test_the_docs_have_the_texts() -> None:
    assert PAGE.read_text("utf-8") == page_of_docs(), "write it anew: python -m tests.edges"


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
@pytest.mark.parametrize("page", [shown_by_a_node, every])
def test_prometheus_has_no_remarks(page: Callable[[], str]) -> None:
    said = subprocess.run(
        ["promtool", "check", "metrics"], input=page(), capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout + said.stderr) == (0, "")
