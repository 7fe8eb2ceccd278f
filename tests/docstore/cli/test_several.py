"""`docstore serve --processes`: the settings of each node, and real nodes under supervision."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from docstore.cli.serve import serve
from docstore.cli.several_settings import flags_of, settings_of_each
from docstore.client import LocalCluster
from docstore.errors import BadConfig
from tests.docstore.watching import page_of, until

PATIENCE_S = 60.0
HOSTS, EACH = ("a", "b"), 2

# Settings of each node


def test_each_node_has_its_own_name_directory_and_ports() -> None:
    settings = settings_of_each(
        {
            "node_id": "x", "data": "/d", "listen": "10.0.0.1:9000", "gossip": "10.0.0.2:7000",
            "insecure": True, "bootstrap": "x=http://10.0.0.1:9000,y=http://10.0.0.3:9000",
            "shared": "10.0.0.1:80",
        },
        2,
    )  # fmt: skip
    founders = (
        "x-0=http://10.0.0.1:9000,x-1=http://10.0.0.1:9003"
        ",y-0=http://10.0.0.3:9000,y-1=http://10.0.0.3:9003"
    )
    same = {"zone": "x", "insecure": True, "bootstrap": founders, "shared": "10.0.0.1:80"}
    assert settings == [
        {"node_id": "x-0", "data": "/d/0", "listen": "10.0.0.1:9000", "gossip": "10.0.0.2:7000"}
        | same,
        {"node_id": "x-1", "data": "/d/1", "listen": "10.0.0.1:9003", "gossip": "10.0.0.2:7003"}
        | same,
    ]


def test_a_given_zone_is_kept() -> None:
    settings = settings_of_each({"node_id": "x", "data": "d", "zone": "rack"}, 3)
    assert [each["zone"] for each in settings] == ["rack"] * 3
    assert [each["listen"] for each in settings] == [f"127.0.0.1:{8001 + 3 * n}" for n in range(3)]


@pytest.mark.parametrize("said", [{"advertise": "h:9"}, {"listen": "127.0.0.1:9"}])
def test_nodes_without_founders_found_their_own_group(said: dict[str, str]) -> None:
    settings = settings_of_each({"node_id": "x", "data": "d", **said}, 2)
    host = "h" if "advertise" in said else "127.0.0.1"
    assert {each["bootstrap"] for each in settings} == {f"x-0=http://{host}:9,x-1=http://{host}:12"}


@pytest.mark.parametrize("said", [{"join": "http://h:1"}, {"standby": True}])
def test_joining_nodes_have_no_founders(said: dict[str, Any]) -> None:
    settings = settings_of_each({"node_id": "x", "data": "d", **said}, 2)
    assert all("bootstrap" not in each for each in settings)


@pytest.mark.parametrize(
    ("settings", "count", "names"),
    [
        ({"data": "d"}, 2, "node_id"),
        ({"data": "d", "node_id": "x"}, 65, "processes"),
        ({"data": "d", "node_id": "x"}, -1, "processes"),
        ({"node_id": "x"}, 2, "data"),
        ({"data": "d", "node_id": "x", "listen": "127.0.0.1:65533"}, 2, "listen"),
        ({"data": "d", "node_id": "x", "replaces": "y", "join": "http://h:1"}, 2, "replaces"),
        ({"data": "d", "node_id": "x", "bootstrap": "y=http://h:1"}, 2, "node_id"),
        ({"data": "d", "node_id": "x", "bootstrap": "x"}, 2, "bootstrap"),
        ({"data": "d", "node_id": "x", "slots": 3}, 2, "slots"),
    ],
)
def test_invalid_settings_are_refused_before_the_start(
    settings: dict[str, Any], count: int, names: str
) -> None:
    with pytest.raises(BadConfig, match=f"^{names}"):
        settings_of_each(settings, count)


def test_settings_become_flags() -> None:
    settings = {"node_id": "x", "insecure": True, "observer": False, "allowed_hosts": ["p", "q"],
            "slots": 64}  # fmt: skip
    assert flags_of(settings) == ["--node-id=x", "--insecure", "--allowed-hosts=p,q", "--slots=64"]


def test_the_command_refuses_invalid_settings_like_one_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert serve(["--processes", "2", "--data", "d"]) == 2
    assert capsys.readouterr().err.startswith("docstore: node_id: ")


# Real processes


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports that are free now."""
    while True:
        first = random.randrange(20_000, 32_000)
        with suppress(OSError), ExitStack() as stack:
            for port in range(first, first + count):
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    probe = stack.enter_context(socket.socket(socket.AF_INET, kind))
                    probe.bind(("127.0.0.1", port))
            return first


