"""`docstore join`, `remove`, `replace`, `leave`, `cancel`, as an operator types them."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.cli.membership import _insist_on_made
from docstore.cli.terminal import CommandFailed
from docstore.client import LocalCluster
from tests.docstore.watching import page_of, until
from tests.fork_server import SERVER


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield three nodes of a group, and a fourth on standby."""
    with LocalCluster(3, tmp_path_factory.mktemp("cli"), ("--slots", "128")) as group:
        waiting = group.prepare()
        waiting.flags = ("--standby",)
        group.start(waiting)
        until(lambda: "storeId" in page_of(f"{waiting.url}/core/management"))
        yield group


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return SERVER.run(*arguments, timeout_s=180)


def docstore(*arguments: str) -> tuple[int, str]:
    """Run a command; return its exit code and its whole output."""
    ended = run(*arguments)
    return ended.returncode, ended.stdout + ended.stderr


def json_of(*arguments: str) -> dict[str, Any]:
    """Run a command with --json, which must succeed; return its page."""
    ended = run(*arguments, "--json")
    assert ended.returncode == 0, ended.stderr
    page: dict[str, Any] = json.loads(ended.stdout)
    return page


def test_a_group_grows_and_shrinks_by_commands(cluster: LocalCluster) -> None:
    url = ("--url", cluster.nodes[0].url)
    code, said = docstore("join", cluster.nodes[3].url, *url)
    assert code == 0, said
    assert "configuration 4 is stable: n1, n2, n3, n4" in said
    code, said = docstore("join", cluster.nodes[3].url, *url)
    assert (code, "is a member" in said) == (1, True)
    page = json_of("remove", "n2", *url)
    assert (page["id"], page["stage"]) == (7, "stable")
    assert [each["id"] for each in page["members"]] == ["n1", "n3", "n4"]
    code, said = docstore("status", *url)
    assert code == 0
    assert "voter" in said
    assert "none" in said
    code, said = docstore("replace", "n2", *url)
    assert (code, "n2 is not a member" in said) == (2, True), said
    code, said = docstore("remove", "n3", *url)
    assert (code, "need force" in said) == (1, True)
    code, said = docstore("cancel", *url)
    assert (code, "no change is under way" in said) == (1, True)


def test_a_node_with_a_new_disk_is_replaced_and_another_leaves(cluster: LocalCluster) -> None:
    """It continues with the group n1, n3, n4 of the test before."""
    url = ("--url", cluster.nodes[0].url)
    wiped = cluster.nodes[2]
    cluster.kill(wiped)
    shutil.rmtree(wiped.data)
    cluster.start(wiped)
    until(lambda: "storeId" in page_of(f"{wiped.url}/core/management"))
    code, said = docstore("replace", "n3", *url)
    assert code == 0, said
    assert "is stable: n1, n3, n4" in said
    leaving = cluster.nodes[3]
    assert leaving.process is not None
    code, said = docstore("leave", "--force", "--url", leaving.url)
    assert (code, "n4 has left the group and stops" in said) == (0, True), said
    assert leaving.process.wait(15) == 0
    leaving.process = None


def test_conflicting_settings_of_a_node_are_refused(tmp_path: Path) -> None:
    common = ("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:39001", "--node-id", "a")
    for flags, complaint in (
        (("--join", "ftp://x:1"), "join:"),
        (("--join", "http://x"), "join:"),
        (("--bootstrap", "a=http://127.0.0.1:39001", "--standby"), "not both"),
        (("--remove-after-s", "-1"), "remove_after_s:"),
        (("--listen", "0.0.0.0:39001", "--insecure"), "advertise:"),
    ):
        code, said = docstore(*common, *flags)
        assert (code, complaint in said) == (2, True), said


def test_a_member_of_another_group_is_refused_at_once(cluster: LocalCluster) -> None:
    url = ("--url", cluster.nodes[0].url)
    with LocalCluster(1) as alone:
        [stray] = alone.urls
        for command in (("join", stray), ("replace", "n2", stray)):
            code, said = docstore(*command, *url)
            assert (code, "is a member of another group" in said) == (1, True), said


@pytest.mark.parametrize(
    ("request_", "undone", "made"),
    [
        ({"member": {"id": "n4"}}, {"n1"}, {"n1", "n4"}),
        ({"id": "n1"}, {"n1", "n2"}, {"n2"}),
        ({"id": "n1", "member": {"id": "n4"}}, {"n1"}, {"n4"}),
    ],
    ids=["join", "remove", "replace"],
)
def test_a_change_cancelled_by_another_operator_is_an_error(
    request_: dict[str, Any], undone: set[str], made: set[str]
) -> None:
    """Once, the waiting command exited with 0."""
    with pytest.raises(CommandFailed, match="was cancelled"):
        _insist_on_made(request_, undone)
    _insist_on_made(request_, made)
    _insist_on_made({"kind": "CancelChangeRequest"}, undone)


@pytest.mark.thorough
def test_a_lone_survivor_becomes_a_group_of_one(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path / "nodes") as group:
        url = ("--url", group.nodes[0].url)
        code, said = docstore("post", "/core/examples", '{"name": "kept"}', *url)
        assert code == 0, said
        link = json.loads(said)["documentSelfLink"]
        until(lambda: page_of(f"{group.nodes[2].url}/health/ready").get("ready"))
        for node in group.nodes:
            group.kill(node)
        survivor = group.nodes[2]
        code, said = docstore("force-config", "--data", str(survivor.data))
        assert (code, "--yes to confirm" in said) == (2, True), said
        code, said = docstore("force-config", "--data", str(tmp_path / "nowhere"), "--yes")
        assert (code, "not a node's data directory" in said) == (1, True), said
        page = json_of("force-config", "--data", str(survivor.data), "--yes")
        assert (page["member"], page["slots"], page["slotsLost"]) == ("n3", 1024, 0)
        group.start(survivor)
        group.wait_ready()
        url = ("--url", survivor.url)
        assert "kept" in docstore("get", link, *url)[1]
        configuration = page_of(f"{survivor.url}/core/node-groups/default")["configuration"]
        assert isinstance(configuration, dict)
        assert configuration["forced"] == 1
        # A former member that comes back learns that it is no member any more.
        group.start(group.nodes[0])
        until(lambda: "not a member" in str(page_of(f"{group.nodes[0].url}/health/ready")))
        # The command refuses the directory of a running node.
        code, said = docstore("force-config", "--data", str(survivor.data), "--yes")
        assert (code, "in use by another process" in said) == (1, True), said
