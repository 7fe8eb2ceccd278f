"""The clients' port with TLS: plain text, unfinished handshakes, limits of connections."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop
from aiohttp import web
from structlog.testing import capture_logs

from docstore.client import Client, RequestFailed, Unreachable
from docstore.http.listener import Listener
from docstore.http.metrics import HttpMetrics
from docstore.http.reply import Reply
from docstore.http.server import HttpServer
from docstore.model.limits import Limits
from docstore.runtime.tls.accepting import listen
from docstore.runtime.tls.authority import make_certificate
from docstore.runtime.tls.credentials import Credentials
from tests.docstore.http.single import SingleNode
from tests.docstore.http.wires import PATIENT, SOON_S, Wire, asked, until
from tests.docstore.runtime.tls.papers import HOSTS, believing, files_of, group_of

LIVE = asked("GET", "/health/live")
FEW = 3
LARGE = 16_000_000


class Serving:
    """A server with TLS, and connections to it."""

    def __init__(self, papers: Path, limits: Limits) -> None:
        self.papers = papers
        self.credentials = Credentials(files_of(papers, "n1"), "n1")
        self.server = HttpServer(SingleNode(), limits, tls=self.credentials.clients)
        self.port = 0

    @asynccontextmanager
    async def wire(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
        """Connect; in plain text without `tls`."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
        with closing(writer):
            yield Wire(reader, writer)


@asynccontextmanager
async def serving(papers: Path, limits: Limits = PATIENT) -> AsyncIterator[Serving]:
    found = Serving(papers, limits)
    found.port = await found.server.start("127.0.0.1", 0)
    yield found
    await found.server.stop(0.1)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return group_of(tmp_path_factory.mktemp("papers"))


async def test_requests_are_answered_one_after_the_other(papers: Path) -> None:
    async with serving(papers) as served, served.wire(believing(papers)) as wire:
        for _ in range(3):
            assert (await wire.ask(LIVE)).startswith(b"HTTP/1.1 200 ")
        found = wire.writer.get_extra_info("ssl_object")
        assert (found.version(), found.selected_alpn_protocol()) == ("TLSv1.3", None)
        assert served.server.metrics.connections == 1


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_tls_before_1_2_is_refused(papers: Path) -> None:
    old = believing(papers)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    async with serving(papers) as served:
        with pytest.raises(ssl.SSLError, match="alert protocol version"):
            async with served.wire(old):
                pass
        await until(lambda: served.server.metrics.handshakes_failed == 1)
        later = believing(papers)
        later.maximum_version = ssl.TLSVersion.TLSv1_2
        async with served.wire(later) as wire:
            assert (await wire.ask(LIVE)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("said", [LIVE, b"\x00\xff\x00\xff" * 100, b"\r\n"])
async def test_plain_text_is_refused_with_the_reason(papers: Path, said: bytes) -> None:
    with capture_logs() as lines:
        async with serving(papers) as served, served.wire() as wire:
            wire.writer.write(said)
            async with asyncio.timeout(SOON_S):
                answer = await wire.reader.read()
            await until(lambda: served.server.metrics.handshakes_failed == 1)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"this port speaks TLS: its URLs begin with https://" in answer
    [line] = lines
    assert (line["event"], line["port"], line["why"]) == (
        "turned away", "listen", "it speaks plain text",
    )  # fmt: skip


async def test_a_client_error_says_why_tls_failed(papers: Path) -> None:
    async with serving(papers) as served:
        url = f"https://localhost:{served.port}"
        async with Client([url], ssl=believing(papers)) as client:
            with pytest.raises(RequestFailed, match="there is no factory at"):
                await client.get("/nothing/a")
        async with Client([url], timeout_s=0.1) as client:
            with pytest.raises(Unreachable, match="its certificate is not believed: "):
                await client.get("/nothing/a")
    plain = HttpServer(SingleNode(), PATIENT)
    port = await plain.start("127.0.0.1", 0)
    async with Client([f"https://localhost:{port}"], timeout_s=0.1) as client:
        with pytest.raises(Unreachable, match="no TLS with it: wrong version number"):
            await client.get("/nothing/a")
    await plain.stop(0.1)


async def test_bytes_that_only_begin_like_tls_get_an_alert(papers: Path) -> None:
    with capture_logs() as lines:
        async with serving(papers) as served, served.wire() as wire:
            wire.writer.write(b"\x16\x03\x01\x00\x05hello")
            async with asyncio.timeout(SOON_S):
                assert await wire.reader.readexactly(3) == b"\x15\x03\x03"  # An alert.
            wire.writer.close()
            await until(lambda: served.server.metrics.handshakes_failed == 1)
    assert [line["event"] for line in lines] == ["turned away"]


async def test_a_connection_without_bytes_is_no_failed_handshake(papers: Path) -> None:
    with capture_logs() as lines:
        async with serving(papers) as served:
            async with served.wire():
                pass
            async with served.wire(believing(papers)) as wire:
                assert (await wire.ask(LIVE)).startswith(b"HTTP/1.1 200 ")
            await until(lambda: not served.server._socket._greeted)  # type: ignore[union-attr]
            assert served.server.metrics.handshakes_failed == 0
    assert lines == []


async def test_unfinished_handshakes_are_counted_and_closed(papers: Path) -> None:
    limits = Limits(connections_max=FEW, first_request_timeout_s=1.0)
    async with serving(papers, limits) as served:
        silent = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(FEW)]
        await until(lambda: served.server._listener is not None
                    and served.server._listener._admission._count == FEW)  # fmt: skip
        async with served.wire() as late, asyncio.timeout(SOON_S):
            assert await late.reader.read() == b""
        assert served.server.metrics.connections_refused == 1
        # They have the time of a first request; then there is room again.
        async with asyncio.timeout(SOON_S):
            assert [await reader.read() for reader, _ in silent] == [b""] * FEW
        async with served.wire(believing(papers)) as wire:
            assert (await wire.ask(LIVE)).startswith(b"HTTP/1.1 200 ")
        assert served.server.metrics.handshakes_failed == FEW
        for _, writer in silent:
            writer.close()


