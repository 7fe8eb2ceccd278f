"""Hosts, the links between them, and connections that behave like those of TCP."""

import asyncio
import socket
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import Any

from tests.whole.loop import LIFE, Life, VirtualLoop

CLIENT = "client"
HANGS_S = 60.0


class Network:
    """Directed links that delay, and are cut; data on their way wait, or are reset."""

    def __init__(self, loop: VirtualLoop, rng: Random) -> None:
        self.loop, self.rng = loop, rng
        self.cuts: set[tuple[str, str]] = set()
        self.lags: dict[tuple[str, str], float] = {}
        """Directed link -> seconds by which all data on it are late."""
        self.lateness = 0.002
        """Share of the data that is up to a second late."""
        self._listening: dict[tuple[str, int], tuple[Any, Context, Life | None]] = {}
        self._wires: set[Wire] = set()
        self._held: list[tuple[Wire, bytes | None]] = []
        self._datagrams: dict[tuple[str, int], tuple[Callable[..., None], Context]] = {}
        self._requests: dict[tuple[str, int], tuple[Any, Context]] = {}

    def _delay(self) -> float:
        late = self.rng.random() < self.lateness
        return 0.0002 + self.rng.random() * 0.001 + (self.rng.random() if late else 0.0)

    # Streams

    def listen(self, factory: Any, host: str, port: int) -> "Server":
        """Take connections for a host."""
        if (host, port) in self._listening:
            raise OSError(f"{host}:{port} is taken")
        self._listening[host, port] = (factory, copy_context(), LIFE.get())
        return Server(self, host, port)

    def close(self, host: str, port: int) -> None:
        """Take no more connections."""
        self._listening.pop((host, port), None)

    async def connect(self, factory: Any, host: str, port: int) -> tuple["Wire", Any]:
        """Return a connection from the host of the present life."""
        life = LIFE.get()
        here = life.host if life else CLIENT
        await asyncio.sleep(self._delay() * 2)
        if (here, host) in self.cuts or (host, here) in self.cuts:
            await asyncio.sleep(HANGS_S)
            raise TimeoutError(f"{host}:{port} does not answer")
        found = self._listening.get((host, port))
        if found is None:
            raise ConnectionRefusedError(f"no process listens at {host}:{port}")
        their_factory, their_context, their_life = found
        if their_life is not None and their_life.paused:
            await asyncio.sleep(HANGS_S)
        mine, theirs = factory(), their_context.copy().run(their_factory)
        near = Wire(self, here, copy_context(), mine)
        far = Wire(self, host, their_context.copy(), theirs)
        near.peer, far.peer = far, near
        near.name, far.name = (host, port), (here, 40_000)
        self._wires |= {near, far}
        mine.connection_made(near)
        self.loop.call_soon(theirs.connection_made, far, context=far.context)
        return near, mine

    def carry(self, wire: "Wire", data: bytes | None) -> None:
        """Bring data to the other end, in order; None is its end."""
        peer = wire.peer
        assert peer is not None
        if (wire.host, peer.host) in self.cuts:
            self._held.append((wire, data))
            return
        # Later than the data before, since the loop has no order of equal moments.
        later = self._delay() + self.lags.get((wire.host, peer.host), 0.0)
        wire.arrives = max(wire.arrives + 1e-7, self.loop.now + later)
        self.loop.call_at_true(wire.arrives, peer.deliver, data, context=peer.context)

    def cut(self, links: set[tuple[str, str]]) -> None:
        """Cut directed links; some of the connections break at once, the others hang."""
        self.cuts |= links
        for wire in sorted(self._wires, key=lambda each: each.number):
            broken = wire.peer is not None and (wire.host, wire.peer.host) in links
            if broken and self.rng.random() < 0.5:
                self.loop.call_later(self.rng.random() * 0.2, wire.reset, context=Context())

    def mend(self, links: set[tuple[str, str]]) -> None:
        """Repair links; hanging connections continue."""
        self.cuts -= links
        held, self._held = self._held, []
        for wire, data in held:
            self.carry(wire, data)

    def reset(self, between: set[str]) -> None:
        """Break every connection between two hosts. Data on their way are lost."""
        for wire in sorted(self._wires, key=lambda each: each.number):
            if wire.peer is not None and {wire.host, wire.peer.host} == between:
                wire.reset()

    def gone(self, wire: "Wire") -> None:
        """Forget a connection."""
        self._wires.discard(wire)

    def lost(self, host: str) -> None:
        """Close all that an ended host listens at, and reset its peers' connections."""
        for table in (self._listening, self._datagrams, self._requests):
            for address in [each for each in table if each[0] == host]:
                del table[address]
        for wire in sorted(self._wires, key=lambda each: each.number):
            if wire.host == host:
                self.gone(wire)
                if wire.peer is not None:
                    later = self.rng.random() * 0.01
                    self.loop.call_later(later, wire.peer.broken, context=wire.peer.context)

    # Gossip

    def bind(self, address: tuple[str, int], datagram: Any, request: Any) -> None:
        """Let a host take datagrams and requests."""
        self._datagrams[address] = (datagram, copy_context())
        self._requests[address] = (request, copy_context())

    def unbind(self, address: tuple[str, int]) -> None:
        """Take no more."""
        self._datagrams.pop(address, None)
        self._requests.pop(address, None)

    def throw(self, source: tuple[str, int], to: tuple[str, int], data: bytes) -> None:
        """Send a datagram, which may be lost."""
        found = self._datagrams.get(to)
        if found is None or (source[0], to[0]) in self.cuts or self.rng.random() < 0.01:
            return
        take, context = found
        self.loop.call_later(self._delay(), take, data, source, context=context)

    async def ask(self, source: str, to: tuple[str, int], body: bytes) -> bytes:
        """Return the answer to a request of gossip."""
        await asyncio.sleep(self._delay())
        found = self._requests.get(to)
        if (source, to[0]) in self.cuts or (to[0], source) in self.cuts:
            await asyncio.sleep(HANGS_S)
        if found is None:
            raise ConnectionRefusedError(f"no process listens at {to}")
        serve, context = found
        serving = self.loop.create_task(serve(body, None), context=context.copy())
        # A host that dies half-way never answers, and is not cancelled by this caller's timeout.
        answer = await asyncio.shield(serving)
        await asyncio.sleep(self._delay())
        if answer is None:
            raise EOFError
        return bytes(answer)


