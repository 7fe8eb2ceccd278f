"""The two ends of a connection between nodes: the node that dialled writes, the other node reads.

The reader answers only greetings, which test whether messages get through.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from docstore.runtime.links.framed import Framed
from docstore.wire.frames import Packed, pack_frame, pack_hello, unpack_frame
from docstore.wire.link_messages import Greeting, Hello, Message, OfLinks, ProtocolRange, Relayed

SEND_BUFFER_BYTES_MAX = 64 << 20
HELLO_TIMEOUT_S = 2.0
SILENCE_MAX_S = 5.0
"""Seconds of silence after which a connection is closed. A peer sends five heartbeats a second."""


PEERS_MAX = 1_000
"""Greatest number of peers in `Refusals`, since peers choose the names that they send."""

log = structlog.get_logger("docstore.runtime.links.peers")


class Refusals:
    """Peer -> the reason of its last refusal. A refused peer dials again every second."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, peer: str, why: str) -> None:
        """Log that a peer is refused, unless it was refused last time for the same reason."""
        if self._told.get(peer) == why:
            return
        if len(self._told) >= PEERS_MAX:
            self._told.clear()
        self._told[peer] = why
        log.info("peer refused", peer=peer, why=why)

    def admitted(self, peer: str) -> None:
        """Forget a peer's refusal, so that the next one is logged."""
        self._told.pop(peer, None)

    def is_refused(self, peer: str) -> bool:
        return peer in self._told


@dataclass(slots=True)
class PeerEvents:
    """Callbacks from the links to the node. All are called in the event loop.

    hello: returns the opening frame for a peer ("" while its id is not known). admit: returns the
    reason for refusing a peer's Hello, None to accept it.
    """

    hello: Callable[[str], Hello]
    admit: Callable[[Hello], str | None]
    received: Callable[[str, Message, int], None]
    linked: Callable[[str], None]
    lost: Callable[[str], None]


class AllLinks(Protocol):
    """The links of a node, as each single link uses them."""

    events: PeerEvents
    spoken: ProtocolRange
    counters: Counter[str]
    configuration: int
    inbound: "dict[Inbound, None]"
    outbound: "dict[str, Outbound]"
    ways: "dict[str, Outbound | Detour]"
    refusals: Refusals
    of_links: "Callable[[Inbound, OfLinks], None]"
    """Takes a message that a peer sent to the links themselves, not to the node."""

    def deliver(
        self, peer: str, configuration: int, messages: Sequence[Message | OfLinks]
    ) -> None: ...

    def dialled(self) -> Collection[str]: ...

    def hears(self, peer: str) -> bool: ...

    def silenced(self, peer: str) -> None: ...

    def proposal(self, peer: str) -> int: ...

    def propose(self, peer: str, protocol: int) -> None: ...

    def is_proved(self, connection: Framed, node: str) -> bool: ...

    def failed(self, peer: str, error: OSError) -> None: ...


