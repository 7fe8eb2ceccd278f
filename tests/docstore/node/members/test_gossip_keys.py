"""Three real nodes whose gossip is encrypted: the keys change while clients write."""

import asyncio
import base64
import json
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from docstore.client.local import LocalNode
from gossip import wire
from gossip.messages import Ping
from gossip.security.key_file import KeyFile
from gossip.security.seal import Seal
from tests.docstore.node.members.test_group import GROUP, Writers, declared
from tests.docstore.watching import metrics, page_of, until

KEYS = f"{GROUP}/gossip-keys"
FIRST = bytes(range(32))
SOON_S = 20.0


def file_of(node: LocalNode) -> Path:
    return node.data.parent / f"{node.name}-keys" / "gossip.keys"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes, each with a key file of its own."""
    group = LocalCluster(3, tmp_path_factory.mktemp("nodes"), ("--slots", "32"))
    for node in group.nodes:
        file_of(node).parent.mkdir()
        file_of(node).write_text(f"# the first key\n{base64.b64encode(FIRST).decode()}\n")
        node.flags += ("--gossip-key-file", str(file_of(node)))
    with group:
        yield group


def run(cluster: LocalCluster, *arguments: str, node: int = 0) -> tuple[int, str, str]:
    """Run `docstore gossip-key`; return its exit code, output and errors."""
    done = subprocess.run(
        [sys.executable, "-m", "docstore", "gossip-key", *arguments,
         "--url", cluster.nodes[node].url],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def rings(cluster: LocalCluster) -> list[list[str]]:
    """Return the keys in the file of each node."""
    return [KeyFile(file_of(node)).ids for node in cluster.nodes]


def all_alive(cluster: LocalCluster) -> bool:
    """Tell whether every node takes all members for alive."""
    pages = [page_of(f"{node.url}{GROUP}") for node in cluster.nodes]
    found: list[Any] = [page.get("members", []) for page in pages]
    return all(len(each) == 3 and {m["status"] for m in each} == {"ALIVE"} for each in found)


async def test_a_rotation_under_writes_fails_none_of_them(cluster: LocalCluster) -> None:
    await declared(cluster)
    before = rings(cluster)
    old = KeyFile(file_of(cluster.nodes[0]))
    writers = Writers(cluster.urls)
    code, output, errors = await asyncio.to_thread(run, cluster, "rotate", "--json", node=1)
    await writers.stop()
    assert (code, writers.refused) == (0, []), errors
    await writers.check(cluster.urls)
    page: Any = json.loads(output)
    assert [page["key"]] not in before
    assert rings(cluster) == [[page["key"]]] * 3 == [each["keys"] for each in page["members"]]
    for node in cluster.nodes:
        text = file_of(node).read_text().strip()
        assert len(base64.b64decode(text)) == 32
        assert text not in output + errors + (node.data / "log.txt").read_text()
        assert stat.S_IMODE(file_of(node).stat().st_mode) == 0o600
        assert [each.name for each in file_of(node).parent.iterdir()] == ["gossip.keys"]
    # A packet of the old key is not opened any more.
    unknown = "docstore_gossip_packets_of_unknown_key_total"
    refused = metrics(cluster.nodes[0]).get(unknown, 0)
    ping = wire.encode_datagram([Ping(1, "n1", "x")])
    page = page_of(f"{cluster.urls[0]}{GROUP}")
    host, port = page["members"][0]["gossip"].split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(Seal(old, "", b"stranger", bytes).seal(ping), (host, int(port)))
    await asyncio.to_thread(
        until, lambda: metrics(cluster.nodes[0]).get(unknown, 0) > refused, SOON_S
    )
    # A restart reads the new key.
    third = cluster.nodes[2]
    await asyncio.to_thread(cluster.kill, third)
    cluster.start(third)
    await asyncio.to_thread(cluster.wait_ready)
    await asyncio.to_thread(until, lambda: all_alive(cluster), SOON_S)


async def test_a_node_that_is_down_stops_each_step_before_it_begins(cluster: LocalCluster) -> None:
    before = rings(cluster)
    third = cluster.nodes[2]
    await asyncio.to_thread(cluster.kill, third)
    for arguments in (["install"], ["use", before[0][0]], ["remove", "00000000"], ["rotate"]):
        code, _, errors = await asyncio.to_thread(run, cluster, *arguments)
        assert code == 1
        assert "no key was changed: n3: " in errors
    code, output, errors = await asyncio.to_thread(run, cluster, "list")
    assert (code, output) == (1, f"{before[0][0]}: installed on n1, n2, in use on n1, n2\n")
    assert errors.startswith("n3: ")
    assert rings(cluster) == before
    cluster.start(third)
    await asyncio.to_thread(cluster.wait_ready)
    await asyncio.to_thread(until, lambda: all_alive(cluster), SOON_S)
    assert (await asyncio.to_thread(run, cluster, "list"))[0] == 0


async def test_a_key_file_that_cannot_be_written_stops_a_step(cluster: LocalCluster) -> None:
    before = rings(cluster)
    home = file_of(cluster.nodes[1]).parent
    away = home.rename(home.with_name("away"))
    code, _, errors = await asyncio.to_thread(run, cluster, "install")
    away.rename(home)
    assert code == 1
    assert f"no key was changed: n2: the key file {home / 'gossip.keys'} cannot be" in errors
    assert rings(cluster) == before
    assert (await asyncio.to_thread(run, cluster, "list"))[0] == 0


async def test_steps_are_taken_in_their_order(cluster: LocalCluster) -> None:
    [first] = rings(cluster)[0]

    async def refused(client: Client, kind: str, key: object) -> RequestFailed:
        with pytest.raises(RequestFailed) as found:
            await client.json("PATCH", KEYS, {"kind": kind, "id": key})
        return found.value

    async with Client(cluster.urls) as client:
        key = (await client.json("PATCH", KEYS, {"kind": "InstallKeyRequest"}))["key"]
        assert rings(cluster) == [[first, key]] * 3
        error = await refused(client, "RemoveKeyRequest", first)
        assert (error.status, "is in use on n1, n2, n3" in str(error)) == (409, True)
        # A member that read an older file lacks the key: no member uses it before all hold it.
        third = cluster.nodes[2]
        await asyncio.to_thread(cluster.kill, third)
        lines = file_of(third).read_text().splitlines()
        file_of(third).write_text(lines[0] + "\n")
        cluster.start(third)
        await asyncio.to_thread(cluster.wait_ready)
        await asyncio.to_thread(until, lambda: all_alive(cluster), SOON_S)
        error = await refused(client, "UseKeyRequest", key)
        assert (error.status, "is not installed on n3;" in str(error)) == (409, True)
        assert rings(cluster) == [[first, key], [first, key], [first]]
        await client.json("PATCH", KEYS, {"kind": "InstallKeyRequest", "id": key})
        page = await client.json("PATCH", KEYS, {"kind": "UseKeyRequest", "id": key})
        assert [each["keys"] for each in page["members"]] == [[key, first]] * 3 == rings(cluster)
        await client.json("PATCH", KEYS, {"kind": "RemoveKeyRequest", "id": first})
        assert rings(cluster) == [[key]] * 3
        assert (await refused(client, "RemoveKeyRequest", first)).status == 409
        for kind, wrong in (("UseKeyRequest", "x"), ("RemoveKeyRequest", 7), ("Rotate", key)):
            assert (await refused(client, kind, wrong)).status == 400


def test_a_command_reports_a_group_without_keys(tmp_path: Path) -> None:
    with LocalCluster(1, tmp_path, ("--slots", "8")) as group:
        assert page_of(f"{group.urls[0]}{KEYS}")["status"] == 409
        code, _, errors = run(group, "rotate")
    assert (code, "gossip is not encrypted" in errors) == (1, True)
