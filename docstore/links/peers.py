"""Links between nodes: one ordered TCP connection per direction and pair, frames of messages.

Each node dials every other. What it dials it writes on; what it accepted it reads from. Both
sides open with Hello, so that nobody speaks to another cluster, another node or another disk
than it thinks. What one loop turn had to say to a peer leaves as one frame at the end of the
turn. A peer that does not read fast enough loses messages beyond a bound; the protocol's timers
repair that.
"""

import asyncio
import random
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from docstore.links.certified import Certified
from docstore.links.framed import Framed
from docstore.links.frames import Packed, pack_hello, unpack_frame
from docstore.links.refusals import Refusals
from docstore.links.versions import Spoken
from docstore.tls.accepting import TlsServer
from docstore.wire import Hello, Message

SEND_BUFFER_BYTES_MAX = 64 << 20
HELLO_TIMEOUT_S = 2.0
SILENCE_MAX_S = 5.0
"""A peer's heartbeats come five times a second: who says nothing for so long has vanished."""

DIAL_PAUSE_S = (0.05, 1.0)

log = structlog.get_logger("docstore.links.peers")


@dataclass(slots=True)
class PeerEvents:
    """What the links tell the node. All are called in the event loop.

    hello: gives the opening frame to show to a peer ("" when it is not known who it is).
    admit: says why a peer's Hello is refused, None if it is welcome.
    """

    hello: Callable[[str], Hello]
    admit: Callable[[Hello], str | None]
    received: Callable[[str, Message, int], None]
    linked: Callable[[str], None]
    lost: Callable[[str], None]


