"""Abort connections whose clients make no progress, and drain sockets after a close.

An unread answer, even one of megabytes, stays in this process, and an orderly close waits until the
client has read it. So a connection is aborted if its client has neither read a byte of the answer
nor sent a byte of the request for `send_timeout_s`. A slow client that still reads stays connected.
nginx does the same (`send_timeout`). An aborted feed continues from its reader's token. All
connections are checked four times in that span: most answers are read at once, so a timer for each
would cost more.
"""

import asyncio
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

LOOKS = 4
"""Checks in the span after which a connection is aborted."""
LINGER_S = 2.0
"""Seconds for which a socket is read after its connection was closed."""
LINGERING_MAX = 256

Mark = tuple[int, ...]
"""A value that changes whenever a client reads or sends; compared for equality only."""


class WatchedConnection(Protocol):
    """The part of a connection that the checks need."""

    def mark(self) -> Mark | None:
        """Return the client's progress; None if no bytes wait to be read."""

    def abort(self) -> None:
        """Close at once, even with unread answers."""


@dataclass(slots=True)
class _Stuck:
    """A connection without progress since the last check."""

    mark: Mark
    looks: int = 0


class SlowReaders:
    """Aborts connections without progress."""

    def __init__(self) -> None:
        self._stuck: dict[WatchedConnection, _Stuck] = {}

    def look(self, clients: Iterable[WatchedConnection]) -> int:
        """Check connections; abort those without progress for `LOOKS` checks.

        Returns the number of aborted connections.
        """
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
    """Drains the sockets of orderly closed connections: drops the bytes that clients still send.

    If a socket is closed with unread input, the system resets the connection, and the reset takes
    the unread answer from the client (RFC 9112, section 9.6).
    """

    def __init__(self) -> None:
        self._open: dict[socket.socket, asyncio.TimerHandle] = {}

    def take(self, held: socket.socket) -> None:
        """Shut down the sending side, and read until the client closes as well."""
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