class Server:
    """Result of create_server, as far as it is used."""

    def __init__(self, network: Network, host: str, port: int) -> None:
        self._network, self._address = network, (host, port)
        self.sockets = (self,)

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        self._network.close(*self._address)

    async def wait_closed(self) -> None:
        return


class _Socket:
    """Socket of a transport, as far as it is used."""

    family = socket.AF_INET

    def setsockopt(self, *_: Any) -> None:
        return

    def fileno(self) -> int:
        """Say that there is none, as that of a connection which was closed."""
        raise OSError("no descriptors here")


class Wire(asyncio.Transport):
    """One end of a connection."""

    _numbers = 0

    def __init__(self, network: Network, host: str, context: Context, protocol: Any) -> None:
        super().__init__()
        Wire._numbers += 1
        self.number = Wire._numbers
        self.host, self.context = host, context
        self.name: tuple[str, int] = ("", 0)
        self.peer: Wire | None = None
        self.arrives = 0.0
        self._network, self._protocol = network, protocol
        self._closing = self._ended = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the named detail of the connection."""
        known = {"peername": self.name, "sockname": (self.host, 0), "socket": _Socket()}
        return known.get(name, default)

    def write(self, data: Any) -> None:
        """Send bytes to the other end."""
        if not self._closing and data:
            self._network.carry(self, bytes(data))

    def writelines(self, parts: Any) -> None:
        """Send several pieces as one."""
        self.write(b"".join(bytes(part) for part in parts))

    def deliver(self, data: bytes | None) -> None:
        """Take what has arrived."""
        if self._ended:
            return
        if data is None:
            if not self._protocol.eof_received():
                self.close()
        else:
            self._protocol.data_received(data)

    def close(self) -> None:
        """Let all written data arrive, then end."""
        if not self._closing:
            self._closing = True
            self._network.carry(self, None)
            self._network.loop.call_soon(self._end, None, context=self.context)

    def abort(self) -> None:
        """End at once; the other end is reset."""
        self._closing = True
        self.reset()

    def reset(self) -> None:
        """Break the connection for both ends."""
        loop = self._network.loop
        for wire in (self, self.peer):
            if wire is not None:
                loop.call_soon(wire.broken, context=wire.context)

    def broken(self) -> None:
        """Note that the connection is broken."""
        self._end(ConnectionResetError("reset"))

    def _end(self, error: Exception | None) -> None:
        if not self._ended:
            self._closing = self._ended = True
            self._network.gone(self)
            self._protocol.connection_lost(error)

    def is_closing(self) -> bool:
        """Say whether writing has ended."""
        return self._closing

    def get_write_buffer_size(self) -> int:
        """Return 0: the network takes everything."""
        return 0

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        """Do nothing: the network takes everything."""

    def get_protocol(self) -> Any:
        """Return the protocol that gets the data."""
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        """Give the data to another protocol."""
        self._protocol = protocol

    def pause_reading(self) -> None:
        """Do nothing: no reader is slow enough to need it."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    def is_reading(self) -> bool:
        """Return True: reading is never paused."""
        return True