class Inbound(Framed):
    """A connection that a peer dialled: we read, and it is how we hear that peer."""

    def __init__(self, links: "PeerLinks") -> None:
        super().__init__()
        self._links = links
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._watch = self._loop.call_later(HELLO_TIMEOUT_S, self._time_up)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the connections to be closed in the end."""
        super().connection_made(transport)
        self._links.inbound[self] = None

    def hello(self, hello: Hello) -> None:
        """Admit the peer or close."""
        if not self._links.is_proved(self, hello.sender):
            self.close()
            return
        events, spoken = self._links.events, self._links.spoken
        knows = hello.protocol in spoken
        why_not = events.admit(hello) if knows else f"it proposes protocol {hello.protocol}"
        if why_not:
            self._links.refusals.tell(hello.sender, why_not)
        else:
            self._links.refusals.admitted(hello.sender)
            self._watch.cancel()
            self._watch = self._loop.call_later(SILENCE_MAX_S, self._still_there)
            self.peer = hello.sender
        assert self.transport is not None
        self.protocol = hello.protocol if knows else spoken.greatest
        answer = events.hello(hello.sender)._replace(protocol=self.protocol)
        self.transport.write(pack_hello(answer))
        if why_not:
            self.transport.close()

    def frame(self, body: bytearray) -> None:
        """Hand over the messages, one after the other."""
        if self.peer is None:
            return
        self._heard_at = self._loop.time()
        received = self._links.events.received
        configuration, messages = unpack_frame(body)
        for message in messages:
            received(self.peer, message, configuration)

    def connection_lost(self, exc: Exception | None) -> None:
        """A peer that we heard on this connection is not heard any more."""
        self._watch.cancel()
        self._links.inbound.pop(self, None)
        if self.peer is not None and not self._links.hears(self.peer):
            self._links.silenced(self.peer)

    def _time_up(self) -> None:
        self.close()

    def _still_there(self) -> None:
        """Close a connection that is half open, so that the peer dials anew when it can."""
        silent_s = self._loop.time() - self._heard_at
        if silent_s >= SILENCE_MAX_S:
            self._links.counters["links_silent"] += 1
            self.close()
            return
        self._watch = self._loop.call_later(SILENCE_MAX_S - silent_s, self._still_there)


class Outbound(Framed):
    """A connection that we dialled: we write."""

    def __init__(self, links: "PeerLinks", peer: str) -> None:
        super().__init__()
        self._links = links
        self.peer: str = peer
        self.protocol = links.proposal(peer)
        loop = asyncio.get_running_loop()
        self.welcomed: asyncio.Future[bool] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.queue: list[Message] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open with our Hello; let the kernel give up on a peer that acknowledges nothing."""
        super().connection_made(transport)
        assert self.transport is not None
        if not self._links.is_proved(self, self.peer):
            self.close()
            return
        raw = transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENCE_MAX_S * 1000))
        hello = self._links.events.hello(self.peer)._replace(protocol=self.protocol)
        self.transport.write(pack_hello(hello))

    def hello(self, hello: Hello) -> None:
        """Check that the one who answers is the one we meant, and speaks as we do."""
        events = self._links.events
        is_meant = hello.sender == self.peer
        if is_meant and hello.protocol != self.protocol:
            self._links.counters["dials_refused"] += 1
            self._links.propose(self.peer, hello.protocol)
        fits = is_meant and hello.protocol == self.protocol
        if not self.welcomed.done():
            self.welcomed.set_result(fits and events.admit(hello) is None)

    def frame(self, body: bytearray) -> None:
        """Nothing is expected here."""

    def hang_up(self) -> None:
        """Close once what was written has left."""
        if self.transport is not None:
            self.transport.close()

    def flush(self, packed: Packed) -> None:
        """Write what this turn had to say, as one frame. packed: the frames of the turn."""
        messages, self.queue = self.queue, []
        if self.transport is None or self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() > SEND_BUFFER_BYTES_MAX:
            self._links.counters["messages_dropped"] += len(messages)
            return
        frame = packed.frame(self._links.configuration, messages, self.protocol)
        self._links.counters["frames_sent"] += 1
        self._links.counters["bytes_sent"] += len(frame)
        self.transport.write(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the one who dialled."""
        if isinstance(exc, OSError) and not self.welcomed.done():
            self._links.failed(self.peer, exc)
        if not self.welcomed.done():
            self.welcomed.set_result(False)
        if not self.closed.done():
            self.closed.set_result(None)


class PeerLinks:
    """All links of one node."""

    def __init__(
        self,
        events: PeerEvents,
        spoken: Spoken = Spoken(),  # noqa: B008
        certified: Certified | None = None,
    ) -> None:
        """certified: with TLS; None: in plain text."""
        self.events = events
        self.spoken = spoken
        self.counters: Counter[str] = certified.counters if certified else Counter()
        self._certified = certified
        self.configuration = 0
        """Id of the configuration that this node counts by; every frame carries it."""
        self.inbound: dict[Inbound, None] = {}
        self.refusals = Refusals()
        self._outbound: dict[str, Outbound] = {}
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._addresses: dict[str, tuple[str, int]] = {}
        self._wake: dict[str, asyncio.Event] = {}
        self._proposals: dict[str, int] = {}
        """Peers that did not know the greatest protocol of ours -> what is proposed to them."""
        self._full: dict[Outbound, None] = {}
        """Connections with something to say, in the order in which they got it."""
        self._server: asyncio.Server | TlsServer | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen for peers. Raises OSError when the port is taken."""
        if self._certified is not None:
            self._server = await self._certified.listen(lambda: Inbound(self), host, port)
            return
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Inbound(self), host, port)

    def connect(self, peer: str, address: tuple[str, int]) -> None:
        """Keep a connection to the peer at this address, from now on; may be called again."""
        self._addresses[peer] = address
        if peer not in self._dialling:
            self._wake[peer] = asyncio.Event()
            self._dialling[peer] = asyncio.get_running_loop().create_task(self._dial(peer))
        self._wake[peer].set()

    def disconnect(self, peer: str) -> None:
        """Dial a node no more, and close what stands to it."""
        self._addresses.pop(peer, None)
        self._wake.pop(peer, None)
        task = self._dialling.pop(peer, None)
        if task is not None:
            task.cancel()
        outbound = self._outbound.pop(peer, None)
        if outbound is not None:
            outbound.flush(Packed())
            self._full.pop(outbound, None)
            outbound.hang_up()

    def send(self, peer: str, message: Message) -> None:
        """Put a message into the frame that leaves at the end of this turn, or drop it."""
        outbound = self._outbound.get(peer)
        if outbound is None:
            self.counters["messages_unsent"] += 1
            return
        outbound.queue.append(message)
        self._full[outbound] = None

    def flush(self) -> None:
        """Let the frames of this turn leave."""
        packed = Packed()
        for outbound in self._full:
            outbound.flush(packed)
        self._full.clear()

    def is_linked(self, peer: str) -> bool:
        """Say whether we can write to a peer."""
        return peer in self._outbound

    def protocol_of(self, peer: str) -> int:
        """Return the protocol in which a peer that is linked is spoken to."""
        return self._outbound[peer].protocol

    def end_before(self, protocol: int) -> None:
        """Close what stands in earlier protocols; it is dialled anew, and admitted or not."""
        for connection in [*self.inbound, *self._outbound.values()]:
            if connection.protocol < protocol:
                connection.close()

    def is_proved(self, connection: Framed, node: str) -> bool:
        """Say whether a node is at the other end, as far as TLS can tell: without it, it may be."""
        assert connection.transport is not None
        return self._certified is None or self._certified.is_of(connection.transport, node)

    def failed(self, peer: str, error: OSError) -> None:
        """Say why TLS with a peer failed, if it was that; the peer may just not be there."""
        if self._certified is not None:
            self._certified.failed(peer, error)

    def judge_again(self) -> None:
        """Hang up on those that would not be let in any more by what is believed now."""
        for each in [*self.inbound, *self._outbound.values()]:
            if self._certified is None or each.peer is None or each.transport is None:
                continue
            if not self._certified.is_of(each.transport, each.peer):
                each.close()

    def hears(self, peer: str) -> bool:
        """Say whether a connection from a peer stands."""
        return any(each.peer == peer for each in self.inbound)

    def proposal(self, peer: str) -> int:
        """Return the protocol to be proposed to a peer."""
        return self._proposals.get(peer, self.spoken.greatest)

    def propose(self, peer: str, protocol: int) -> None:
        """Propose another protocol to a peer with the next dial, if we speak it."""
        if protocol in self.spoken:
            self._proposals[peer] = protocol
        else:
            log.warning("peer speaks no protocol of ours", peer=peer, protocol=protocol)

    def silenced(self, peer: str) -> None:
        """The last connection from a peer has broken."""
        self.events.lost(peer)
        if peer in self._outbound:
            self.events.linked(peer)
        if peer in self._wake:
            self._wake[peer].set()

    async def stop(self) -> None:
        """Close everything; nothing is told to the node any more."""
        for task in self._dialling.values():
            task.cancel()
        await asyncio.gather(*self._dialling.values(), return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for connection in [*self.inbound, *self._outbound.values()]:
            if isinstance(connection, Inbound):
                connection.peer = None
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()

    async def _dial(self, peer: str) -> None:
        """Dial, hold, and dial again when it breaks, with a pause that grows and jitters."""
        pause_s = DIAL_PAUSE_S[0]
        while True:
            outbound = await self._open(peer)
            if outbound is not None:
                pause_s = DIAL_PAUSE_S[0]
                self._outbound[peer] = outbound
                self.events.linked(peer)
                await outbound.closed
                del self._outbound[peer]
                self._proposals.pop(peer, None)  # It may come back upgraded.
                self._full.pop(outbound, None)
                self.events.lost(peer)
            self._wake[peer].clear()
            try:
                async with asyncio.timeout(pause_s * (0.5 + random.random())):
                    await self._wake[peer].wait()
            except TimeoutError:
                pause_s = min(pause_s * 2, DIAL_PAUSE_S[1])

    async def _open(self, peer: str) -> Outbound | None:
        """Return a connection on which the peer has welcomed us, or None."""
        host, port = self._addresses[peer]
        loop = asyncio.get_running_loop()
        outbound: Outbound | None = None
        tls = self._certified.dialling() if self._certified else {}
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                _, outbound = await loop.create_connection(
                    lambda: Outbound(self, peer), host, port, **tls
                )
                if await outbound.welcomed:
                    return outbound
        except (OSError, TimeoutError) as error:
            self.counters["dials_failed"] += 1
            self.failed(peer, error)
        if outbound is not None:
            outbound.close()
        return None
