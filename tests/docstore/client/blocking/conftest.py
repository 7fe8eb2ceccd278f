"""The client of the rewritten tests."""

from collections.abc import Iterator

import pytest

from docstore.client import LocalCluster
from docstore.client.blocking import Client


@pytest.fixture
def store(group: LocalCluster) -> Iterator[Client]:
    with Client(group.urls) as client:
        yield client
