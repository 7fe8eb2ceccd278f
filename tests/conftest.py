"""Settings of every test: the examples of Hypothesis, the start of nodes, the order of tests.

A failure here must be a failure everywhere, so the seed of Hypothesis is fixed and no time limit
applies to a single example. To search wider: HYPOTHESIS_PROFILE=search.
"""

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from docstore.client import local
from tests.fork_server import SERVER
from tests.side_by_side import InPortions, turn_of

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("search", max_examples=5000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Collecting makes millions of objects that live to the end: the garbage collector would walk them
# again and again (half of the processor time of collecting), and later in each full collection.
gc.disable()

# aiohttp reads the machine's certificates when it is imported: a tenth of each start of a node, of
# which there are hundreds, and no node connects to a server with such a certificate.
os.environ.setdefault("SSL_CERT_FILE", os.devnull)


@pytest.fixture(scope="session", autouse=True)
def forked_nodes() -> Iterator[None]:
    """Start nodes of groups by forks of a process that has imported all they need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "launch", SERVER.launch)
        yield
    SERVER.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, so that no worker runs alone at the end."""
    items.sort(key=lambda item: turn_of(item.nodeid))


def pytest_collection_finish() -> None:
    """Leave the collected tests out of all later garbage collections."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)  # There is no such hook where tests play one by one.
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    return InPortions(config, log)
