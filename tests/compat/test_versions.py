"""Nodes of two versions: links between them speak what both know, and are upgraded in any order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest

from docstore.links import versions
from docstore.links.frames import pack_frame, pack_hello, unpack_frame
from docstore.links.peers import PeerEvents, PeerLinks
from docstore.links.versions import Spoken
from docstore.wire import PROTOCOL, Confirm, HandOver, Hello, Message

OLD, NEW = Spoken(5, 5), Spoken(5, 6)
DEADLINE_S = 10.0


class Node:
    """The links of one node, and what came over them."""

    def __init__(self, name: str, spoken: Spoken) -> None:
        self.name, self.spoken = name, spoken
        self.heard: list[tuple[str, Message]] = []
        self.linked: list[str] = []
        self.proposed: list[int] = []
        """The protocols that others have proposed to this node."""
        self.links = PeerLinks(
            PeerEvents(
                hello=self._hello, admit=self._admit,
                received=lambda peer, message, _: self.heard.append((peer, message)),
                linked=self.linked.append, lost=lambda peer: None,
            ),
            spoken,
        )  # fmt: skip

    def _hello(self, peer: str) -> Hello:
        return Hello(self.spoken.greatest, "c", self.name, f"disk-{self.name}", 1, peer, "", b"", 1,
                     ("", 0, 0))  # fmt: skip

    def _admit(self, hello: Hello) -> str | None:
        self.proposed.append(hello.protocol)
        return None


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def listening(node: Node, port: int = 0) -> AsyncIterator[int]:
    await node.links.start("127.0.0.1", port)
    assert node.links._server is not None
    try:
        yield node.links._server.sockets[0].getsockname()[1]
    finally:
        await node.links.stop()


@pytest.mark.parametrize(("one", "other"), [(OLD, NEW), (NEW, OLD), (NEW, NEW), (OLD, OLD)])
async def test_links_speak_what_both_know(one: Spoken, other: Spoken) -> None:
    dialler, acceptor = Node("a", one), Node("b", other)
    async with listening(acceptor) as port, listening(dialler):
        dialler.links.connect("b", ("127.0.0.1", port))
        await until(lambda: dialler.linked == ["b"])
        dialler.links.send("b", HandOver(b"\x01"))
        dialler.links.flush()
        await until(lambda: acceptor.heard == [("a", HandOver(b"\x01"))])
        assert acceptor.proposed[-1] == min(one.greatest, other.greatest)


async def test_a_peer_that_comes_back_upgraded_is_spoken_to_in_its_new_protocol() -> None:
    dialler = Node("a", NEW)
    async with listening(dialler):
        old = Node("b", OLD)
        async with listening(old) as port:
            dialler.links.connect("b", ("127.0.0.1", port))
            await until(lambda: dialler.linked == ["b"])
            assert old.proposed == [5]
        new = Node("b", NEW)
        async with listening(new, port):
            await until(lambda: dialler.linked == ["b", "b"])
            assert new.proposed == [6]


async def test_a_peer_that_speaks_nothing_of_ours_is_not_linked() -> None:
    dialler, acceptor = Node("a", NEW), Node("b", Spoken(7, 8))
    async with listening(acceptor) as port, listening(dialler):
        dialler.links.connect("b", ("127.0.0.1", port))
        await until(lambda: dialler.links.counters["dials_refused"] >= 2)
        assert not dialler.linked
        assert not acceptor.proposed  # Refused before it is looked at who it is.


async def test_a_node_of_protocol_5_itself_is_spoken_to() -> None:
    """As it was: it answers whatever it is proposed with a Hello of its own, and hangs up."""
    frames: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def frame() -> bytes:
            return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))

        proposed = msgpack.unpackb(await frame())
        assert len(proposed) == 10  # It knows no more fields.
        writer.write(pack_hello(Hello(5, "c", "b", "d", 1, "a", "", b"", 1, ("", 0, 0))))
        if proposed[0] == 5:
            frames.append(await frame())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    dialler = Node("a", NEW)
    async with server, listening(dialler):
        dialler.links.connect("b", server.sockets[0].getsockname()[:2])
        await until(lambda: dialler.linked == ["b"])
        dialler.links.send("b", Confirm(3, ()))
        dialler.links.flush()
        await until(lambda: bool(frames))
        assert unpack_frame(frames[0]) == (0, [Confirm(3, ())])


def test_what_a_peer_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that was added behind others, and a kind of message that there was not."""

    def without_slots(message: Any) -> tuple[Any, ...]:
        return tuple(message[:1])

    added = {Confirm: without_slots, HandOver: lambda message: None}
    monkeypatch.setattr(versions, "BEFORE", {PROTOCOL: added})
    messages: list[Message] = [Confirm(3, [(1, 2)]), HandOver(b"")]
    _, packed = msgpack.unpackb(pack_frame(1, messages, protocol=PROTOCOL - 1)[4:])
    assert [fields[1:] for fields in packed] == [[3]]
