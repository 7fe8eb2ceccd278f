"""Fixtures of pytest: real nodes on this machine, and a client of them.

    def test_an_order_is_stored(docstore_client):
        docstore_client.declare("/orders")
        assert docstore_client.post("/orders", {"item": "tea"}).version == 0

pytest finds them by itself where docstore is installed. To choose settings or services, define a
fixture `docstore_options` (scope="session") that returns arguments of `LocalCluster`.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # pytest imports this at each start.
    from docstore.client import LocalCluster
    from docstore.client.blocking import Client


@pytest.fixture(scope="session")
def docstore_options() -> Mapping[str, Any]:
    """Return arguments of the cluster; override this to give some."""
    return {}


@pytest.fixture(scope="session")
def docstore_cluster(
    docstore_options: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[LocalCluster]":
    """Start three nodes for all tests."""
    from docstore.client import LocalCluster  # noqa: PLC0415 - As above.

    directory = tmp_path_factory.mktemp("docstore")
    with LocalCluster(**{"directory": directory, **docstore_options}) as cluster:
        yield cluster


@pytest.fixture
def docstore_client(docstore_cluster: "LocalCluster") -> "Iterator[Client]":
    """Open a blocking client; for an asynchronous one use `docstore_cluster.urls`."""
    from docstore.client.blocking import Client  # noqa: PLC0415 - As above.

    with Client(docstore_cluster.urls, ssl=docstore_cluster.ssl) as client:
        yield client
