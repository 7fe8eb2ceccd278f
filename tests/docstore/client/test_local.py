"""Several groups on one machine: each keeps its ports, even while it is down."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from docstore.client.blocking import Client
from docstore.client.local import LocalCluster
from docstore.service import Request, Service, State


def test_two_groups_never_take_the_same_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = []
    for _ in range(2):  # Both draw the same numbers; only the claims of the first exist.
        monkeypatch.setattr(random, "randrange", random.Random(7).randrange)
        groups.append(LocalCluster(2, tmp_path))
    assert set(groups[0].urls).isdisjoint(groups[1].urls)


class Doubling(Service):
    """Doubles the number of a request."""

    path = "/doubled"

    def on_create(self, body: State, request: Request) -> State:
        return {"n": 2 * body["n"]}


def test_nodes_run_services_of_the_test_file_in_its_environment() -> None:
    with (
        LocalCluster(1, services=[Doubling], environment={"DOCSTORE_ZONE": "north"}) as group,
        Client(group.urls) as store,
    ):
        assert store.post("/doubled", {"n": 21})["n"] == 42
        (member,) = store.json("GET", "/core/node-groups/default")["members"]
        assert member["zone"] == "north"


TEST = """
import pytest

@pytest.fixture(scope="session")
def docstore_options():
    return {"size": 1}

def test_an_order_is_stored(docstore_cluster, docstore_client):
    assert len(docstore_cluster.nodes) == 1
    docstore_client.declare("/orders")
    assert docstore_client.post("/orders", {"item": "tea"}).version == 0
"""


@pytest.mark.thorough
def test_pytest_has_fixtures_of_nodes(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(TEST)
    command = (sys.executable, "-m", "pytest", "-p", "docstore.client.fixtures", "-q", tmp_path)
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
