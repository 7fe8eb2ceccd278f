"""Links with TLS: only the node that a certificate names is a peer; strangers get no answer."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from docstore.runtime.links.certified import Certified
from docstore.runtime.links.peers import PeerEvents, PeerLinks
from docstore.runtime.tls.accepting import RejectedConnections
from docstore.runtime.tls.authority import make_certificate
from docstore.runtime.tls.credentials import Credentials
from docstore.wire.frames import pack_hello
from docstore.wire.link_messages import PROTOCOL, Hello
from tests.docstore.runtime.tls.papers import (
    EXPIRED_DAYS,
    HOSTS,
    believing,
    files_of,
    group_of,
    serial_of,
    showing,
)

SOON_S = 20.0


def hello_of(node: str, to: str) -> Hello:
    return Hello(PROTOCOL, "c", node, f"disk-{node}", 1, to, "", b"", 1, ("", 0, 0))


class Node:
    """The links of a node, and their events."""

    def __init__(self, name: str, papers: Path, **others: object) -> None:
        self.name = name
        self.credentials = Credentials(files_of(papers, name, **others), name)
        self.linked: list[str] = []
        self.lost: list[str] = []
        self.links = PeerLinks(
            PeerEvents(
                hello=lambda to: hello_of(name, to), admit=lambda _: None,
                received=lambda *_: None, linked=self.linked.append, lost=self.lost.append,
            ),
            certified=Certified(self.credentials),
        )  # fmt: skip
        self.credentials.changed = self.links.judge_again

    @property
    def address(self) -> tuple[str, int]:
        """The listening address."""
        assert self.links._server is not None
        host, port = self.links._server.sockets[0].getsockname()
        return host, port

    @property
    def turned_away(self) -> int:
        """The number of connections without a node's own certificate."""
        return self.links.counters["certificates_refused"]


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[None]:
    for node in nodes:
        await node.links.start("127.0.0.1", 0)
    try:
        yield
    finally:
        for node in nodes:
            await node.links.stop()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = group_of(tmp_path_factory.mktemp("papers"))
    make_certificate(directory, ["late"], HOSTS, EXPIRED_DAYS)
    return directory


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return group_of(tmp_path_factory.mktemp("foreign"))


async def answer_to(node: Node, tls: ssl.SSLContext | None, said: bytes) -> bytes:
    """Return a node's answer to a connection with these TLS settings that sends `said`."""
    try:
        reader, writer = await asyncio.open_connection(*node.address, ssl=tls)
    except OSError:
        return b""
    try:
        writer.write(said)
        async with asyncio.timeout(SOON_S):
            return await reader.read()
    except OSError:
        return b""
    finally:
        writer.transport.abort()


async def test_two_nodes_link_with_their_certificates(papers: Path) -> None:
    one, two = Node("n1", papers), Node("n2", papers)
    async with running(one, two):
        one.links.connect("n2", two.address)
        two.links.connect("n1", one.address)
        await until(lambda: one.links.hears("n2") and two.links.hears("n1"))
        await until(lambda: one.linked == ["n2"] and two.linked == ["n1"])
    assert (one.turned_away, two.turned_away) == (0, 0)


async def test_a_node_of_the_group_is_answered(papers: Path) -> None:
    node = Node("n1", papers)
    async with running(node):
        reader, writer = await asyncio.open_connection(*node.address, ssl=showing(papers, "n2"))
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
        writer.write(pack_hello(hello_of("n2", "n1")))
        async with asyncio.timeout(SOON_S):
            assert len(await reader.readexactly(4)) == 4
        writer.transport.abort()


@pytest.mark.parametrize(
    ("stranger", "why"),
    [
        ("uncertified", "its certificate|certificate"),
        ("foreign", "its certificate: "),
        ("late", "its certificate: certificate has expired"),
        ("another", "its certificate is of n3, not of n2"),
        ("plain", "it speaks plain text"),
        ("old", "protocol"),
    ],
)
async def test_strangers_get_no_answer(
    papers: Path, foreign: Path, stranger: str, why: str
) -> None:
    contexts = {
        "uncertified": lambda: believing(papers), "foreign": lambda: showing(foreign, "n2"),
        "late": lambda: showing(papers, "late"), "another": lambda: showing(papers, "n3"),
        "plain": lambda: None, "old": lambda: showing(papers, "n2"),
    }  # fmt: skip
    tls = contexts[stranger]()
    if tls is not None:
        tls.check_hostname = False
        if stranger == "foreign":
            tls.load_verify_locations(papers / "ca.pem")
        if stranger == "old":
            tls.maximum_version = ssl.TLSVersion.TLSv1_2
    node = Node("n1", papers)
    with capture_logs() as lines:
        async with running(node):
            assert await answer_to(node, tls, pack_hello(hello_of("n2", "n1"))) == b""
            await until(lambda: node.turned_away == 1)
            assert not node.links.hears("n2")
    [line] = [line for line in lines if line["event"] == "turned away"]
    assert any(each in line["why"] for each in why.split("|"))
    assert (line["port"], line["address"]) == ("peer", "127.0.0.1")


