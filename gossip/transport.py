"""Sockets: datagrams and framed streams on one port, bounded in every direction. A shell.

Datagrams are read in bulk, up to 64 per wake-up, from a non-blocking socket of our own; a
datagram that cannot be sent at once is dropped and counted, since gossip is never worth
queueing. A stream carries one request and at most one answer, each a frame of four length
bytes and a body. A connection gets a slot, if one is free, and a deadline.

In an encrypted group a stream begins with a random number from each side, which is authenticated
with every frame after it, so that no captured frame is of use on another stream.
Left out: keeping streams open between exchanges.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

from gossip.config import Config
from gossip.errors import BindFailed
from gossip.member import Address
from gossip.messages import FRAME_HEADER_BYTES
from gossip.security.admission import Opened, Refused

if TYPE_CHECKING:
    from gossip.security.seal import Seal

_DATAGRAMS_PER_WAKE_UP = 64
_RECEIVE_BYTES = 65_535
_RECEIVE_BUFFER_BYTES = 2 * 1024 * 1024
"""Receive buffer asked of the kernel, so that a burst of gossip survives a busy event loop."""

_BIND_ATTEMPTS = 16
"""For a port of the kernel's choice: one that is free for TCP may be taken for UDP."""

GREETING = b"\x5e"
"""First byte of the random number that opens a sealed stream; no msgpack array begins so."""

_TURNS_TO_COME_UP = 3
"""Turns of the event loop until an accepted connection has its task, transport and streams."""

_TURNS_TO_CLOSE = 1
"""Turns of the loop until a closed transport has closed its socket."""

_RANDOM_BYTES = 16
_ANSWER = b"answer"

_ANY_PORT = 9
_RESOLVE_TIMEOUT_S = 0.4

# Documentation addresses (RFC 5737, RFC 3849) as targets that need the default route.
_WILDCARDS: dict[str, tuple[int, Address]] = {
    "0.0.0.0": (socket.AF_INET, ("192.0.2.1", _ANY_PORT)),  # noqa: S104 - looked up, not bound.
    "::": (socket.AF_INET6, ("2001:db8::1", _ANY_PORT)),
}


class FrameRefused(OSError):
    """A peer announced a frame of no or too many bytes. The stream is closed, nothing read."""


