"""`docstore demo --quick`: three nodes that keep running, and are stopped by their process ids."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from docstore.cli import demo_group
from docstore.client.local import CLAIM, claim_ports
from tests.fork_server import SERVER


def demo(cache: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return SERVER.run("demo", *arguments, environment=environment)


def free_base() -> int:
    """Return a base port for which the ports of three nodes are free."""
    while True:
        with claim_ports() as claim:
            base: int = claim.getsockname()[1] - CLAIM
            group = demo_group.DemoGroup(base)
            ports = [port + offset for port in group.ports for offset in range(CLAIM)]
            if all(map(demo_group.is_free, ports)):
                return base


@pytest.mark.thorough
def test_a_group_keeps_running_survives_a_kill_and_is_stopped(tmp_path: Path) -> None:
    port = str(free_base())
    try:
        started = demo(tmp_path, "--quick", "--port", port, "--json")
        assert started.returncode == 0, started.stderr
        page = json.loads(started.stdout)
        assert page["console"] == f"http://127.0.0.1:{port}/core/ui"
        url = ("--url", page["urls"][0])
        found = SERVER.run("ls", "/films", "--filter", "rating gt 8.5", "--json", *url)
        assert json.loads(found.stdout) == ["/films/seven-samurai", "/films/spirited-away"]
        assert len(SERVER.run("consume", "ratings", "--once", *url).stdout.splitlines()) == 120
        for host, port in (each.split(":") for each in page["kafka"].split(",")):
            socket.create_connection((host, int(port))).close()
        assert demo(tmp_path, "kill", "n3").returncode == 0
        again = demo(tmp_path, "kill", "n3")
        assert (again.returncode, "those that run: n1, n2;" in again.stderr) == (1, True)
        written = SERVER.run("patch", "/films/solaris", '{"seen": true}', *url)
        assert written.returncode == 0, written.stderr
        second = demo(tmp_path, "--quick")
        assert second.stdout.startswith("n3 serves again after "), second.stderr
        assert demo(tmp_path, "--quick").stdout.startswith("the demo runs already: ")
        other = demo(tmp_path, "--quick", "--port", "9001")
        assert (other.returncode, other.stderr.count("\n")) == (1, 1)
    finally:
        stopped = demo(tmp_path, "stop", "--json")
    assert json.loads(stopped.stdout) == {"stopped": ["n1", "n2", "n3"]}
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    port = free_base()
    with socket.create_server(("127.0.0.1", port + 11)):
        ended = demo(tmp_path, "--quick", "--port", str(port))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"docstore: port {port + 11} is taken by another program; choose a group of ports of its"
        " own: docstore demo --quick --port 9001\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_unrelated_process_with_the_id_of_a_node_is_not_killed(tmp_path: Path) -> None:
    folder = tmp_path / "docstore-demo"
    folder.mkdir()
    record = {"port": 8001, "pids": {"n1": os.getpid()}, "is_filled": True}
    (folder / "demo.json").write_text(json.dumps(record))
    assert json.loads(demo(tmp_path, "stop", "--json").stdout) == {"stopped": []}


def test_a_damaged_record_is_a_one_line_error(tmp_path: Path) -> None:
    folder = tmp_path / "docstore-demo"
    folder.mkdir()
    (folder / "demo.json").write_text("{")
    for arguments in (["--quick"], ["stop"], ["kill", "n1"]):
        ended = demo(tmp_path, *arguments)
        assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
        assert f"delete {folder}" in ended.stderr


@pytest.mark.parametrize(
    "arguments", ["--open", "--port 9001", "--quick --keep", "--quick --port 80", "--quick stop"]
)
def test_conflicting_options_are_a_usage_error(tmp_path: Path, arguments: str) -> None:
    assert demo(tmp_path, *arguments.split()).returncode == 2


def test_the_last_port_must_exist(tmp_path: Path) -> None:
    ended = demo(tmp_path, "--quick", "--port", "65530")
    assert ended.stderr == "docstore: --port must be at most 65512; got 65530\n"
