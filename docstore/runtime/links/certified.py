"""Links with TLS: a peer must be the node that its certificate names.

The handshake fails for a peer without a certificate of this group's CA. A peer that shows another
node's certificate than its Hello names is disconnected before it gets an answer.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any

from docstore.runtime.tls.accepting import (
    CLOSE_S,
    Entrance,
    RejectedConnections,
    TlsServer,
    in_words,
    listen,
)
from docstore.runtime.tls.credentials import Credentials, UntrustedPeer

HANDSHAKES_MAX = 256
"""Handshakes under way at the same time, each an open file."""
HANDSHAKE_S = 2.0


class Certified:
    """Checks the certificates of peers, and makes the TLS contexts of links."""

    def __init__(self, credentials: Credentials) -> None:
        self.counters: Counter[str] = Counter()
        self._credentials = credentials
        self._strangers = RejectedConnections("peer", self._count)
        self._half_way = 0

    async def listen(
        self, protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> TlsServer:
        entrance = Entrance(
            context=self._accepting, protocol=protocol, failed=self._strangers.tell,
            enter=self._enter, leave=self._leave, patience_s=HANDSHAKE_S,
        )  # fmt: skip
        return await listen(entrance, host, port)

    def dialling(self) -> dict[str, Any]:
        """Return the TLS arguments of `create_connection`."""
        context = self._credentials.contexts.dialling
        return {"ssl": context, "ssl_handshake_timeout": HANDSHAKE_S,
                "ssl_shutdown_timeout": CLOSE_S}  # fmt: skip

    def is_of(self, transport: asyncio.BaseTransport, node: str) -> bool:
        """Say whether the certificate at the other end is a node's, by the files as they are now.

        The files may have changed since the handshake, even on a connection that was just made.
        """
        shown: ssl.SSLObject = transport.get_extra_info("ssl_object")
        try:
            nodes = self._credentials.nodes_of(shown.getpeercert())
        except UntrustedPeer as why:
            self.turned_away(_address(transport), str(why))
            return False
        leaf = shown.getpeercert(binary_form=True) or b""
        if node not in nodes:
            why_not = f"its certificate is of {', '.join(sorted(nodes))}, not of {node}"
        elif not self._credentials.still_knows(leaf, shown.context):
            why_not = f"the CA that signed the certificate of {node} is no longer trusted"
        else:
            return True
        self.turned_away(_address(transport), why_not)
        return False

    def turned_away(self, address: str, why: str) -> None:
        self._strangers.tell(address, why)

    def failed(self, peer: str, error: OSError) -> None:
        """Count a dialled node that is no peer, or that rejects this node's certificate."""
        if isinstance(error, ssl.SSLError):
            self.turned_away(peer, in_words(error))

    def _count(self) -> None:
        self.counters["certificates_refused"] += 1

    def _accepting(self) -> ssl.SSLContext:
        context = self._credentials.contexts.accepting
        assert context is not None
        return context

    def _enter(self, address: str) -> str:
        self._half_way += 1
        return "too many handshakes are under way" if self._half_way > HANDSHAKES_MAX else ""

    def _leave(self, address: str) -> None:
        self._half_way -= 1


def _address(transport: asyncio.BaseTransport) -> str:
    found = transport.get_extra_info("peername")
    return str(found[0]) if found else ""
