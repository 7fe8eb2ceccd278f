"""No request fails while three real nodes get new certificates, or another CA."""

import asyncio
import signal
from pathlib import Path
from typing import Self

import pytest

from docstore.client import LocalCluster
from docstore.client.local import LocalNode
from docstore.runtime.tls.authority import make_certificate
from tests.docstore.runtime.tls.nodes import client_of, declared, peer_address, until
from tests.docstore.runtime.tls.papers import HOSTS, group_of, serial_of

JSON = {"Content-Type": "application/json"}


class Writers:
    """A writer at each node while the block lasts; none of their requests may fail."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._is_over = False
        self._written = 0
        self._failures: list[Exception] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._write(node)) for node in self._cluster.nodes]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)
        assert self._failures == []

    async def _write(self, node: LocalNode) -> None:
        async with client_of(self._cluster, node) as client:
            while not self._is_over:
                link = f"/notes/{node.name}-{self._written}"
                try:
                    await client.once(node.url, "PUT", link, b"{}", JSON, timeout_s=10)
                except Exception as error:  # noqa: BLE001 - whatever it is, it has failed
                    self._failures.append(error)
                self._written += 1

    async def write_more(self, count: int) -> None:
        """Return when they have written `count` documents more."""
        enough = self._written + count

        async def is_enough() -> bool:
            return self._written >= enough

        await until(is_enough)


async def believed(cluster: LocalCluster, file: Path, cas: bytes) -> None:
    """Write a file of CAs; return when all nodes have read it."""

    def reloads() -> list[int]:
        logs = [(node.data / "log.txt").read_text() for node in cluster.nodes]
        return [log.count("certificates are reloaded") for log in logs]

    before = reloads()
    await asyncio.to_thread(file.write_bytes, cas)

    async def by_all() -> bool:
        return all(now > was for now, was in zip(reloads(), before, strict=True))

    await until(by_all)


async def all_show(cluster: LocalCluster, papers: Path) -> bool:
    """Say whether each node shows clients its certificate among the papers."""
    shown = [await shown_by(cluster, node) for node in cluster.nodes]
    return shown == [int(serial_of(papers, node.name), 16) for node in cluster.nodes]


async def shown_by(cluster: LocalCluster, node: LocalNode) -> int:
    """Return the serial number of the certificate that a node shows clients."""
    host, port = peer_address(node)
    _, writer = await asyncio.open_connection(host, port - 1, ssl=cluster.ssl)
    serial = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
    writer.transport.abort()
    return int(serial, 16)


@pytest.mark.thorough  # The other CA below renews as well.
async def test_new_certificates_fail_no_request(tmp_path: Path) -> None:
    papers = group_of(tmp_path / "papers")
    with LocalCluster(3, tmp_path, certs=papers) as cluster:
        await declared(cluster)
        async with Writers(cluster) as writers:
            await writers.write_more(20)
            for node in cluster.nodes:
                make_certificate(papers, [node.name], HOSTS, 30)
            assert cluster.nodes[0].process is not None
            cluster.nodes[0].process.send_signal(signal.SIGHUP)
            await until(lambda: all_show(cluster, papers))
            await writers.write_more(100)


@pytest.mark.thorough
async def test_another_ca_fails_no_request(tmp_path: Path) -> None:
    papers, others = group_of(tmp_path / "papers"), group_of(tmp_path / "others")
    old, new = ((each / "ca.pem").read_bytes() for each in (papers, others))
    with LocalCluster(3, tmp_path, certs=papers) as cluster:
        assert cluster.ssl is not None
        cluster.ssl.load_verify_locations(others / "ca.pem")
        await declared(cluster)
        async with Writers(cluster) as writers:
            await believed(cluster, papers / "ca.pem", old + new)
            for node in cluster.nodes:
                for name in (f"{node.name}.pem", f"{node.name}-key.pem"):
                    (papers / name).write_bytes((others / name).read_bytes())
            await until(lambda: all_show(cluster, others))
            await writers.write_more(100)
            await believed(cluster, papers / "ca.pem", new)
            await writers.write_more(300)
        logs = "".join((node.data / "log.txt").read_text() for node in cluster.nodes)
        assert "is no longer trusted" in logs
