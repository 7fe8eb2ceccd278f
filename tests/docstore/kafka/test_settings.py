"""The settings of the listener: addresses, TLS, a missing library, a used port."""

import asyncio
import contextlib
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from docstore.cli.several_settings import settings_of_each
from docstore.client.local import LocalCluster
from docstore.config import parse
from docstore.errors import BadConfig
from docstore.node.node import Node
from tests.docstore.kafka.wire import API_VERSIONS, Wire
from tests.docstore.runtime.tls.papers import group_of
from tests.fork_server import SERVER


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({}, None),
        ({"kafka_listen": "127.0.0.1:9"}, ("127.0.0.1:9", "127.0.0.1:9")),
        ({"kafka_listen": "127.0.0.1:9", "kafka_advertise": "k:7"}, ("127.0.0.1:9", "k:7")),
        (
            {"kafka_listen": "0.0.0.0:9", "advertise": "db.lan:80", "insecure": True},
            ("0.0.0.0:9", "db.lan:9"),
        ),
    ],
)
def test_the_listener_is_advertised_like_the_other_ports(
    settings: dict[str, object], addresses: tuple[str, str] | None
) -> None:
    found = parse({"data": "d"} | settings).kafka
    assert (tuple(map(str, found)) if found else None) == addresses


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"kafka_listen": "9092"}, "kafka_listen: '9092' is not HOST:PORT"),
        ({"kafka_listen": "0.0.0.0:9092"}, "kafka_listen: plain text beyond loopback"),
        ({"kafka_advertise": "h:1"}, "kafka_advertise: .* set kafka_listen, too"),
        ({"kafka_listen": "127.0.0.1:9", "kafka_advertise": "0.0.0.0:9"}, "is a wildcard"),
    ],
)
def test_wrong_addresses_are_refused(settings: dict[str, object], named: str) -> None:
    with pytest.raises(BadConfig, match=named):
        parse({"data": "d"} | settings)


def test_each_of_several_nodes_has_its_own_kafka_port() -> None:
    nodes = settings_of_each({"node_id": "x", "data": "d", "kafka_listen": "127.0.0.1:9092"}, 3)
    assert [each["kafka_listen"] for each in nodes] == [
        "127.0.0.1:9092", "127.0.0.1:9095", "127.0.0.1:9098",
    ]  # fmt: skip


async def test_without_the_library_the_start_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith(("docstore.kafka", "kio"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kio", None)
    node = Node(parse({"data": str(tmp_path), "kafka_listen": "127.0.0.1:9"}))
    with pytest.raises(BadConfig, match=r"kafka_listen: kio.* pip install 'docstore\[kafka\]'"):
        await node.start()
    await node.stop()


def test_a_used_port_ends_the_start(tmp_path: Path) -> None:
    [node] = LocalCluster(1, tmp_path).nodes
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = SERVER.run(
            "serve", "--data", str(tmp_path), "--listen", node.url.partition("://")[2],
            "--kafka-listen", at,
        )  # fmt: skip
    assert ended.returncode == 2
    assert "cannot start" in ended.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return group_of(tmp_path_factory.mktemp("papers"), ("n1",))


@pytest.fixture(scope="module")
def encrypted(port: int, papers: Path) -> Iterator[LocalCluster]:
    settings = ("--kafka-listen", f"127.0.0.1:{port}")
    with LocalCluster(1, settings=settings, certs=papers) as nodes:
        yield nodes


async def test_the_listener_speaks_tls_with_the_nodes_certificate(
    encrypted: LocalCluster, port: int
) -> None:
    context: Any = encrypted.ssl
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    wire = Wire(reader, writer)
    for _ in range(3):
        assert (await wire.ask(API_VERSIONS, 0)).error_code == ErrorCode.none
    writer.close()
    with contextlib.suppress(ssl.SSLError):
        await writer.wait_closed()
    plain = Wire(*await asyncio.open_connection("127.0.0.1", port))
    plain.send(API_VERSIONS, 0)
    assert await plain.is_closed()
    plain.writer.close()
