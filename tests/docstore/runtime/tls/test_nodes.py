"""Three real nodes with TLS on all their ports serve clients and peers, but no strangers."""

import asyncio
import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.client import LocalCluster
from docstore.client.blocking import Client as BlockingClient
from docstore.runtime.tls.authority import make_certificate
from docstore.wire.frames import pack_hello
from tests.docstore.runtime.tls.nodes import (
    SOON_S,
    client_of,
    declared,
    metric,
    peer_address,
    until,
)
from tests.docstore.runtime.tls.papers import (
    EXPIRED_DAYS,
    HOSTS,
    believing,
    group_of,
    settings_of,
    showing,
)
from tests.docstore.runtime.tls.test_links import hello_of
from tests.docstore.watching import until as wait
from tests.fork_server import SERVER

GROUP = "/core/node-groups/default"
OUT_S = 5.0
TRIES = 300


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = group_of(tmp_path_factory.mktemp("papers"), ("n1", "n2", "n3", "n4"))
    (directory / "revoked").write_text("")
    (directory / "gossip.keys").write_text(base64.b64encode(os.urandom(32)).decode() + "\n")
    return directory


@pytest.fixture(scope="module")
def cluster(papers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = (
        "--tls-revoked-file", str(papers / "revoked"),
        "--gossip-key-file", str(papers / "gossip.keys"),
    )  # fmt: skip
    with LocalCluster(3, tmp_path_factory.mktemp("nodes"), settings, certs=papers) as group:
        with BlockingClient(group.urls, ssl=group.ssl) as store, store.lease(ttl_s=60.0) as lease:
            asyncio.run(declared(group))
            yield group
            assert lease.held()
        for node in group.nodes:
            assert "Traceback" not in (node.data / "log.txt").read_text()


async def test_nodes_with_tls_replicate_and_survive_a_lost_node(cluster: LocalCluster) -> None:
    first, second, third = cluster.nodes
    async with client_of(cluster) as client:
        await client.put("/notes/a", {"a": 1})
        await client.json("POST", "/core/streams", {"name": "t", "partitions": 2})
        async with client.producer("t") as producer:
            for number in range(20):
                await producer.send(str(number), {"n": number})
        page = await client.json("GET", GROUP)
    assert [each["address"] for each in page["members"]] == cluster.urls
    assert [each["address"] for each in page["configuration"]["members"]] == cluster.urls
    cluster.kill(third)
    async with client_of(cluster, first, second) as client:
        for number in range(30):
            await client.put(f"/notes/{number}", {"a": number})
        records = [each async for each in client.consume("t", follow=False)]
        assert len(records) == 20
    cluster.start(third)
    await asyncio.to_thread(cluster.wait_ready)
    async with client_of(cluster, third) as client:
        assert (await client.get("/notes/29")).value["a"] == 29
    for node in cluster.nodes:
        assert await metric(cluster, node, "docstore_tls_expires_seconds") > time.time()


async def test_a_node_joins_and_leaves_over_https(cluster: LocalCluster) -> None:
    newcomer = cluster.add()

    async def is_in() -> bool:
        async with client_of(cluster, cluster.nodes[0]) as client:
            page = (await client.json("GET", GROUP))["configuration"]
        return page["stage"] == "stable" and len(page["members"]) == 4

    await until(is_in, 60.0)
    await asyncio.to_thread(cluster.wait_ready)
    code, out, errors = docstore("leave", "--url", newcomer.url, cacert=cluster_ca(cluster))
    assert (code, errors) == (0, ""), out
    assert newcomer.process is not None
    await asyncio.to_thread(newcomer.process.wait, 20)
    cluster.nodes.remove(newcomer)


def cluster_ca(cluster: LocalCluster) -> Path:
    assert cluster._certs is not None
    return cluster._certs / "ca.pem"


def docstore(*arguments: str, cacert: Path | None = None) -> tuple[int, str, str]:
    """Run a command, with a CA to trust by its option."""
    more = ["--cacert", str(cacert)] if cacert else []
    ended = SERVER.run(*arguments, *more)
    return ended.returncode, ended.stdout, ended.stderr


def test_commands_trust_a_given_ca(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    url, ca = cluster.nodes[0].url, cluster_ca(cluster)
    code, out, _ = docstore("status", "--json", "--url", url, cacert=ca)
    assert code == 0
    pages = json.loads(out)["nodes"]
    assert all(pages[node.name]["ready"] for node in cluster.nodes)
    code, out, errors = docstore("ls", "/nothing", "--url", url)
    assert (code, out) == (1, "")
    assert "its certificate is not believed: " in errors
    assert len(errors.splitlines()) == 1
    code, _, errors = docstore("ls", "--url", url.replace("https", "http"))
    assert code == 1
    assert "this port speaks TLS: its URLs begin with https://" in errors
    assert docstore("ls", "--url", url, cacert=ca.with_name("none"))[0] == 2
    assert docstore("ls", "--url", url, cacert=ca.with_name("revoked"))[0] == 1
    monkeypatch.setenv("DOCSTORE_CACERT", str(ca))
    assert docstore("ls", "--url", url)[0] == 0


def test_commands_trust_the_cas_of_the_system(cluster: LocalCluster) -> None:
    """Run them in new processes, as the process that forks other commands has read the CAs."""
    command = (sys.executable, "-m", "docstore", "status", "--url", cluster.nodes[0].url)
    for believed, code in ((str(cluster_ca(cluster)), 0), (os.devnull, 1)):
        environment = os.environ | {"SSL_CERT_FILE": believed}
        assert subprocess.run(command, env=environment, check=False).returncode == code


def test_jobs_trust_a_given_ca(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    group = pytest.importorskip("docstore.pipeline.group_client")
    monkeypatch.setenv("DOCSTORE_CACERT", str(cluster_ca(cluster)))
    nodes = group.GroupClient(cluster.urls)
    page = nodes.json("GET", GROUP)
    assert [each["address"] for each in page["configuration"]["members"]] == cluster.urls
    [kept] = group._idle[os.getpid(), cluster.urls[0]]
    nodes.json("GET", GROUP)
    assert group._idle[os.getpid(), cluster.urls[0]] == [kept]  # It was used again.
    kept.close()
    del group._idle[os.getpid(), cluster.urls[0]]
    monkeypatch.setenv("DOCSTORE_CACERT", "")
    with pytest.raises(OSError, match="certificate verify failed"):
        group.GroupClient(cluster.urls, retries=0).json("GET", GROUP)


def tried(address: tuple[str, int], tls: ssl.SSLContext | None, said: bytes) -> bytes:
    """Return the answer of a port."""
    answer = b""
    try:
        plain = socket.create_connection(address, timeout=SOON_S)
        with plain, tls.wrap_socket(plain) if tls else plain as wire:
            wire.sendall(said)
            while more := wire.recv(1 << 16):
                answer += more
    except OSError:
        pass
    return answer


async def test_strangers_at_the_port_of_nodes_get_no_answer(
    cluster: LocalCluster, papers: Path, tmp_path: Path
) -> None:
    node = cluster.nodes[1]
    foreign = showing(group_of(tmp_path), "n1")
    uncertified = believing(papers)
    for each in (foreign, uncertified):
        each.check_hostname, each.verify_mode = False, ssl.CERT_NONE
    said = pack_hello(hello_of("n1", "n2"))
    name = "docstore_peer_certificates_refused_total"
    before = await metric(cluster, node, name)
    log = node.data / "log.txt"
    begun, lines_before = time.monotonic(), log.read_text().count("turned away")
    kinds = (None, uncertified, foreign, showing(papers, "n4"))
    for number in range(TRIES):
        tls = kinds[number % len(kinds)]
        assert await asyncio.to_thread(tried, peer_address(node), tls, said) == b""

    async def all_counted() -> bool:
        return await metric(cluster, node, name) >= before + TRIES

    await until(all_counted)
    lines = log.read_text().count("turned away") - lines_before
    assert 1 <= lines <= time.monotonic() - begun + 2
    async with client_of(cluster, node) as client:
        await client.put("/notes/after", {"a": 1})


async def test_plain_text_at_the_clients_port_gets_400(cluster: LocalCluster) -> None:
    host, port = peer_address(cluster.nodes[0])
    said = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = await asyncio.to_thread(tried, (host, port - 1), None, said)
    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_a_revoked_node_owns_nothing(cluster: LocalCluster, papers: Path) -> None:
    first, second, _ = cluster.nodes
    await asyncio.to_thread(cluster.wait_ready)
    (papers / "revoked").write_text("spiffe://cluster/films/node/n3\n")

    async def are_without_it() -> bool:
        pages = []
        for node in (first, second):
            async with client_of(cluster, node) as client:
                pages.append(await client.json("GET", "/core/node-selectors/default"))
        return all(page["shares"].get("n3", {}).get("owned", 0) == 0 for page in pages)

    await until(are_without_it, 4 * OUT_S)
    assert await metric(cluster, first, "docstore_peer_certificates_refused_total") > 0
    async with client_of(cluster, first, second) as client:
        for number in range(10):
            await client.put(f"/notes/without-{number}", {"a": number})
    assert "has been revoked" in (first.data / "log.txt").read_text()


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"tls_cert_file": "/nowhere.pem"}, "tls_cert_file: /nowhere.pem: No such file"),
        ({"tls_ca_file": "/nowhere.pem"}, "tls_ca_file: /nowhere.pem: No such file"),
        ({"node_id": "n2"}, "names spiffe://cluster/films/node/n1, not n2"),
        ({"late": True}, "expired on"),
    ],
)
def test_a_start_with_unusable_certificates_is_one_line(
    tmp_path: Path, changed: dict[str, object], error: str
) -> None:
    papers = group_of(tmp_path / "papers", ["n1"])
    if changed.pop("late", False):
        make_certificate(papers, ["n1"], HOSTS, EXPIRED_DAYS)
    settings = {"data": tmp_path / "data", "node_id": "n1", **settings_of(papers, "n1"), **changed}
    [node] = LocalCluster(1, tmp_path).nodes  # For its ports: they were free just now.
    settings["listen"] = node.url.partition("://")[2]
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in settings.items()]
    code, _, errors = docstore("serve", *flags)
    assert code == 2
    assert error in errors
    assert len(errors.splitlines()) == 1


def test_nodes_of_one_machine_share_a_certificate_and_reload_it(tmp_path: Path) -> None:
    papers = group_of(tmp_path / "papers", [])
    make_certificate(papers, ["a-0", "a-1"], HOSTS, 30)
    [first] = LocalCluster(1, tmp_path).nodes  # For its ports: they were free just now.
    settings = {"data": tmp_path / "data", "node_id": "a", **settings_of(papers, "a-0")}
    settings["listen"] = first.url.partition("://")[2]
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in settings.items()]
    log = tmp_path / "log.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "docstore", "serve", "--processes", "2", *flags],
            stdout=out, stderr=out,
        )  # fmt: skip
    try:
        wait(lambda: "docstore a serves at https://" in log.read_text(), 60)
        process.send_signal(signal.SIGHUP)
        wait(lambda: log.read_text().count("certificates are reloaded") >= 2)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
