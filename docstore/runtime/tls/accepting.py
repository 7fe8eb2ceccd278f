"""Accepts TLS connections at a port: each goes to its protocol once its handshake is done.

The servers of asyncio lack three things: they do not report failed handshakes, they do not count
unfinished ones, each of which is an open file, and they close a plain-text connection without an
answer.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from docstore.runtime.tls.contexts import FAILURES

BACKLOG = 1024
AT_ONCE = 64
"""Connections accepted in one turn of the loop."""

HANDSHAKE = b"\x16"
"""The first byte of a TLS connection: the type of its first record."""

CLOSE_S = 2.0
"""Seconds to wait for a peer's answer to the end of TLS."""

NO_FILES_PAUSE_S = 1.0

log = structlog.get_logger("docstore.tls")


@dataclass(frozen=True, slots=True)
class Entrance:
    """The callbacks of a port. All are called in the event loop.

    context: returns the SSL context for a new connection. protocol: makes the connection's
    protocol. enter: returns the reason for refusing an address, "" to accept it. leave: called when
    a handshake has ended. failed: called with the address and the reason of a failure. plain: the
    answer to a client that speaks plain text.
    """

    context: Callable[[], ssl.SSLContext]
    protocol: Callable[[], asyncio.BaseProtocol]
    failed: Callable[[str, str], None]
    enter: Callable[[str], str]
    leave: Callable[[str], None]
    patience_s: float
    plain: bytes = b""


class TlsServer:
    """A listening port, with the methods of asyncio's `Server`."""

    def __init__(self, entrance: Entrance, sockets: list[socket.socket]) -> None:
        self.sockets = sockets
        self._entrance = entrance
        self._loop = asyncio.get_running_loop()
        self._greeted: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def start_serving(self) -> None:
        for each in self.sockets:
            each.listen(BACKLOG)
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Stop listening, and close the connections in the middle of a handshake."""
        if self._is_closed:
            return
        self._is_closed = True
        for each in self.sockets:
            self._loop.remove_reader(each)
            each.close()
        for task in self._greeted:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._greeted, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._wait_for_files(listening, error)
                return
            if self._entrance.enter(str(address[0])):
                self._entrance.leave(str(address[0]))
                connection.close()
                continue
            connection.setblocking(False)
            task = self._loop.create_task(self._greet(connection, str(address[0])))
            self._greeted.add(task)
            task.add_done_callback(self._greeted.discard)

    def _wait_for_files(self, listening: socket.socket, error: OSError) -> None:
        log.warning("no connection can be accepted", why=str(error))
        self._loop.remove_reader(listening)
        self._loop.call_later(NO_FILES_PAUSE_S, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        if not self._is_closed:
            self._loop.add_reader(listening, self._accept, listening)

    async def _greet(self, connection: socket.socket, address: str) -> None:
        entrance = self._entrance
        failures: list[ssl.SSLError] = []
        FAILURES.set(failures)  # The context belongs to this task alone.
        try:
            async with asyncio.timeout(entrance.patience_s):
                why_not = await self._opened(connection)
        except TimeoutError:
            why_not = f"no handshake within {entrance.patience_s:g} s"
        except OSError as error:
            why_not = in_words(failures[0] if failures else error)
        except asyncio.CancelledError:
            connection.close()
            raise
        finally:
            entrance.leave(address)
        if why_not:
            connection.close()
            entrance.failed(address, why_not)

    async def _opened(self, connection: socket.socket) -> str:
        """Do the handshake; return the reason of a failure, or "" without one. Raises OSError."""
        await self._readable(connection)
        first = connection.recv(1, socket.MSG_PEEK)
        if not first:  # A probe that only tests whether the port is open.
            connection.close()
            return ""
        if first != HANDSHAKE:
            if self._entrance.plain:
                connection.send(self._entrance.plain)
                connection.recv(1 << 16)  # Closing with unread data would discard the answer.
            return "it speaks plain text"
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._loop.connect_accepted_socket(
            self._entrance.protocol,
            connection,
            ssl=self._entrance.context(),
            ssl_handshake_timeout=self._entrance.patience_s,
            ssl_shutdown_timeout=CLOSE_S,
        )
        return ""

    async def _readable(self, connection: socket.socket) -> None:
        readable = asyncio.Event()
        self._loop.add_reader(connection, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(connection)


async def listen(
    entrance: Entrance, host: str, port: int, *, reuse_port: bool = False, start: bool = True
) -> TlsServer:
    """Listen at all addresses of a host. Raises OSError when the port is taken."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            sockets.append(socket.socket(family))
            _bind(sockets[-1], address, reuse_port=reuse_port)
    except BaseException:
        for each in sockets:
            each.close()
        raise
    server = TlsServer(entrance, sockets)
    if start:
        await server.start_serving()
    return server


def _bind(listening: socket.socket, address: Any, *, reuse_port: bool) -> None:
    listening.setblocking(False)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if reuse_port:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if listening.family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        listening.bind(address)
    except OSError as error:
        where = f"{address[0]}:{address[1]}"
        raise OSError(error.errno, f"{where} cannot be bound: {error.strerror}") from None


def in_words(error: OSError) -> str:
    """Return OpenSSL's reason for a failed handshake, without its source line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        words = error.reason.lower().replace("_", " ")
        _, is_alert, alert = words.rpartition(" alert ")
        return f"it refuses us: {alert}" if is_alert else words
    return str(error) or "it hung up"


TELL_AGAIN_S = 1.0


class RejectedConnections:
    """Counts the rejected connections of a port, and logs at most one per second.

    counted: called for each rejected connection.
    """

    def __init__(self, port: str, counted: Callable[[], None]) -> None:
        self._port = port
        self._counted = counted
        self._told_at = -TELL_AGAIN_S
        self._untold = 0

    def tell(self, address: str, why: str) -> None:
        """Count a rejected connection; log it unless another was logged within `TELL_AGAIN_S`."""
        self._counted()
        now = time.monotonic()
        if now - self._told_at < TELL_AGAIN_S:
            self._untold += 1
            return
        more = {"others": self._untold} if self._untold else {}
        self._told_at, self._untold = now, 0
        log.warning("turned away", port=self._port, address=address, why=why, **more)
