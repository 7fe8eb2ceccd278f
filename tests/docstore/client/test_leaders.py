"""The client and a leader that is dead, unknown or new."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import orjson
import pytest

from docstore.client import Client, RequestFailed
from docstore.model.streams_batch import BatchHeader, seal
from docstore.streams.records import Record, pack

TOPIC = {"batchBytesMax": 1 << 20, "partitions": [{"partition": 0, "leader": "gone"}]}


class Node:
    """A node whose answers a test defines."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()
        self.status = "200 OK"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while (found := await self.answer(await _heard(reader))) is not None:
                head, body = found
                size = f"Content-Length: {len(body)}\r\n\r\n"
                writer.write(
                    f"HTTP/1.1 {self.status}\r\nServer: docstore\r\n{head}{size}".encode() + body
                )
        writer.close()

    async def answer(self, head: str) -> tuple[str, bytes] | None:
        """Return headers and body; None to close without an answer."""
        found = await self.page(head)
        return None if found is None else ("", orjson.dumps(found))

    async def page(self, head: str) -> object:
        raise NotImplementedError


class Bystander(Node):
    """Takes records for the leader; names the dead leader once, and then is silent."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = self.asked = 0
        self.gone = ""
        self.is_asked_again = asyncio.Event()

    async def page(self, head: str) -> object:
        if "/core/node-groups/" in head:
            return {"members": [{"id": "gone", "address": self.gone}]}
        if "/core/producers" in head:
            self.epochs += 1
            return {"id": "p", "epoch": self.epochs} if self.epochs > 1 else None
        if head.startswith("GET"):
            self.asked += 1
            if self.asked > 1:
                self.is_asked_again.set()
                await self.is_over.wait()
                return None
            return TOPIC
        await self.is_asked_again.wait()
        return {"base": 7}


async def _heard(reader: asyncio.StreamReader) -> str:
    head = await reader.readuntil(b"\r\n\r\n")
    size = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(size or 0))
    return head.decode()


@asynccontextmanager
async def serving(node: Node) -> AsyncIterator[str]:
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        node.is_over.set()
        server.close()
        await server.wait_closed()


async def test_records_do_not_wait_for_the_name_of_the_new_leader() -> None:
    node = Bystander()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        node.gone = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with (
            serving(node) as url,
            Client([node.gone, url]) as client,
            client.producer("t") as producer,
        ):
            sent = await producer.send("k", 1)
            await producer.flush()
            assert sent.result() == (0, 7)
    assert node.asked == 2


async def test_a_producer_without_an_answer_requests_another_epoch() -> None:
    node = Bystander()
    async with serving(node) as url, Client([url]) as client, client.producer("t", id="p"):
        assert node.epochs == 2


class Forgetful(Node):
    """Takes one batch; then loses one answer if `loses`, and does not know the producer."""

    def __init__(self, *, loses: bool) -> None:
        super().__init__()
        self.loses = loses
        self.heard: list[str] = []

    async def page(self, head: str) -> object:
        if "/core/node-groups/" in head:
            return {"members": []}
        if head.startswith("GET"):
            return TOPIC
        self.heard.append(head.partition("sequence=")[2][:1])
        if len(self.heard) == 2 and self.loses:
            return None
        is_known = self.heard[-1] == "0"
        self.status = "200 OK" if is_known else "409 Conflict"
        unknown = {"errorCode": "unknown-producer", "outcome": "not_applied"}
        return {"base": len(self.heard)} if is_known else unknown


async def test_a_forgotten_producer_restarts_its_numbers_at_zero() -> None:
    node = Forgetful(loses=False)
    async with (
        serving(node) as url,
        Client([url]) as client,
        client.producer("t") as producer,
    ):
        await (await producer.send("k", 1))
        later = await producer.send("k", 2)
        assert (await later).offset == 3
    assert node.heard == ["0", "1", "0"]


async def test_a_record_of_unknown_fate_is_not_renumbered() -> None:
    node = Forgetful(loses=True)

    async def produce(client: Client) -> None:
        async with client.producer("t") as producer:
            await (await producer.send("k", 1))
            await (await producer.send("k", 2))

    async with serving(node) as url, Client([url]) as client:
        with pytest.raises(RequestFailed) as failure:
            await produce(client)
    assert failure.value.problem["errorCode"] == "unknown-producer"
    assert failure.value.outcome == "unknown"
    assert node.heard == ["0", "1", "1"]


class NewLeader(Node):
    """Has two committed records, and knows it only at the second read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def answer(self, head: str) -> tuple[str, bytes] | None:
        if "/core/node-groups/" in head:
            return "", b'{"members": []}'
        if "/records" not in head:
            return "", orjson.dumps(TOPIC)
        if "from=end" in head:
            return _position(2, 2), b""
        self.reads += 1
        if self.reads == 1:
            return _position(0, 0), b""
        body = b"".join(pack(Record(None, value, [])) for value in (b"1", b"2"))
        raw = seal(bytes(16), BatchHeader(0, 2, 1, 0, 0, "", 0, 0, 0, len(body)), body)
        return _position(0, 2), len(raw).to_bytes(4, "big") + raw


def _position(first: int, following: int) -> str:
    return f"Docstore-From: {first}\r\nDocstore-Next: {following}\r\nDocstore-Hw: {following}\r\n"


async def test_a_read_to_the_end_gets_records_that_a_new_leader_commits_later() -> None:
    async with serving(NewLeader()) as url, Client([url]) as client:
        found = [each.value async for each in client.consume("t", partition=0, follow=False)]
    assert found == [1, 2]


class Losing(NewLeader):
    """Ends at its second record at first, and loses its answer to a waiting reader."""

    async def answer(self, head: str) -> tuple[str, bytes] | None:
        if "from=end" in head and "waitMs=0" in head:
            return _position(1, 1), b""
        found = await super().answer(head)
        if "/records" not in head or found is None:
            return found
        if self.reads < 2:
            return None
        return (_position(1, 2), found[1]) if "from=1" in head else (_position(2, 2), b"")


async def test_a_reader_from_the_end_misses_no_record_after_a_lost_answer() -> None:
    async with (
        asyncio.timeout(30),
        serving(Losing()) as url,
        Client([url]) as client,
        aclosing(client.consume("t", partition=0, since="end")) as records,
    ):
        assert (await anext(records)).value == 2
