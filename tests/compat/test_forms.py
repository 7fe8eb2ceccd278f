"""A group goes over to what a later version stores once all of its nodes read it, not before.

The later version is this one, told that there is a protocol more, which has added to rows.
"""

import asyncio
import json
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstore.client import Client, RequestFailed
from docstore.client.local import LocalCluster, LocalNode
from docstore.node.damage import EXIT_DISK_FAILED
from docstore.ownership.configuration import EXTENDED, FIRST_PROTOCOL
from docstore.wire.link_messages import PROTOCOL
from tests.compat.test_rolling import PRESENT, restart
from tests.docstore.access.tokens import digest

MAKER = "documentAuthPrincipalLink"

LATER = (
    "-c",
    f"""
from docstore.wire import link_messages as wire
wire.PROTOCOL = {PROTOCOL + 1}
from docstore.documents.membership import stored_forms
stored_forms.FORMS = ({PROTOCOL + 1},)
from docstore.__main__ import main
main()
""",
)


EARLIER = (
    "-c",
    f"""
from docstore.wire import link_messages as wire
wire.PROTOCOL = {EXTENDED - 1}
from docstore.__main__ import main
main()
""",
)
"""This version, told that it knows of no keys."""


def page_of(node: LocalNode) -> dict[str, Any]:
    with urllib.request.urlopen(f"{node.url}/core/node-groups/default", timeout=5) as answer:
        page: dict[str, Any] = json.load(answer)
    return page


def stored(cluster: LocalCluster) -> list[int]:
    return [page_of(node)["configuration"]["storedProtocol"] for node in cluster.nodes]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(0.05)


def ended(node: LocalNode, how: int = 0) -> int:
    """Return how a node ended, of itself or by a signal."""
    assert node.process is not None
    node.process.send_signal(how)
    code = node.process.wait(20.0)
    node.process = None
    return code


def log_of(node: LocalNode) -> str:
    return (node.data / "log.txt").read_text()


@pytest.mark.thorough
async def test_the_group_goes_over_when_the_last_node_reads_it(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, ["--slots", "16"]) as cluster:
        async with Client(cluster.urls) as client:
            await client.declare("/notes")
            for node in cluster.nodes:
                assert stored(cluster) == [FIRST_PROTOCOL] * 3
                await asyncio.to_thread(restart, cluster, node, LATER)
                await client.put("/notes/a", {"by": node.name})
            await until(lambda: stored(cluster) == [PROTOCOL + 1] * 3)
            await client.put("/notes/a", {"by": "all"})
            # Back again: not with this disk, and nobody of the version before is taken in.
            first = cluster.nodes[0]
            assert await asyncio.to_thread(ended, first, signal.SIGTERM) == 0
            first.command = PRESENT
            cluster.start(first)
            assert await asyncio.to_thread(ended, first) == EXIT_DISK_FAILED
            why = f"what protocol {PROTOCOL + 1} has added, and this version reads up to {PROTOCOL}"
            assert why in first.last_words()
            newcomer = cluster.prepare()
            cluster.start(newcomer)
            why = f"it speaks protocol {PROTOCOL}, the group stores what {PROTOCOL + 1} has added"
            await until(lambda: why in log_of(newcomer))
            assert (await client.get("/notes/a")).value["by"] == "all"


@pytest.mark.thorough
async def test_keys_wait_for_the_last_member_and_close_the_way_back(tmp_path: Path) -> None:
    cluster = LocalCluster(3, tmp_path, ["--slots", "16"])
    for node in cluster.nodes:
        node.command = EARLIER
    with cluster:
        async with Client(cluster.urls) as client:
            await client.declare("/notes")
            for node in cluster.nodes:
                with pytest.raises(RequestFailed) as refused:
                    async with Client([cluster.nodes[0].url]) as first:
                        await first.declare("/orders:")
                assert (refused.value.status, refused.value.code) == (409, "earlier-version")
                await asyncio.to_thread(restart, cluster, node, PRESENT)
            assert stored(cluster) == [FIRST_PROTOCOL] * 3
            lines = [{"link": f"/orders:/42~{n}", "body": {"n": n}} for n in range(3)]
            await client.declare("/orders:")
            assert [each["status"] for each in await client.atomic(lines)] == [201] * 3
            assert stored(cluster) == [EXTENDED] * 3
            first_node = cluster.nodes[0]
            assert await asyncio.to_thread(ended, first_node, signal.SIGTERM) == 0
            first_node.command = EARLIER
            cluster.start(first_node)
            assert await asyncio.to_thread(ended, first_node) == EXIT_DISK_FAILED
            first_node.command = PRESENT
            cluster.start(first_node)
            await asyncio.to_thread(cluster.wait_ready)
            assert (await client.get("/orders:/42~1")).value["n"] == 1


@pytest.mark.thorough
async def test_who_made_a_version_waits_for_the_last_member(tmp_path: Path) -> None:
    access = tmp_path / "access.toml"
    access.write_text(
        f'[roles.all]\n"/" = "admin"\n[users.ann]\ntokens = ["{digest("ann")}"]\nroles = ["all"]\n'
    )
    token = tmp_path / "token"
    token.write_text("ann\n")
    settings = ["--slots", "16", "--access-file", str(access), "--token-file", str(token)]
    cluster = LocalCluster(3, tmp_path, settings, token="ann")
    for node in cluster.nodes:
        node.command = EARLIER
    said = []
    with cluster:
        async with Client(cluster.urls, token="ann") as client:
            await client.declare("/notes")
            for node in cluster.nodes:
                said.append(MAKER in (await client.put("/notes/a", {"by": node.name})).value)
                await asyncio.to_thread(restart, cluster, node, PRESENT)
            assert said == [False] * 3
            async with asyncio.timeout(60):
                while MAKER not in (await client.put("/notes/a", {"by": "all"})).value:
                    await asyncio.sleep(0.05)
            assert (await client.get("/notes/a")).value[MAKER] == "/core/access/users/ann"
            assert all(MAKER not in each for each in (await client.history("/notes/a"))[-3:])
