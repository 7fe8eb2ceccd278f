"""A refused start prints one line, and has the exit code of a wrong setting."""

import json
import socket
import subprocess
from pathlib import Path

import pytest

from docstore.client import LocalCluster
from tests.fork_server import SERVER


def _serve(*flags: str) -> subprocess.CompletedProcess[str]:
    return SERVER.run("serve", *flags)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--data", "{tmp}", "--slots", "1000"], "slots"),
        (["--data", "{tmp}", "--listen", "nowhere"], "listen"),
        (["--data", "{tmp}", "--listen", "0.0.0.0:8001"], "--insecure"),
        (["--data", "{tmp}", "--node-id", "x", "--bootstrap", "a=http://127.0.0.1:1"], "node_id"),
        (["--data", "/proc/nowhere"], "data"),
        (["--data", "{tmp}", "--gossip-key-file", "/nowhere.key"], "gossip_key_file"),
        (["--data", "{tmp}", "--token-file", "/nowhere.token"], "token_file"),
        (["--data", "{tmp}", "--token-file", "/dev/null"], "the file is empty"),
        (["--config", "/nowhere.toml"], "config"),
        (["--data", "{tmp}", "--zone", "z" * 480], "zone"),
        (["--data", "{tmp}", "--node-id", ""], "node_id"),
        (["--data", "{tmp}", "--service", "nowhere:Nothing"], "service: nowhere:Nothing"),
    ],
)
def test_a_wrong_setting_ends_the_start_in_one_line(
    tmp_path: Path, flags: list[str], named: str
) -> None:
    ended = _serve(*(flag.replace("{tmp}", str(tmp_path)) for flag in flags))
    assert ended.returncode == 2
    assert named in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_the_line_is_json_where_the_log_is(tmp_path: Path) -> None:
    for flags in (["--data", str(tmp_path), "--slots", "1000"], ["--nonsense"]):
        ended = _serve("--log=json", *flags)
        [line] = map(json.loads, ended.stderr.splitlines())
        assert (ended.returncode, line["event"]) == (2, "this process ends")
        assert flags[-1].removeprefix("--") in line["why"]


@pytest.mark.parametrize("nth", [0, 1, 2], ids=["clients", "peers", "gossip"])
def test_a_port_that_is_taken_ends_the_start_in_one_line(tmp_path: Path, nth: int) -> None:
    [node] = LocalCluster(1, tmp_path).nodes  # Its ports were free just now.
    host, _, port = node.url.removeprefix("http://").partition(":")
    with socket.create_server((host, int(port) + nth)):
        ended = _serve("--data", str(tmp_path), "--listen", f"{host}:{port}")
    assert ended.returncode == 2
    assert ended.stderr.startswith("docstore: cannot start: ")
    assert str(int(port) + nth) in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_a_restart_does_not_change_settings_of_the_founding(tmp_path: Path) -> None:
    founded = ["--slots", "8", "--reads", "lease", "--replication-factor", "1"]
    with LocalCluster(1, tmp_path, founded) as group:
        [node] = group.nodes
    for setting, founded_with in (
        ("--slots=16", "8"), ("--reads=confirm", "lease"), ("--replication-factor=all", "1"),
        ("--points-per-node=1", "128"),
    ):  # fmt: skip
        ended = _serve("--data", str(node.data), "--listen", node.url.split("/")[2], setting)
        assert ended.returncode == 2
        last = ended.stderr.splitlines()[-1]  # The node has started to look at its group by then.
        assert f"founded with {founded_with}, which cannot change" in last
    with LocalCluster(1, tmp_path):
        ended = _serve("--data", str(node.data), "--listen", "127.0.0.1:9")
    assert (ended.returncode, len(ended.stderr.strip().splitlines())) == (2, 1)
    assert "is in use by another process" in ended.stderr
