"""Ask the kernel for bytes that a client has not acknowledged, or that were not read (Linux).

With TLS a transport knows of what it has yet to encrypt, and of no more: the rest lies in another
one below it that asyncio and uvloop do not show.

Source: tcp(7) for TCP_INFO and SIOCOUTQ; linux/tcp.h for where `tcpi_bytes_acked` stands.
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
    """The part of a socket that a transport shows."""

    def fileno(self) -> int:
        """Return its descriptor."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Return what the system says of it."""


def acknowledged(connection: Socket) -> int | None:
    """Return how many bytes were acknowledged in all; None while none waits for it."""
    if sys.platform != "linux":
        return None
    try:
        waiting = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_WAITING.size))
        said = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED.size)
    except (OSError, ValueError):  # It has been closed.
        return None
    (acked,) = _ACKED.unpack(said)
    return int(acked) if any(_WAITING.unpack(waiting)) else None


def has_unread(connection: Socket) -> bool:
    """Say whether a client has sent what was not read yet."""
    try:
        waiting = fcntl.ioctl(connection.fileno(), termios.FIONREAD, bytes(_WAITING.size))
    except (OSError, ValueError):  # It has been closed.
        return False
    return any(waiting)
