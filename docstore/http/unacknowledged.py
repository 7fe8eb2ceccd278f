"""Ask the kernel for bytes that a client has not acknowledged, or that are not read (Linux).

With TLS, a transport counts only the bytes that it has yet to encrypt. The encrypted bytes wait in
the transport below it, which asyncio and uvloop do not show. Source: tcp(7) for TCP_INFO and
SIOCOUTQ; linux/tcp.h for the offset of `tcpi_bytes_acked`.
"""

import fcntl
import socket
import struct
import sys
import termios
from typing import Protocol

_ACKED = struct.Struct("=120xQ")
_WAITING = struct.Struct("=i")


class Socket(Protocol):
    """The methods of a socket that a transport shows."""

    def fileno(self) -> int:
        """Return the descriptor."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Return the value of a socket option."""


def acknowledged(connection: Socket) -> int | None:
    """Return the count of acknowledged bytes; None if no byte waits for acknowledgement."""
    if sys.platform != "linux":
        return None
    try:
        waiting = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_WAITING.size))
        said = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED.size)
    except (OSError, ValueError):  # The socket is closed.
        return None
    (acked,) = _ACKED.unpack(said)
    return int(acked) if any(_WAITING.unpack(waiting)) else None


def has_unread(connection: Socket) -> bool:
    """Say whether bytes from the client are in the socket, not read yet."""
    try:
        waiting = fcntl.ioctl(connection.fileno(), termios.FIONREAD, bytes(_WAITING.size))
    except (OSError, ValueError):  # The socket is closed.
        return False
    return any(waiting)