class Host:
    """A simulated machine: its supervising process, with its output."""

    def __init__(
        self, name: str, directory: Path, port: int, flags: Sequence[str] = (), count: int = EACH
    ) -> None:
        self.name, self.port = name, port
        self.url = f"http://127.0.0.1:{port}"
        self.said, self.logged = directory / f"{name}.out", directory / f"{name}.err"
        with self.said.open("wb") as said, self.logged.open("wb") as logged:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "docstore", "serve", "--processes", str(count),
                 "--node-id", name, "--data", str(directory / name),
                 "--listen", f"127.0.0.1:{port}", *flags],
                stdout=said, stderr=logged,
            )  # fmt: skip

    @property
    def lines(self) -> list[str]:
        return self.said.read_text().splitlines()

    def children(self) -> dict[str, int]:
        """Return the process of each node, by its name."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"\nPPid:\t{self.process.pid}\n" in (path / "status").read_text():
                    words = (path / "cmdline").read_bytes().decode().split("\0")
                    named = [word for word in words if word.startswith("--node-id=")]
                    found |= {each.partition("=")[2]: int(path.name) for each in named}
        return found

    def ended(self) -> int:
        """Wait until the process has ended; return its exit code."""
        return self.process.wait(PATIENCE_S)


@contextmanager
def hosts(directory: Path, *more: str) -> Iterator[list[Host]]:
    """Start a group of EACH nodes on each of HOSTS."""
    first = free_ports(3 * EACH * len(HOSTS) + 1)
    ports = {name: first + 3 * EACH * at for at, name in enumerate(HOSTS)}
    founders = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in ports.items())
    shared = f"127.0.0.1:{first + 3 * EACH * len(HOSTS)}"
    flags = ["--bootstrap", founders, "--slots", "64", "--replication-factor", "3", *more]
    started = [
        Host(name, directory, port, [*flags, *(["--shared", shared] if name == "a" else [])])
        for name, port in ports.items()
    ]
    try:
        yield started
    finally:
        for host in started:
            host.process.terminate()
        for host in started:
            host.ended()


def shared_of(host: Host) -> str:
    """Return the address that the nodes of a host share."""
    return f"http://127.0.0.1:{host.port + 3 * EACH * len(HOSTS)}"


def asked(url: str, method: str, body: Any = None) -> int:
    """Return the status of a request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return int(answer.status)


@pytest.mark.thorough
def test_two_hosts_of_two_nodes_form_a_group(tmp_path: Path) -> None:
    with hosts(tmp_path) as (a, b):
        until(lambda: a.lines and b.lines, PATIENCE_S)
        assert a.lines == [f"docstore a serves at {a.url} http://127.0.0.1:{a.port + 3}"]
        group = page_of(f"{a.url}/core/node-groups/default")
        zones = {each["id"]: each["zone"] for each in group["configuration"]["members"]}
        assert zones == {"a-0": "a", "a-1": "a", "b-0": "b", "b-1": "b"}
        # Connections to the shared port reach all nodes of the host.
        shared = shared_of(a)
        assert asked(f"{shared}/core/factories", "POST", {"path": "/t"}) == 201
        seen = set()
        until(lambda: seen.add(page_of(f"{shared}/core/management")["id"]) or len(seen) == EACH)
        assert seen == {"a-0", "a-1"}
        # A killed node is restarted.
        before = a.children()
        assert sorted(before) == ["a-0", "a-1"]
        os.kill(before["a-1"], signal.SIGKILL)
        until(lambda: a.children().get("a-1", before["a-1"]) != before["a-1"], PATIENCE_S)
        second = f"http://127.0.0.1:{a.port + 3}"
        until(lambda: page_of(f"{second}/health/ready").get("ready"), PATIENCE_S)
        assert asked(f"{second}/t/x", "PUT", {"n": 1}) == 201
        assert a.children()["a-0"] == before["a-0"]
        # A drained node stays down, and no longer listens on the shared port.
        assert asked(f"{second}/core/management", "DELETE") < 300
        until(lambda: sorted(a.children()) == ["a-0"], PATIENCE_S)
        assert {page_of(f"{shared}/core/management")["id"] for _ in range(20)} == {"a-0"}
        assert len(a.lines) == 1
        # All nodes end together, and no process is left.
        rest = [*a.children().values(), *b.children().values()]
        for host in (a, b):
            host.process.terminate()
        assert [a.ended(), b.ended()] == [0, 0]
        assert not any(Path(f"/proc/{pid}").exists() for pid in rest)


