"""One Spark session and one group for all tests of the pipeline, or a reason to skip them."""

import importlib.util
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docstore.client.local import LocalCluster
from tests.pipeline import archive

if TYPE_CHECKING:
    from tests.pipeline.stage import Stage

NEEDED = ("pyspark", "pyarrow", "pandas")


def why_not() -> str:
    """Return what is missing, "" if nothing is."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return f"no {', '.join(missing)}: pip install 'docstore[spark]'"
    from docstore.pipeline.sessions import JavaMissing, insist_on_java

    try:
        insist_on_java()
    except JavaMissing as error:
        return str(error)
    return ""


WHY_NOT = why_not()
if any(importlib.util.find_spec(name) is None for name in NEEDED):
    collect_ignore_glob = ["test_[!z]*.py"]  # They cannot even be imported.


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if WHY_NOT and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=WHY_NOT))


@pytest.fixture(scope="session", autouse=True)
def hasty_java() -> Iterator[None]:
    """Most of these tests' time is Java that starts."""
    with pytest.MonkeyPatch.context() as patch:
        if not WHY_NOT:
            patch.setenv("JDK_JAVA_OPTIONS", archive.options())
        yield


@pytest.fixture(scope="session")
def spark(hasty_java: None) -> Iterator[Any]:
    from docstore import pipeline

    # Tasks are tried three times, as they are on a cluster.
    session = pipeline.session("local[2,3]", "tests")
    session.sparkContext.setLogLevel("OFF")
    java = session.sparkContext._gateway.proc
    yield session
    # Every test after its end fails with a refused connection, which does not say why.
    assert java.poll() is None, f"Java ended early, with exit code {java.poll()}"
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    # Streams trim records at once, since tests read lost ones too.
    with LocalCluster(3, settings=("--streams-retention-check-s", "0.2")) as group:
        yield group


@pytest.fixture
def factory(cluster: LocalCluster, request: pytest.FixtureRequest) -> "Stage":
    """A factory for one test, whose Spark is another process."""
    from tests.pipeline.stage import Stage

    return Stage.of(None, cluster, "/t-" + request.node.name.split("[")[0].replace("_", "-"))


@pytest.fixture
def stage(spark: Any, factory: "Stage") -> "Stage":
    """A factory for one test."""
    return replace(factory, spark=spark)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)