async def test_a_node_of_another_group_of_the_same_ca_gets_no_answer(tmp_path: Path) -> None:
    papers = group_of(tmp_path)
    make_certificate(papers, ["n2"], HOSTS, 1, group="other-films")
    node = Node("n1", papers)
    with capture_logs() as lines:
        async with running(node):
            said = pack_hello(hello_of("n2", "n1"))
            assert await answer_to(node, showing(papers, "n2"), said) == b""
            await until(lambda: node.turned_away == 1)
    assert "names spiffe://cluster/other-films/node/n2, and no node of" in lines[0]["why"]


async def test_a_refused_node_logs_the_reason(papers: Path, foreign: Path) -> None:
    one, two = Node("n1", papers), Node("n2", papers)
    stranger = Node("n2", foreign)
    stranger.credentials.contexts.dialling.load_verify_locations(papers / "ca.pem")  # type: ignore[union-attr]
    with capture_logs() as lines:
        async with running(one, two, stranger):
            stranger.links.connect("n1", one.address)
            await until(lambda: stranger.turned_away >= 1 and one.turned_away >= 1)
            two.links.connect("n1", stranger.address)
            await until(lambda: two.turned_away >= 1)
    said = {line["why"] for line in lines if line["event"] == "turned away"}
    assert "it refuses us: unknown ca" in said
    assert any(why.startswith("its certificate: ") for why in said)


async def test_a_dialling_node_sends_nothing_to_another_node(papers: Path) -> None:
    one, three = Node("n1", papers), Node("n3", papers)
    met: list[Hello] = []
    three.links.events.admit = met.append
    async with running(one, three):
        one.links.connect("n2", three.address)
        await until(lambda: one.turned_away >= 2)
        assert one.linked == []
        one.links.connect("n3", three.address)
        await until(lambda: one.linked == ["n3"])
    assert [hello.receiver for hello in met] == ["n3"]


async def test_many_strangers_are_counted_and_one_a_second_is_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, counted = [100.0], []
    monkeypatch.setattr("docstore.runtime.tls.accepting.time.monotonic", lambda: now[0])
    strangers = RejectedConnections("peer", lambda: counted.append(1))
    with capture_logs() as lines:
        for _ in range(10_000):
            strangers.tell("10.0.0.1", "no certificate")
            now[0] += 0.001
    assert len(counted) == 10_000
    assert 10 <= len(lines) <= 11
    assert sum(line.get("others", 0) for line in lines) + len(lines) >= 9_000


async def test_many_connections_at_once_do_not_keep_a_node_out(papers: Path) -> None:
    one, two = Node("n1", papers), Node("n2", papers)
    async with running(one, two):
        silent = [await asyncio.open_connection(*one.address) for _ in range(100)]
        tries = [answer_to(one, believing(papers), b"x") for _ in range(50)]
        assert set(await asyncio.gather(*tries)) == {b""}
        two.links.connect("n1", one.address)
        await until(lambda: two.linked == ["n1"])
        for _, writer in silent:
            writer.close()
        await until(lambda: one.links._certified is not None
                    and one.links._certified._half_way == 0)  # fmt: skip


@pytest.mark.parametrize("by", ["serial", "node"])
async def test_a_revoked_node_loses_its_links_and_the_others_stay(
    papers: Path, tmp_path: Path, by: str
) -> None:
    revoked = tmp_path / "revoked"
    revoked.write_text("")
    one = Node("n1", papers, tls_revoked_file=str(revoked))
    two, three = Node("n2", papers), Node("n3", papers)
    async with running(one, two, three):
        watching = asyncio.create_task(one.credentials.watch())
        for a, b in ((one, two), (two, one), (one, three), (three, one)):
            a.links.connect(b.name, b.address)
        await until(lambda: one.links.hears("n2") and one.links.hears("n3"))
        await until(lambda: {"n2", "n3"} <= set(one.linked) and three.linked == ["n1"])
        said = serial_of(papers, "n3") if by == "serial" else "spiffe://cluster/films/node/n3"
        revoked.write_text(f"{said}  # n3's key was lost\n")
        await until(lambda: not one.links.hears("n3") and not one.links.is_linked("n3"))
        await until(lambda: one.turned_away >= 3)  # It dials again, and is refused.
        assert one.links.hears("n2")
        assert one.links.is_linked("n2")
        assert "n2" not in one.lost
        watching.cancel()