@pytest.mark.thorough
def test_a_second_machine_joins_although_one_of_its_nodes_is_killed(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path / "first") as group, ExitStack() as stack:
        seen = f"{group.urls[0]}/core/node-groups/default"
        host = Host("b", tmp_path, free_ports(3 * EACH), ["--join", group.urls[1]])
        stack.callback(host.ended)
        stack.callback(host.process.terminate)
        until(lambda: "b" in {each["zone"] for each in members(seen)}, PATIENCE_S)
        [joining] = [each["id"] for each in members(seen) if each["zone"] == "b"]
        before = host.children()[joining]
        os.kill(before, signal.SIGKILL)
        until(lambda: host.children().get(joining, before) != before, PATIENCE_S)
        until(lambda: host.lines, PATIENCE_S)
        assert host.lines == [f"docstore b serves at {host.url} http://127.0.0.1:{host.port + 3}"]
        until(lambda: page_of(seen)["configuration"]["stage"] == "stable", PATIENCE_S)
        roles = {each["id"]: each["role"] for each in members(seen)}
        assert roles == dict.fromkeys(["b-0", "b-1", "n1", "n2", "n3"], "voter")
        for url in (host.url, f"http://127.0.0.1:{host.port + 3}"):
            until(lambda url=url: page_of(f"{url}/health/ready").get("ready"), PATIENCE_S)
        lines = host.logged.read_text().splitlines()
        lines.remove(f"docstore: {joining} ended with -9, and is started again")
        assert {json.loads(line)["node"] for line in lines} == {"b-0", "b-1"}


def members(page: str) -> list[dict[str, Any]]:
    """Return the members of the configuration that a group's page shows."""
    found: list[dict[str, Any]] = page_of(page)["configuration"]["members"]
    return found


def test_a_failed_start_ends_all_nodes_with_its_exit_code(tmp_path: Path) -> None:
    with socket.socket() as taken:
        first = free_ports(3 * EACH)
        taken.bind(("127.0.0.1", first + 3))
        taken.listen()
        host = Host("x", tmp_path, first)
        assert host.ended() == 2
    assert host.lines == []
    assert "docstore: x-1 ended with 2, and is not started again" in host.logged.read_text()


@pytest.mark.thorough
def test_a_node_with_a_damaged_disk_stays_down(tmp_path: Path) -> None:
    first = free_ports(9)
    host = Host("x", tmp_path, first, count=3)
    until(lambda: host.lines, PATIENCE_S)
    host.process.terminate()
    assert host.ended() == 0
    (tmp_path / "x" / "1" / "damaged").write_text("by a test\n")
    host = Host("x", tmp_path, first, count=3)
    until(lambda: host.lines, PATIENCE_S)
    assert host.lines == [f"docstore x serves at {host.url} http://127.0.0.1:{first + 6}"]
    assert sorted(host.children()) == ["x-0", "x-2"]
    host.process.terminate()
    assert host.ended() == 74


def test_nodes_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    host = Host("x", tmp_path, free_ports(3 * EACH))
    until(lambda: host.lines, PATIENCE_S)
    children = host.children().values()
    host.process.kill()
    host.ended()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), PATIENCE_S)
