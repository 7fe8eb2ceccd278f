"""Detours around a connection without answers, through a node that reaches the peer (rule E4).

A node greets each peer that it dialled five times a second. The peer answers on the same connection
and names the peers that it reaches itself. A connection whose greetings get no answer for most of a
second is closed if another node reaches the peer: messages then go through that node until the peer
answers a dial. The machines see the link as lost, and then as made again.

The relay forwards a frame unchanged, with the name of its sender. It forwards only frames that
their sender wrote itself, and only on a connection of its own, so no frame passes two relays. A
relayed frame may arrive after later frames of a new direct connection, as on any network.
"""

import asyncio
from collections.abc import Mapping

from docstore.runtime.links.connections import AllLinks, Detour, Inbound, Outbound
from docstore.wire.frames import unpack_frame
from docstore.wire.link_messages import Greeting, OfLinks, Relayed

GREETING_S = 0.2
MISSED_MAX = 2
"""Unanswered greetings on a connection that may still serve as a relay."""
UNANSWERED_MAX = 4
"""Unanswered greetings after which a connection counts as broken."""
SILENT_S = 0.5
"""Seconds of silence on a direct connection after which relayed frames replace it."""
SETTLED_S = 1.0
"""Seconds to wait after a connection broke: greetings of other nodes may still be older than the
break."""


class Detours:
    """Chooses a relay for each peer whose connection gives no answer, and relays frames."""

    def __init__(self, links: AllLinks) -> None:
        self._links = links
        self._loop = asyncio.get_running_loop()
        self._broken: dict[str, float] = {}
        """Peer -> the time at which a connection to it broke that had carried messages."""
        self._timer = self._loop.call_later(GREETING_S, self._tick)

    def stop(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(GREETING_S, self._tick)
        greeting = self.greeting()
        for peer, connection in list(self._links.outbound.items()):
            connection.unanswered += 1
            connection.say(greeting)
            if connection.unanswered > UNANSWERED_MAX and self._relay_to(peer):
                self._links.counters["links_unanswered"] += 1
                connection.close()
        for peer in tuple(self._links.dialled()):
            self.choose(peer)

    def greeting(self) -> Greeting:
        return Greeting([(peer, each.protocol) for peer, each in self._answering().items()])

    def _answering(self) -> Mapping[str, Outbound]:
        return {
            peer: connection
            for peer, connection in self._links.outbound.items()
            if connection.unanswered <= MISSED_MAX
        }

    def _relay_to(self, peer: str) -> tuple[Outbound, int] | None:
        """Return a connection to a node that reaches a peer, and the protocol that both speak."""
        for relay in self._answering().values():
            if relay.peer != peer and peer in relay.reaches:
                return relay, min(relay.protocol, relay.reaches[peer])
        return None

    def broken(self, connection: "Outbound") -> None:
        if connection.unanswered <= UNANSWERED_MAX:
            self._broken[connection.peer] = self._loop.time()
        self.choose(connection.peer)

    def choose(self, peer: str) -> None:
        """Find a relay to a peer without a connection, or drop a relay that has failed."""
        links = self._links
        way = links.ways.get(peer)
        if peer in links.outbound:
            return
        if isinstance(way, Detour):
            way.doubts = 0 if way.is_open() else way.doubts + 1
            if way.doubts <= MISSED_MAX:
                return
            links.ways.pop(peer)
            links.events.lost(peer)
        settled = self._loop.time() - self._broken.get(peer, float("-inf")) >= SETTLED_S
        found = self._relay_to(peer) if settled else None
        if found is not None:
            links.counters["detours"] += 1
            links.ways[peer] = Detour(links, peer, *found)
            links.events.linked(peer)

    # Relayed frames, on the relay and on the receiver

    def said(self, connection: Inbound, message: OfLinks) -> None:
        if isinstance(message, Greeting):
            connection.say(self.greeting())
        elif not message.source:
            self._pass_on(connection, message)
        else:
            self._take(message)

    def _pass_on(self, connection: Inbound, message: Relayed) -> None:
        onward = self._links.outbound.get(message.receiver)
        if onward is None or connection.peer is None:
            self._links.counters["relays_dropped"] += 1
            return
        self._links.counters["relayed"] += 1
        onward.say(message._replace(source=connection.peer))

    def _take(self, message: Relayed) -> None:
        links, source = self._links, message.source
        if source not in links.dialled() or links.refusals.is_refused(source):
            links.counters["relays_dropped"] += 1
            return
        own = [each for each in links.inbound if each.peer == source]
        if own and all(each.silent_s >= SILENT_S for each in own):
            for each in own:
                each.peer = None
                each.close()
            links.silenced(source)  # Report the silence before the relayed frame is delivered.
        configuration, messages = unpack_frame(message.frame)
        links.deliver(source, configuration, messages)