def test_a_revocation_list_that_is_empty_for_a_moment_admits_no_node(tmp_path: Path) -> None:
    papers, revoked = group_of(tmp_path / "papers"), tmp_path / "revoked"
    revoked.write_text("spiffe://cluster/films/node/n3\n")
    credentials = Credentials(files_of(papers, "n1", tls_revoked_file=str(revoked)), "n1")
    revoked.write_text("")
    with capture_logs() as logged:
        credentials.reload()
    assert "is empty" in logged[-1]["why"]
    assert credentials._loaded.revoked.nodes
    revoked.write_text("# nobody any more\n")
    credentials.reload()
    assert not credentials._loaded.revoked.nodes


async def test_new_certificates_are_used_by_new_links_and_old_links_stay(tmp_path: Path) -> None:
    papers = group_of(tmp_path / "papers")
    one, two, three = Node("n1", papers), Node("n2", papers), Node("n3", papers)
    async with running(one, two, three):
        one.links.connect("n2", two.address)
        await until(lambda: one.links.is_linked("n2"))
        before = serial_of(papers, "n1")
        for name in ("n1", "n2", "n3"):
            make_certificate(papers, [name], HOSTS, 30)
        assert serial_of(papers, "n1") != before
        for each in (one, two, three):
            each.credentials.reload()
        one.links.connect("n3", three.address)
        await until(lambda: one.links.is_linked("n3") and three.links.hears("n1"))
        [inbound] = three.links.inbound
        assert inbound.transport is not None
        shown = inbound.transport.get_extra_info("ssl_object").getpeercert()["serialNumber"]
        assert int(shown, 16) == int(serial_of(papers, "n1"), 16)
        assert one.links.is_linked("n2")
        assert one.lost == []


async def test_nodes_of_a_removed_ca_lose_their_links(tmp_path: Path, foreign: Path) -> None:
    papers = group_of(tmp_path / "papers")
    ca = papers / "ca.pem"
    old = ca.read_bytes()
    one, two = Node("n1", papers), Node("n2", papers)
    async with running(one, two):
        two.links.connect("n1", one.address)
        await until(lambda: one.links.hears("n2"))
        ca.write_bytes(old + (foreign / "ca.pem").read_bytes())
        one.credentials.reload()
        assert one.links.hears("n2")
        ca.write_bytes((foreign / "ca.pem").read_bytes())
        one.credentials.reload()
        await until(lambda: not one.links.hears("n2"))
        await until(lambda: one.turned_away >= 2)


async def test_a_ca_removed_between_handshake_and_hello_admits_no_node(
    tmp_path: Path, foreign: Path
) -> None:
    papers = group_of(tmp_path / "papers")
    tls = showing(papers, "n2")
    node = Node("n1", papers)
    with capture_logs() as lines:
        async with running(node):
            reader, writer = await asyncio.open_connection(*node.address, ssl=tls)
            await until(lambda: len(node.links.inbound) == 1)
            (papers / "ca.pem").write_bytes((foreign / "ca.pem").read_bytes())
            node.credentials.reload()
            writer.write(pack_hello(hello_of("n2", "n1")))
            async with asyncio.timeout(SOON_S):
                with suppress(ConnectionError):
                    assert await reader.read() == b""
            assert not node.links.hears("n2")
            writer.transport.abort()
    assert [line["why"] for line in lines if line["event"] == "turned away"] == [
        "the CA that signed the certificate of n2 is no longer trusted"
    ]


async def test_unusable_files_leave_the_earlier_certificates(tmp_path: Path) -> None:
    papers = group_of(tmp_path / "papers")
    node = Node("n1", papers)
    before = node.credentials.contexts
    key = papers / "n1-key.pem"
    good = key.read_bytes()
    with capture_logs() as lines:
        key.write_bytes((papers / "n2-key.pem").read_bytes())
        node.credentials.reload()
        node.credentials.reload()
        assert node.credentials.contexts is before
        key.write_bytes(good)
        node.credentials.reload()
    assert node.credentials.contexts is not before
    events = [line["event"] for line in lines]
    assert events.count("certificates are not reloaded") == 1
    assert events.count("certificates are reloaded") == 1
