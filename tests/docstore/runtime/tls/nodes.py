"""Helpers of tests of real nodes with TLS: clients, addresses, waits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from docstore.client import Client, LocalCluster
from docstore.client.local import LocalNode

SOON_S = 30.0


@asynccontextmanager
async def client_of(cluster: LocalCluster, *nodes: LocalNode) -> AsyncIterator[Client]:
    urls = [node.url for node in nodes] or cluster.urls
    async with Client(urls, ssl=cluster.ssl) as client:
        yield client


async def until(holds: Callable[[], Awaitable[bool]], timeout_s: float = SOON_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not await holds():
            await asyncio.sleep(0.05)


def peer_address(node: LocalNode) -> tuple[str, int]:
    host, _, port = node.url.partition("://")[2].partition(":")
    return host, int(port) + 1


async def metric(cluster: LocalCluster, node: LocalNode, name: str) -> float:
    async with client_of(cluster, node) as client:
        _, _, text = await client.request("GET", "/metrics")
    lines = [line.split() for line in text.decode().splitlines()]
    return next((float(line[1]) for line in lines if line[0] == name), 0.0)


async def declared(cluster: LocalCluster) -> None:
    async with client_of(cluster) as client:
        await client.declare("/notes")
