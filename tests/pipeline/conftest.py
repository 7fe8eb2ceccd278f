"""One Spark session and one group for all tests of the pipeline, or a reason to skip them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.client.local import LocalCluster
from tests.pipeline.stage import Stage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    why = _why_not()
    for item in items:
        if why and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=why))


def _why_not() -> str:
    try:
        from docstore.pipeline.sessions import JavaMissing, insist_on_java
    except ImportError as error:
        return str(error)
    try:
        insist_on_java()
    except JavaMissing as error:
        return str(error)
    return ""


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from docstore import pipeline

    # Tasks are tried three times, as they are on a cluster.
    session = pipeline.session("local[2,3]", "tests")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3) as group:
        yield group


@pytest.fixture
def stage(spark: Any, cluster: LocalCluster, request: pytest.FixtureRequest) -> Stage:
    """A factory of the test's own."""
    return Stage.of(spark, cluster, "/t-" + request.node.name.split("[")[0].replace("_", "-"))


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)