class Transport:
    """The UDP socket, the TCP listener, and the streams of one agent."""

    def __init__(
        self,
        config: Config,
        on_datagram: Callable[[bytes, Address], None],
        on_request: Callable[[bytes, Opened | None], Awaitable[bytes | None]],
        permits: Callable[[str], bool],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._config = config
        self._on_datagram = on_datagram
        self._on_request = on_request
        self._permits = permits
        self.seal: Seal | None = None
        """Set before anything is sent, if the group encrypts."""
        self._udp: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._is_stopped = False
        self._served: dict[asyncio.Task[None], str] = {}
        self._allowance_bytes = float(config.datagram_bytes_per_s)
        self._allowed_at_s = time.monotonic()

    async def start(self, bind: Address) -> Address:
        """Bind both sockets and return their address; port 0 lets the kernel choose.

        Raises BindFailed if the name does not resolve or the port is taken; nothing is open.
        """
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(*bind, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, (host, port, *_) = found[0]
            tcp, udp = _bind_both(family, (str(host), int(port)))
        except OSError as error:
            raise BindFailed(f"cannot bind {bind[0]}:{bind[1]}: {error.strerror}") from error
        self._udp, self._is_stopped = udp, False
        self._server = await asyncio.start_server(self._accept, sock=tcp)
        loop.add_reader(udp, self.drain)
        name = udp.getsockname()
        return name[0], name[1]

    async def stop(self) -> None:
        """Close everything. Streams in service end unanswered. May be called twice."""
        loop = asyncio.get_running_loop()
        if self._udp is not None:
            loop.remove_reader(self._udp)
            self._udp.close()
            self._udp = None
        self._is_stopped = True
        if self._server is not None:
            for listener in self._server.sockets:
                loop.remove_reader(listener)
            # A server that is closed before these are up forgets their sockets.
            await _turns(_TURNS_TO_COME_UP)
            self._server.close()
        served = list(self._served)
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None
        await _turns(_TURNS_TO_CLOSE)

    def send(self, to: Address, datagram: bytes) -> None:
        """Send now or never. Drops are counted, not reported: the protocol expects losses."""
        if self._udp is None:
            return
        if not self._is_within_budget(len(datagram)):
            self.counters["datagrams_over_budget"] += 1
            return
        try:
            self._udp.sendto(datagram, to)
        except OSError:
            self.counters["datagrams_unsent"] += 1
            return
        self.counters["datagrams_sent"] += 1
        self.counters["datagram_bytes_sent"] += len(datagram)

    def _is_within_budget(self, size: int) -> bool:
        """Take `size` bytes from a token bucket, which holds one second of the allowed rate."""
        rate, now = self._config.datagram_bytes_per_s, time.monotonic()
        refilled = self._allowance_bytes + (now - self._allowed_at_s) * rate
        self._allowance_bytes, self._allowed_at_s = min(refilled, rate), now
        if size > self._allowance_bytes:
            return False
        self._allowance_bytes -= size
        return True

    def drain(self) -> None:
        """Deliver the datagrams that have arrived, at most 64 of them."""
        for _ in range(_DATAGRAMS_PER_WAKE_UP):
            if self._udp is None:
                return  # The last datagram caused a stop.
            try:
                data, sender = self._udp.recvfrom(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                # Here a kernel may report an ICMP error of an earlier datagram.
                self.counters["datagrams_unread"] += 1
                continue
            self.counters["datagrams_received"] += 1
            self._on_datagram(data, (sender[0], sender[1]))

    async def ask(
        self, to: Address, body: bytes, *, timeout_s: float
    ) -> tuple[bytes, Opened | None]:
        """Send one body to `to`; return that of the answer, and the member that sealed it.

        Raises ConnectionRefusedError if no process listens there, TimeoutError after
        `timeout_s`, EOFError if the stream ends early, and other OSErrors for all else. After
        any of them the peer may or may not have read the request.
        """
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(*to)
            self.counters["streams_opened"] += 1
            try:
                if self.seal is None or not self._config.encrypt_outgoing:
                    await _write(writer, body)
                    return await self._read_frame(reader), None
                context = await self._greet(reader, writer)
                await _write(writer, self.seal.seal(body, context))
                opened = self._open(await self._read_frame(reader), context + _ANSWER)
                return opened.plain, opened
            finally:
                writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Exchange random numbers, so that no frame of another stream fits into this one."""
        ours = GREETING + secrets.token_bytes(_RANDOM_BYTES)
        await _write(writer, ours)
        theirs = await self._read_frame(reader)
        if not _is_greeting(theirs):
            raise FrameRefused("the other side sent no greeting: start it with a keyring")
        return ours + theirs

    def _open(self, frame: bytes, context: bytes) -> Opened:
        assert self.seal is not None
        opened = self.seal.open(frame, context)
        if isinstance(opened, Refused):
            self.counters[opened.value] += 1
            raise FrameRefused(opened.value)
        return opened

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        host = str(peer[0]) if peer else ""
        hosts = list(self._served.values())
        if self._is_stopped:  # The stream was accepted before the stop.
            writer.close()
            return
        if not self._permits(host):
            self.counters["streams_not_allowed"] += 1
            writer.close()
            return
        is_full = len(hosts) >= self._config.streams_max
        if is_full or hosts.count(host) >= self._config.streams_per_host_max:
            self.counters["streams_refused"] += 1
            writer.close()
            return
        self.counters["streams_accepted"] += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._served[task] = host
        task.add_done_callback(partial(self._end, writer))

    def _end(self, writer: asyncio.StreamWriter, served: asyncio.Task[None]) -> None:
        """Free the slot and the socket of a stream, even if its task never began."""
        self._served.pop(served, None)
        writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request within its deadlines, write the answer if there is one."""
        try:
            async with asyncio.timeout(self._config.stream_timeout_s):
                first = await self._read_frame(reader, self._config.stream_header_timeout_s)
                if self.seal is not None and _is_greeting(first):
                    await self._serve_sealed(first, reader, writer)
                elif self.seal is not None and self._config.verify_incoming:
                    self.counters[Refused.PLAIN.value] += 1
                else:
                    answer = await self._on_request(first, None)
                    if answer is not None:
                        await _write(writer, answer)
                writer.close()
                await writer.wait_closed()  # A peer that does not read in time loses the answer.
        except (OSError, EOFError):  # TimeoutError is an OSError.
            self.counters["streams_broken"] += 1

    async def _serve_sealed(
        self, theirs: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert self.seal is not None
        ours = GREETING + secrets.token_bytes(_RANDOM_BYTES)
        await _write(writer, ours)
        context = theirs + ours
        frame = await self._read_frame(reader, self._config.stream_header_timeout_s)
        opened = self._open(frame, context)
        answer = await self._on_request(opened.plain, opened)
        if answer is not None:
            await _write(writer, self.seal.seal(answer, context + _ANSWER))

    async def _read_frame(
        self, reader: asyncio.StreamReader, header_timeout_s: float | None = None
    ) -> bytes:
        async with asyncio.timeout(header_timeout_s):
            header = await reader.readexactly(FRAME_HEADER_BYTES)
        length = int.from_bytes(header, "big")
        if not 0 < length <= self._config.frame_bytes_max:
            raise FrameRefused(
                f"a frame must have 1 to {self._config.frame_bytes_max} bytes; got {length}"
            )
        return await reader.readexactly(length)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _write(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(len(body).to_bytes(FRAME_HEADER_BYTES, "big") + body)
    await writer.drain()


def _is_greeting(frame: bytes) -> bool:
    return frame[:1] == GREETING and len(frame) == 1 + _RANDOM_BYTES


async def advertised(said: Address | None, bound: Address, towards: Address | None) -> Address:
    """Return the address at which others reach a socket that is bound to `bound`.

    said: the configured address, a host name or an IP literal; None: find one.
    towards: a peer, if one is known.
    Raises BindFailed when a name does not resolve.
    """
    if said is None:
        return (await _advertised_host(bound[0], towards), bound[1])
    with contextlib.suppress(ValueError):
        return (str(ip_address(said[0])), said[1])
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in bound[0] else socket.AF_INET
    try:
        found = await loop.getaddrinfo(*said, family=family, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise BindFailed(f"cannot advertise {said[0]}:{said[1]}: {error}") from error
    return (str(found[0][4][0]), said[1])


async def _advertised_host(bound_host: str, towards: Address | None) -> str:
    """Return the host at which others reach a socket bound to `bound_host`.

    For a wildcard it is our end of the route `towards` a peer, else of the default route, else the
    address of our host name, else the loopback. Takes about a second at most.
    """
    if bound_host not in _WILDCARDS:
        return bound_host
    family, world = _WILDCARDS[bound_host]
    for target in (towards, world, (socket.gethostname(), _ANY_PORT)):
        if target is None:
            continue
        with contextlib.suppress(OSError, UnicodeError):  # TimeoutError is an OSError.
            async with asyncio.timeout(_RESOLVE_TIMEOUT_S):
                return await _local_end(family, target)
    return "127.0.0.1" if family == socket.AF_INET else "::1"


async def _local_end(family: int, target: Address) -> str:
    """Return our end of the route to `target`. Connecting a datagram socket sends nothing."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(*target, family=family, type=socket.SOCK_DGRAM)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(found[0][4])
        return str(probe.getsockname()[0])


def _bind_both(family: int, address: Address) -> tuple[socket.socket, socket.socket]:
    """Return a TCP and a UDP socket on one port. Raises OSError with neither left open."""
    attempts = 1 if address[1] else _BIND_ATTEMPTS
    for attempt in range(attempts):
        tcp = socket.socket(family, socket.SOCK_STREAM)
        udp = socket.socket(family, socket.SOCK_DGRAM)
        try:
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind(address)
            udp.bind((address[0], tcp.getsockname()[1]))
        except OSError:
            tcp.close()
            udp.close()
            if attempt + 1 == attempts:
                raise
            continue
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        for bound in (tcp, udp):
            bound.setblocking(False)
        return tcp, udp
    raise AssertionError("unreachable: the last attempt returns or raises")