class Inbound(Framed):
    """A connection that a peer dialled: this node reads from it."""

    def __init__(self, links: "AllLinks") -> None:
        super().__init__()
        self._links = links
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._watch = self._loop.call_later(HELLO_TIMEOUT_S, self._time_up)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._links.inbound[self] = None

    def hello(self, hello: Hello) -> None:
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
        if self.peer is None:
            return
        self._heard_at = self._loop.time()
        configuration, messages = unpack_frame(body)
        of_links = spoken(messages)
        if of_links is None:
            self._links.deliver(self.peer, configuration, messages)
        else:
            self._links.of_links(self, of_links)

    def say(self, message: OfLinks) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(pack_frame(0, [message]))

    @property
    def silent_s(self) -> float:
        return self._loop.time() - self._heard_at

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the peer as silent if this was its last connection."""
        self._watch.cancel()
        self._links.inbound.pop(self, None)
        if self.peer is not None and not self._links.hears(self.peer):
            self._links.silenced(self.peer)

    def _time_up(self) -> None:
        self.close()

    def _still_there(self) -> None:
        """Close a half-open connection, so that the peer dials again as soon as it can."""
        silent_s = self.silent_s
        if silent_s >= SILENCE_MAX_S:
            self._links.counters["links_silent"] += 1
            self.close()
            return
        self._watch = self._loop.call_later(SILENCE_MAX_S - silent_s, self._still_there)


class Outbound(Framed):
    """A connection that this node dialled: this node writes to it."""

    def __init__(self, links: "AllLinks", peer: str) -> None:
        super().__init__()
        self._links = links
        self.peer: str = peer
        self.protocol = links.proposal(peer)
        loop = asyncio.get_running_loop()
        self.welcomed: asyncio.Future[bool] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.queue: list[Message] = []
        self.unanswered = 0
        """Greetings since the last answer."""
        self.reaches: Mapping[str, int] = {}
        """Node that the peer reaches -> protocol, from its last greeting."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send Hello; have the kernel close the connection if the peer acknowledges nothing."""
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
        """Check that the answering node is the peer, and uses the proposed protocol."""
        events = self._links.events
        is_meant = hello.sender == self.peer
        if is_meant and hello.protocol != self.protocol:
            self._links.counters["dials_refused"] += 1
            self._links.propose(self.peer, hello.protocol)
        fits = is_meant and hello.protocol == self.protocol
        if not self.welcomed.done():
            self.welcomed.set_result(fits and events.admit(hello) is None)

    def frame(self, body: bytearray) -> None:
        """Note that the peer answers, and which nodes it reaches."""
        answer = spoken(unpack_frame(body)[1])
        if isinstance(answer, Greeting):
            self.unanswered, self.reaches = 0, dict(answer.reaches)

    def hang_up(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def flush(self, packed: Packed) -> None:
        """Write the messages of this turn as one frame. packed: the frames of the turn."""
        messages, self.queue = self.queue, []
        if self._has_room(len(messages)):
            self._write(packed.frame(self._links.configuration, messages))

    def say(self, message: OfLinks) -> None:
        if self._has_room(1):
            self._write(pack_frame(0, [message]))

    def _has_room(self, messages: int) -> bool:
        """Say whether messages can be written; count those that must be dropped."""
        if self.transport is None or self.transport.is_closing():
            return False
        if self.transport.get_write_buffer_size() > SEND_BUFFER_BYTES_MAX:
            self._links.counters["messages_dropped"] += messages
            return False
        return True

    def _write(self, frame: bytes) -> None:
        assert self.transport is not None
        self._links.counters["frames_sent"] += 1
        self._links.counters["bytes_sent"] += len(frame)
        self.transport.write(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError) and not self.welcomed.done():
            self._links.failed(self.peer, exc)
        if not self.welcomed.done():
            self.welcomed.set_result(False)
        if not self.closed.done():
            self.closed.set_result(None)


class Detour:
    """Sends messages to a peer through a relay, in place of a connection."""

    def __init__(self, links: "AllLinks", peer: str, relay: Outbound, protocol: int) -> None:
        self._links = links
        self.peer, self.relay, self.protocol = peer, relay, protocol
        self.queue: list[Message] = []
        self.doubts = 0
        """Consecutive checks that found the relay closed."""

    def is_open(self) -> bool:
        """Say whether frames reach the peer, by the relay's last greeting."""
        is_linked = self._links.outbound.get(self.relay.peer) is self.relay
        return is_linked and self.relay.unanswered <= 1 and self.peer in self.relay.reaches

    def flush(self, packed: Packed) -> None:
        """Relay the messages of this turn as one frame. packed: the frames of the turn."""
        messages, self.queue = self.queue, []
        if messages:
            frame = packed.frame(self._links.configuration, messages)
            self._links.counters["frames_by_relay"] += 1
            self.relay.say(Relayed("", self.peer, frame[4:]))


def spoken(messages: Sequence[Message | OfLinks]) -> OfLinks | None:
    """Return the message in a frame that is for the links themselves, None without one."""
    if messages and isinstance(messages[0], Greeting | Relayed):
        return messages[0]
    return None
