"""A proxy for each directed pair of nodes, which does to their links what networks do.

Bytes are passed on in order or not at all, as by TCP: late, in pieces cut at any byte, slowly;
the connection is reset in the middle of a frame, refused, or half open, where no bytes pass and
neither end notices. Garbage is what a broken peer would send.
"""

import asyncio
import contextlib
import random
from dataclasses import dataclass, field

CHUNK = 65_536


@dataclass(slots=True)
class Link:
    """The state of one directed link, switched by the nemesis."""

    cut: bool = False
    """Refuse connections, and break open ones."""
    frozen: bool = False
    """Half open: take bytes, pass none on."""
    delay_s: float = 0.0
    jitter_s: float = 0.0
    pieces: int = 0
    """Greatest number of bytes passed on at once, a random number of them; 0 for no limit."""
    rate: float = 0.0
    """Bytes a second; 0 for no limit."""
    reset_p: float = 0.0
    """Probability, for each chunk, that half of it is passed on and the connection reset."""
    garbage_p: float = 0.0
    """Probability, for each chunk, that noise is passed on in its place."""

    def clear(self) -> None:
        """End all faults of the link."""
        self.cut = self.frozen = False
        self.delay_s = self.jitter_s = self.rate = self.reset_p = self.garbage_p = 0.0
        self.pieces = 0


@dataclass(slots=True)
class Proxy:
    """One listener in front of one node, for one other node."""

    target: int
    rng: random.Random
    link: Link = field(default_factory=Link)
    port: int = 0
    _server: asyncio.Server | None = None
    _pairs: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> None:
        """Listen on a port of the kernel's choice."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close all."""
        self.break_all()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._pairs, return_exceptions=True)

    def break_all(self) -> None:
        """Reset every open connection."""
        for pair in self._pairs:
            pair.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs.add(task)
        try:
            if not self.link.cut:
                await self._join(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # One side went away, or the link was cut.
        finally:
            self._pairs.discard(task)
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            ways = [
                asyncio.create_task(self._pass_on(reader, there[1])),
                asyncio.create_task(self._pass_on(there[0], writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            there[1].transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes one way until an end is reached or the weather breaks the connection."""
        link, rng = self.link, self.rng
        while chunk := await reader.read(CHUNK):
            while link.frozen:
                await asyncio.sleep(0.05)
            if link.delay_s or link.jitter_s:
                await asyncio.sleep(link.delay_s + rng.random() * link.jitter_s)
            if link.reset_p and rng.random() < link.reset_p:
                writer.write(chunk[: rng.randrange(len(chunk))])
                return
            if link.garbage_p and rng.random() < link.garbage_p:
                chunk = rng.randbytes(min(len(chunk), 64))
            await self._write(writer, chunk)

    async def _write(self, writer: asyncio.StreamWriter, chunk: bytes) -> None:
        link, rng, start = self.link, self.rng, 0
        while start < len(chunk):
            size = rng.randint(1, link.pieces) if link.pieces else len(chunk)
            writer.write(chunk[start : start + size])
            start += size
            if link.pieces:
                await asyncio.sleep(0)
            if link.rate:
                await asyncio.sleep(size / link.rate)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