async def test_a_stop_does_not_wait_for_unfinished_handshakes(papers: Path) -> None:
    async with serving(papers) as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        await until(lambda: bool(served.server._socket._greeted))  # type: ignore[union-attr]
        async with asyncio.timeout(SOON_S):
            await served.server.stop(0.1)
        writer.close()


async def test_a_new_certificate_is_shown_to_new_connections(tmp_path: Path) -> None:
    papers = group_of(tmp_path, ["n1"])

    async def shown() -> str:
        async with served.wire(believing(papers)) as wire:
            serial = wire.writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
            assert (await wire.ask(LIVE)).startswith(b"HTTP/1.1 200 ")
            return str(serial)

    async with serving(papers) as served, served.wire(believing(papers)) as old:
        before = await shown()
        assert await shown() == before
        make_certificate(papers, ["n1"], HOSTS, 30)
        served.credentials.reload()
        assert await shown() != before
        assert (await old.ask(LIVE)).startswith(b"HTTP/1.1 200 ")


async def test_a_shared_port_has_tls_and_refuses_before_it_serves(papers: Path) -> None:
    async with serving(papers) as served:
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        await served.server.share("127.0.0.1", port)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await served.server.serve_shared()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=believing(papers))
        with closing(writer):
            assert (await Wire(reader, writer).ask(LIVE)).startswith(b"HTTP/1.1 200 ")
        served.server.send_away()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_large_bodies_pass_in_both_directions(papers: Path) -> None:
    limits = Limits(first_request_timeout_s=60.0)
    async with serving(papers, limits) as served, served.wire(believing(papers)) as wire:
        declared = await wire.ask(asked("POST", "/core/factories", body=b'{"path":"/t"}'))
        assert declared.startswith(b"HTTP/1.1 201 ")
        body = b'{"text":"%b"}' % (b"x" * 900_000)
        assert (await wire.ask(asked("PUT", "/t/1", body=body))).startswith(b"HTTP/1.1 20")
        assert b"x" * 900_000 in await wire.ask(asked("GET", "/t/1"))


async def test_a_client_that_reads_no_answer_is_disconnected(papers: Path) -> None:
    brief = replace(PATIENT, send_timeout_s=0.1)
    async with serving(papers, brief) as served, served.wire(believing(papers)) as wire:
        await wire.ask(asked("POST", "/core/factories", body=b'{"path":"/t"}'))
        await wire.ask(asked("PUT", "/t/a", body=b'{"a":"%b"}' % (b"a" * 900_000)))
        wire.writer.write(asked("GET", "/t/a") * 20)
        await until(lambda: served.server.metrics.send_timeouts == 1)
        await until(lambda: not served.server.metrics.connections)


@pytest.mark.parametrize(
    "limits", [Limits(connections_max=FEW), Limits(connections_per_address_max=FEW)]
)
async def test_a_tls_connection_is_counted_once(papers: Path, limits: Limits) -> None:
    async with serving(papers, limits) as served, AsyncExitStack() as stack:
        for _ in range(FEW):
            wire = await stack.enter_async_context(served.wire(believing(papers)))
            assert (await wire.ask(LIVE)).startswith(b"HTTP/1.1 200 ")
        assert served.server.metrics.connections_refused == 0


@asynccontextmanager
async def deaf(papers: Path, port: int) -> AsyncIterator[asyncio.StreamWriter]:
    """Connect as a client that sends a request and reads nothing of the answer."""
    with closing(socket.socket()) as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.connect(("127.0.0.1", port))
        _, writer = await asyncio.open_connection(
            sock=caller, ssl=believing(papers), server_hostname="localhost"
        )
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(LIVE)
        yield writer
        writer.transport.abort()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_large_answer_over_tls_to_a_client_that_does_not_read(
    papers: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Find a client that does not read, although encrypted bytes wait below the asked transport."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return Reply(200, b"a" * LARGE)

    async def run(limits: Limits, *, is_cut: bool) -> None:
        credentials, metrics = Credentials(files_of(papers, "n1"), "n1"), HttpMetrics()
        plain = HttpServer(SingleNode(), limits)._fast_path
        listener = Listener(answer, plain, limits, metrics)
        server = await listen(listener.entrance(credentials.clients), "127.0.0.1", 0)
        async with deaf(papers, server.sockets[0].getsockname()[1]) as writer:
            if is_cut:
                await until(lambda: metrics.send_timeouts == 1)
            else:
                await until(lambda: any(each.mark() for each in listener._open))
                [connection] = listener._open
                before = connection.mark()
                writer.transport.resume_reading()  # type: ignore[attr-defined]
                await until(lambda: connection.mark() != before)
        server.close()
        await listener.close(0.1)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run(replace(PATIENT, send_timeout_s=0.1), is_cut=True))
        runner.run(run(PATIENT, is_cut=False))
