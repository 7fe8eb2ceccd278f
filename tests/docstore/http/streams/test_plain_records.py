"""Plain requests with records are served without a task, with the same bytes as by a task."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgpack
import pytest

from docstore.config import parse
from docstore.node.node import Node
from tests.docstore.http.wires import UNUSUAL, Wire, asked

READY_S = 20.0
RECORD = b'{"key": "k", "value": 1}'
PACKED = msgpack.packb([b"k", b"1", None, None])
MSGPACK, NDJSON = "application/msgpack", "application/x-ndjson"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Yield a node in this process, with two equal topics, and two without enough replicas."""
    ports = {name: f"127.0.0.1:{free_port()}" for name in ("listen", "peer", "gossip")}
    node = Node(parse({"data": tmp_path, "slots": 4, "log_level": "error", **ports}))
    await node.start()
    try:
        async with asyncio.timeout(READY_S), aiohttp.ClientSession(node.config.url) as session:
            while not node.gate.ready()[0]:
                await asyncio.sleep(0.02)
            for way in range(2):
                topic = {"name": f"way{way}", "partitions": 2, "batchBytesMax": 1024}
                async with session.post("/core/streams", json=topic) as response:
                    assert response.status == 201, await response.text()
                topic = {"name": f"none-way{way}", "replicationFactor": 3}
                async with session.post("/core/streams", json=topic) as response:
                    assert response.status == 202, await response.text()
        yield node
    finally:
        node.drain()
        await node.drained()
        await node.stop()


async def both(node: Node, case: "Case") -> list[bytes]:
    """Return the answers to a plain request at one topic, and to an unusual one at its twin."""
    host, port = node.config.listen_host, node.config.listen_port
    answers = []
    for way, unusual in enumerate(((), (UNUSUAL,))):
        path = f"/core/streams/{case.path.replace('way', f'way{way}')}"
        reader, writer = await asyncio.open_connection(host, port)
        with closing(writer):
            wire = Wire(reader, writer)
            await wire.ask(asked("POST", path, UNUSUAL, body=b""))  # The node learns the topic.
            request = asked("POST", path, *case.lines, *unusual, body=case.body, media=case.media)
            answer = await wire.ask(request)
        answers.append(answer.replace(b"way%d" % way, b"way"))
    assert answers[0].startswith(b"HTTP/1.1 %d " % case.status), answers[0]
    return answers


class Case(NamedTuple):
    path: str
    lines: tuple[bytes, ...] = ()
    body: bytes = RECORD
    media: str | None = None
    status: int = 200


ONE = "way/partitions/1/records"
NUMBERED = b"Docstore-Producer: p; epoch=1; sequence=0\r\n"


CASES = [
    Case(ONE),
    Case("way/records"),
    Case(ONE, (b"Docstore-Timeout-Ms: 5000\r\n", b"User-Agent: x\r\n")),
    Case(ONE, body=PACKED * 2, media=MSGPACK),
    Case("way/records", body=PACKED, media=MSGPACK),
    Case(ONE, body=RECORD + b"\n" + RECORD, media=NDJSON),
    Case("way/records", body=b'{"records": [{"key": "a", "value": 1}, {"key": "b", "value": 2},'
         b' {"key": "c", "value": 3}]}'),
    Case(ONE, (NUMBERED,)),
    Case(ONE, (NUMBERED.replace(b"=0", b"=5"),), status=409),
    Case(ONE, (b"Docstore-Producer: p\r\n",), status=400),
    Case("way/records", (NUMBERED,), status=400),
    Case(ONE, (b"Docstore-Timeout-Ms: x\r\n",), status=400),
    Case(ONE, body=b"{", status=400),
    Case(ONE, body=b"", status=400),
    Case(ONE, body=PACKED[:-1], media=MSGPACK, status=400),
    Case(ONE, body=RECORD, media="text/plain", status=415),
    Case(ONE, body=b'{"value": "%b"}' % (b"x" * 2000), status=413),
    Case(ONE, body=b'{"value": 1, "partition": 0}', status=400),
    Case("none-way/records", status=503),
    Case("none-way/partitions/0/records", body=PACKED, media=MSGPACK, status=503),
]  # fmt: skip


async def test_both_ways_give_the_same_bytes(node: Node, plain: list[str]) -> None:
    for case in CASES:
        answers = await both(node, case)
        assert answers[0] == answers[1]
    paths = [case.path.replace("way", "way0") for case in CASES]
    assert plain == [f"POST /core/streams/{path}" for path in paths]


RARE = [
    Case(f"{ONE}?acks=leader"),
    Case(ONE, (b'If-Match: "1.0"\r\n',), status=400),
    Case(ONE, (b"Idempotency-Key: k\r\n",), status=400),
    Case("way/partitions/7/records", status=404),
    Case("way/partitions/01/records", status=404),
    Case("other-way/records", status=404),
    Case("way/partitions/1", status=405),
]


async def test_a_rare_request_is_served_by_a_task(node: Node, plain: list[str]) -> None:
    for case in RARE:
        answers = await both(node, case)
        assert answers[0] == answers[1]
    assert not plain


async def test_a_repeated_request_is_recognised_by_both_ways(node: Node, plain: list[str]) -> None:
    for _ in range(2):
        answers = await both(node, Case(ONE, (NUMBERED,)))
    assert answers[0] == answers[1]
    assert b'"repeated":true' in answers[0]
    assert len(plain) == 2
