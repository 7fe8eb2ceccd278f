"""Real nodes that bind every address of the machine, and say at which they are reached."""

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from docstore.cli.status import read_status, show_status
from docstore.client import Client, LocalCluster
from docstore.client.local import LocalNode
from tests.docstore.watching import page_of, until

GROUP = "/core/node-groups/default"


def bound(node: LocalNode, *, peer: int, gossip: int) -> tuple[str, ...]:
    """Return flags that bind the node's ports everywhere, two of them so far behind HTTP's."""
    port = int(node.url.rpartition(":")[2])
    return (
        "--listen", f"0.0.0.0:{port}", "--advertise", f"127.0.0.1:{port}",
        "--peer", f"0.0.0.0:{port + peer}", "--gossip", f"0.0.0.0:{port + gossip}",
        "--insecure", "--gossip-preset", "loopback",
    )  # fmt: skip


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three nodes in two zones, with ports that cannot be guessed from each other."""
    group = LocalCluster(3, tmp_path)
    for node, zone in zip(group.nodes, "aab", strict=True):
        node.flags += (*bound(node, peer=2, gossip=1), "--zone", zone)
    with group:
        yield group


def settled(cluster: LocalCluster) -> bool:
    """Say whether every node is linked to all members, and hears them by gossip."""
    pages = [page_of(f"{node.url}{GROUP}") for node in cluster.nodes]
    return all(
        page.get("convergence") == "CONVERGED"
        and [each["status"] for each in page["members"]] == ["ALIVE"] * len(pages)
        and page["configuration"]["stage"] == "stable"
        for page in pages
    )


@pytest.mark.thorough
async def test_nodes_behind_wildcards_form_a_group_and_may_move(cluster: LocalCluster) -> None:
    first, *_ = cluster.nodes
    async with Client([first.url]) as store:
        await store.declare("/notes")
        await store.put("/notes/a", {"a": 1})
    warning = "zone a holds 2 of the 3 voters: while those are lost, the members cannot be changed"
    assert page_of(f"{first.url}{GROUP}")["warnings"] == [warning]
    out = Console(file=io.StringIO(), width=120)
    async with Client([first.url]) as store:
        show_status(await read_status(store), out)
    assert f"warning: {warning}" in out.file.getvalue()  # type: ignore[attr-defined]
    newcomer = cluster.prepare()
    newcomer.name = "n_4"
    newcomer.flags += bound(newcomer, peer=2, gossip=1)
    cluster.start(newcomer)
    await asyncio.to_thread(until, lambda: settled(cluster), 30.0)
    page = page_of(f"{first.url}{GROUP}")
    assert [each["address"] for each in page["members"]] == cluster.urls
    assert [each["address"] for each in page["configuration"]["members"]] == cluster.urls
    # One node comes back with other ports, then all at once, with the addresses on their disks.
    for moving in ([newcomer], cluster.nodes):
        for node in moving:
            cluster.kill(node)
            node.flags = bound(node, peer=1, gossip=2)
        for node in moving:
            cluster.start(node)
        await asyncio.to_thread(cluster.wait_ready)
        await asyncio.to_thread(until, lambda: settled(cluster), 30.0)
        for node in cluster.nodes:
            async with Client([node.url]) as store:
                assert (await store.get("/notes/a")).value["a"] == 1
