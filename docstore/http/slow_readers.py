"""Abort connections whose clients make no progress, and drain sockets after a close.

An answer that its client does not read stays in this process, also one of megabytes, and a close in
order waits until it has been read. So a connection is aborted once its client has read no byte of
the answer, and sent none of the request, for `send_timeout_s`. A slow client that reads stays.
nginx does the same (`send_timeout`). A feed that ends like this goes on from its reader's token.

All connections are looked at four times in that span, since most answers are read at once: a timer
for each would cost more.
"""

import asyncio
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

LOOKS = 4
"""In the span after which a connection is given up on."""
LINGER_S = 2.0
"""How long a socket is read after its connection was closed."""
LINGERING_MAX = 256

Mark = tuple[int, ...]
"""A value that changes whenever a client reads or sends; compared for equality only."""


class WatchedConnection(Protocol):
    """A connection, as it is looked at."""

    def mark(self) -> Mark | None:
        """Return how far its client has come; None while everything is taken."""

    def abort(self) -> None:
        """Hang up at once, whatever is unread."""


@dataclass(slots=True)
class _Stuck:
    """A connection whose client has not moved on."""

    mark: Mark
    looks: int = 0


class SlowReaders:
    """Connections without progress since the last look."""

    def __init__(self) -> None:
        self._stuck: dict[WatchedConnection, _Stuck] = {}

    def look(self, clients: Iterable[WatchedConnection]) -> int:
        """Abort connections without progress for `LOOKS` looks; return their number."""
        waited, self._stuck = self._stuck, {}
        given_up = 0
        for client in tuple(clients):
            mark = client.mark()
            if mark is None:
                continue
            stuck = waited.get(client)
            if stuck is None or stuck.mark != mark:
                stuck = _Stuck(mark)
            else:
                stuck.looks += 1
            if stuck.looks < LOOKS:
                self._stuck[client] = stuck
            else:
                client.abort()
                given_up += 1
        return given_up


class Lingering:
    """Sockets of connections that are closed in order: what their clients still send is dropped.

    A system that closes a socket with something unread resets the connection, and a reset takes
    from its client the answer that lies there unread (RFC 9112, section 9.6).
    """

    def __init__(self) -> None:
        self._open: dict[socket.socket, asyncio.TimerHandle] = {}

    def take(self, held: socket.socket) -> None:
        """Send the end of a connection, and read on until its client closes as well."""
        try:
            held.shutdown(socket.SHUT_WR)
        except OSError:
            held.close()
            return
        if len(self._open) >= LINGERING_MAX:
            held.close()
            return
        held.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_reader(held, self._read, held)
        self._open[held] = loop.call_later(LINGER_S, self._end, held)

    def close(self) -> None:
        """Read no more."""
        for held in tuple(self._open):
            self._end(held)

    def __len__(self) -> int:
        return len(self._open)

    def _read(self, held: socket.socket) -> None:
        try:
            ended = not held.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            self._end(held)

    def _end(self, held: socket.socket) -> None:
        self._open.pop(held).cancel()
        asyncio.get_running_loop().remove_reader(held)
        held.close()
