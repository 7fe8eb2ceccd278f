"""A connection as frames: a byte stream that is cut into frames, of which the first is a Hello."""

import asyncio
from abc import ABC, abstractmethod
from typing import cast

import structlog

from docstore.wire.frames import FRAME_BYTES_MAX, unpack_hello
from docstore.wire.link_messages import Hello

log = structlog.get_logger("docstore.runtime.links.peers")


class Framed(asyncio.Protocol, ABC):
    """Cuts a byte stream into frames; the first is a Hello."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: str | None = None
        """The node at the other end; None before it is known."""
        self.protocol = 0
        """The protocol of the connection; 0 until it is known."""
        self._buffer = bytearray()
        self._hello_seen = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport is another class.

    def data_received(self, data: bytes) -> None:
        """Deliver the complete frames; a malformed one closes the connection."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= 4:
                size = int.from_bytes(buffer[start : start + 4], "big")
                if size > FRAME_BYTES_MAX:
                    raise ValueError(
                        f"a frame must have at most {FRAME_BYTES_MAX} bytes; got {size}"
                    )
                if len(buffer) - start - 4 < size:
                    break
                self._deliver(buffer[start + 4 : start + 4 + size])
                start += 4 + size
        except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
            log.warning("peer link closed: malformed frame", error=repr(error)[:200])
            self.close()
            return
        if start:
            del buffer[:start]

    def _deliver(self, body: bytearray) -> None:
        if self._hello_seen:
            self.frame(body)
        else:
            self._hello_seen = True
            self.hello(unpack_hello(body))

    @abstractmethod
    def hello(self, hello: Hello) -> None:
        """Take the peer's opening frame."""

    @abstractmethod
    def frame(self, body: bytearray) -> None:
        """Take a frame of messages."""

    def close(self) -> None:
        """Drop the connection and the data in its buffers."""
        if self.transport is not None:
            self.transport.abort()
