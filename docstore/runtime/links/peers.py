"""Links between nodes: one ordered TCP connection per direction and pair, frames of messages.

Each node dials every other node. It writes on connections that it dialled and reads from those that
it accepted. Both sides open with Hello, so that no node talks to another cluster, node or disk than
it expects. The messages of one turn of the loop to a peer leave as one frame at its end. If a peer
reads too slowly, the messages beyond a bound are lost; the protocol's timers repair that. A peer
whose connection gives no answers is reached through another node (`detours.py`).
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, cast

import structlog

from docstore.runtime.links.connections import (
    HELLO_TIMEOUT_S,
    Detour,
    Inbound,
    Outbound,
    PeerEvents,
    Refusals,
)
from docstore.runtime.links.detours import Detours
from docstore.runtime.links.framed import Framed
from docstore.runtime.tls.accepting import TlsServer
from docstore.wire.frames import Packed
from docstore.wire.link_messages import FIRST_PROTOCOL, PROTOCOL, Message, OfLinks, ProtocolRange

if TYPE_CHECKING:
    from docstore.runtime.links.certified import Certified

DIAL_PAUSE_S = (0.05, 1.0)

log = structlog.get_logger("docstore.runtime.links.peers")


class PeerLinks:
    """All links of one node."""

    def __init__(
        self,
        events: PeerEvents,
        spoken: ProtocolRange = ProtocolRange(FIRST_PROTOCOL, PROTOCOL),  # noqa: B008
        certified: "Certified | None" = None,
    ) -> None:
        """certified: checks certificates; None for links in plain text."""
        self.events = events
        self.spoken = spoken
        self.counters: Counter[str] = certified.counters if certified else Counter()
        self._certified = certified
        self.configuration = 0
        """Id of the configuration whose majorities this node counts; every frame carries it."""
        self.inbound: dict[Inbound, None] = {}
        self.refusals = Refusals()
        self.outbound: dict[str, Outbound] = {}
        """Peer -> the connection that this node has dialled."""
        self.ways: dict[str, Outbound | Detour] = {}
        """Peer -> the path of its messages: the connection in `outbound`, or a relay."""
        self._detours = Detours(self)
        self.of_links: Callable[[Inbound, OfLinks], None] = self._detours.said
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._addresses: dict[str, tuple[str, int]] = {}
        self._wake: dict[str, asyncio.Event] = {}
        self._proposals: dict[str, int] = {}
        """Peer that did not know this node's greatest protocol -> the protocol proposed to it."""
        self._full: dict[Outbound | Detour, None] = {}
        """Paths with queued messages, in the order in which they got their first message."""
        self._server: asyncio.Server | TlsServer | None = None

    async def start(self, host: str, port: int) -> None:
        if self._certified is not None:
            self._server = await self._certified.listen(lambda: Inbound(self), host, port)
            return
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Inbound(self), host, port)

    def connect(self, peer: str, address: tuple[str, int]) -> None:
        """Keep a connection to the peer at this address; may be called again."""
        self._addresses[peer] = address
        if peer not in self._dialling:
            self._wake[peer] = asyncio.Event()
            self._dialling[peer] = asyncio.get_running_loop().create_task(self._dial(peer))
        self._wake[peer].set()

    def disconnect(self, peer: str) -> None:
        self._addresses.pop(peer, None)
        self._wake.pop(peer, None)
        task = self._dialling.pop(peer, None)
        if task is not None:
            task.cancel()
        way, outbound = self.ways.pop(peer, None), self.outbound.pop(peer, None)
        if way is not None:
            way.flush(Packed())
            self._full.pop(way, None)
        if outbound is not None:
            outbound.hang_up()

    def send(self, peer: str, message: Message) -> None:
        way = self.ways.get(peer)
        if way is None:
            self.counters["messages_unsent"] += 1
            return
        way.queue.append(message)
        self._full[way] = None

    def deliver(self, peer: str, configuration: int, messages: Sequence[Message | OfLinks]) -> None:
        received = self.events.received
        for message in cast(Sequence[Message], messages):
            received(peer, message, configuration)

    def flush(self) -> None:
        packed = Packed()
        for way in self._full:
            way.flush(packed)
        self._full.clear()

    def is_linked(self, peer: str) -> bool:
        return peer in self.ways

    def dialled(self) -> Collection[str]:
        return self._addresses.keys()

    def protocol_of(self, peer: str) -> int:
        return self.ways[peer].protocol

    def end_before(self, protocol: int) -> None:
        """Close connections of earlier protocols; their peers must be admitted again."""
        for connection in [*self.inbound, *self.outbound.values()]:
            if connection.protocol < protocol:
                connection.close()

    def is_proved(self, connection: Framed, node: str) -> bool:
        """Say whether TLS proves that a node is at the other end; always true without TLS."""
        assert connection.transport is not None
        return self._certified is None or self._certified.is_of(connection.transport, node)

    def failed(self, peer: str, error: OSError) -> None:
        """Log the TLS error of a failed dial; a peer that does not answer is not logged."""
        if self._certified is not None:
            self._certified.failed(peer, error)

    def judge_again(self) -> None:
        """Close connections whose certificates are no longer accepted."""
        for each in [*self.inbound, *self.outbound.values()]:
            if self._certified is None or each.peer is None or each.transport is None:
                continue
            if not self._certified.is_of(each.transport, each.peer):
                each.close()

    def hears(self, peer: str) -> bool:
        return any(each.peer == peer for each in self.inbound)

    def proposal(self, peer: str) -> int:
        return self._proposals.get(peer, self.spoken.greatest)

    def propose(self, peer: str, protocol: int) -> None:
        """Propose another protocol with the next dial, if this node speaks it."""
        if protocol in self.spoken:
            self._proposals[peer] = protocol
        else:
            log.warning("peer speaks no protocol of ours", peer=peer, protocol=protocol)

    def silenced(self, peer: str) -> None:
        self.events.lost(peer)
        if peer in self.ways:
            self.events.linked(peer)
        if peer in self._wake:
            self._wake[peer].set()

    async def stop(self) -> None:
        """Close everything without telling the node."""
        self._detours.stop()
        for task in self._dialling.values():
            task.cancel()
        await asyncio.gather(*self._dialling.values(), return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for connection in [*self.inbound, *self.outbound.values()]:
            if isinstance(connection, Inbound):
                connection.peer = None
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()

    async def _dial(self, peer: str) -> None:
        """Dial, hold the connection, and dial again when it breaks, with a growing random pause."""
        pause_s = DIAL_PAUSE_S[0]
        while True:
            outbound = await self._open(peer)
            if outbound is not None:
                pause_s = DIAL_PAUSE_S[0]
                way = self.ways.get(peer)
                if isinstance(way, Detour) and not way.is_open():
                    self.events.lost(peer)  # Frames on the closed detour are lost.
                self.outbound[peer] = self.ways[peer] = outbound
                self.events.linked(peer)
                await outbound.closed
                del self.outbound[peer], self.ways[peer]
                self._proposals.pop(peer, None)  # The peer may come back upgraded.
                self._full.pop(outbound, None)
                self.events.lost(peer)
                self._detours.broken(outbound)
            self._wake[peer].clear()
            try:
                async with asyncio.timeout(pause_s * (0.5 + random.random())):
                    await self._wake[peer].wait()
            except TimeoutError:
                pause_s = min(pause_s * 2, DIAL_PAUSE_S[1])

    async def _open(self, peer: str) -> Outbound | None:
        """Return a connection on which the peer has accepted this node's Hello, or None."""
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
