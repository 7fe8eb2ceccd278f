"""Links between nodes of two versions use a protocol of both; nodes are upgraded in any order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from docstore.config import Config
from docstore.model.address import Address
from docstore.node.members.founding import Founding
from docstore.ownership import configuration as configurations
from docstore.ownership.configuration import Configuration, MemberEntry, first_registered
from docstore.runtime.links.peers import PeerEvents, PeerLinks
from docstore.storage.store import Recovered
from docstore.wire.link_messages import Hello, Message, ProtocolRange
from docstore.wire.messages import HandOver

OLD, NEW = ProtocolRange(1, 1), ProtocolRange(1, 2)
DEADLINE_S = 10.0


class Node:
    """The links of one node, and the messages that came over them."""

    def __init__(self, name: str, spoken: ProtocolRange) -> None:
        self.name, self.spoken = name, spoken
        self.heard: list[tuple[str, Message]] = []
        self.linked: list[str] = []
        self.lost: list[str] = []
        self.proposed: list[int] = []
        """The protocols that others have proposed to this node."""
        self.links = PeerLinks(
            PeerEvents(
                hello=self._hello, admit=self._admit,
                received=lambda peer, message, _: self.heard.append((peer, message)),
                linked=self.linked.append, lost=self.lost.append,
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
async def test_links_use_the_greatest_common_protocol(
    one: ProtocolRange, other: ProtocolRange
) -> None:
    dialler, acceptor = Node("a", one), Node("b", other)
    async with listening(acceptor) as port, listening(dialler):
        dialler.links.connect("b", ("127.0.0.1", port))
        await until(lambda: dialler.linked == ["b"])
        dialler.links.send("b", HandOver(b"\x01"))
        dialler.links.flush()
        await until(lambda: acceptor.heard == [("a", HandOver(b"\x01"))])
        assert acceptor.proposed[-1] == min(one.greatest, other.greatest)


async def test_a_peer_that_returns_upgraded_gets_its_new_protocol() -> None:
    dialler = Node("a", NEW)
    async with listening(dialler):
        old = Node("b", OLD)
        async with listening(old) as port:
            dialler.links.connect("b", ("127.0.0.1", port))
            await until(lambda: dialler.linked == ["b"])
            assert old.proposed == [1]
        new = Node("b", NEW)
        async with listening(new, port):
            await until(lambda: dialler.linked == ["b", "b"])
            assert new.proposed == [2]


async def test_links_with_protocols_older_than_the_stored_one_are_ended() -> None:
    dialler, acceptor, third = Node("a", NEW), Node("b", OLD), Node("c", NEW)
    async with listening(acceptor) as b, listening(third) as c, listening(dialler) as a:
        for peer, port in (("b", b), ("c", c)):
            dialler.links.connect(peer, ("127.0.0.1", port))
        acceptor.links.connect("a", ("127.0.0.1", a))
        await until(lambda: sorted(dialler.linked) == ["b", "c"] and acceptor.linked == ["a"])
        assert [dialler.links.protocol_of(peer) for peer in ("b", "c")] == [1, 2]
        dialler.links.end_before(2)
        await until(lambda: dialler.lost.count("b") == 2 and acceptor.lost.count("a") == 2)
        assert "c" not in dialler.lost
        # A link that is dialled anew is admitted by the node, or not.
        await until(lambda: dialler.linked.count("b") == 2)


def test_a_node_that_cannot_read_the_stored_protocol_is_not_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configurations, "PROTOCOL", 2)
    members = tuple(MemberEntry(name, f"disk of {name}", "host", 1) for name in "ab")
    group = Configuration(3, "c", 16, 8, None, members, stored_protocol=2)
    kept = Recovered("disk of a", 1, first_registered(group).pack(), {})
    at = Address("h", 1)
    config = Config(data=tmp_path, advertise=at, peer_advertise=at, gossip_advertise=at)
    founding = Founding(config, "a", kept, learnt=lambda packed: None, outdated=lambda boot: None)
    hello = Hello(1, "c", "b", "disk of b", 1, "a", "", b"", 1, ("", 0, 0))
    assert founding.admit(hello) == "it speaks protocol 1, the group stores data of 2"
    assert founding.admit(hello._replace(protocol=2)) is None
    # A node without a group learns of one from a node that dials it.
    blank = Founding(
        replace(config, join=("http://h:1",)), "a", replace(kept, configuration=None),
        learnt=lambda packed: None, outdated=lambda boot: None,
    )  # fmt: skip
    why_not = blank.admit(hello._replace(configuration=group.pack()))
    assert why_not == "it speaks protocol 1, the group stores data of 2"
    assert not blank.has_group


async def test_a_peer_without_a_common_protocol_is_not_linked() -> None:
    dialler, acceptor = Node("a", NEW), Node("b", ProtocolRange(3, 4))
    async with listening(acceptor) as port, listening(dialler):
        dialler.links.connect("b", ("127.0.0.1", port))
        await until(lambda: dialler.links.counters["dials_refused"] >= 2)
        assert not dialler.linked
        assert not acceptor.proposed  # Refused before its identity is checked.
