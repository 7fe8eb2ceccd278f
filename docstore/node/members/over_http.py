"""Questions to other nodes over HTTP, before there is a link to them, or a group.

They are asked as clients ask: over https where this node serves https itself, and then they must
show a certificate that a CA of the nodes has signed for their host.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from docstore.client import Client
from docstore.model.address import Address
from docstore.model.tokens import Token


def system_s() -> ssl.SSLContext | None:
    """Return nothing: whom the system believes is believed."""
    return None


@dataclass(frozen=True, slots=True)
class OverHttp:
    """How other nodes are asked. token: shown to them. tls: what https is spoken with, now."""

    scheme: str = "http"
    token: Token = ""
    tls: Callable[[], ssl.SSLContext | None] = system_s

    def at(self, address: Address, timeout_s: float) -> Client:
        """Return a client of the node at an address, for `async with`."""
        return self.by(address.url(self.scheme), timeout_s)

    def by(self, url: str, timeout_s: float) -> Client:
        """Return a client of the node with a URL, for `async with`."""
        return Client([url], timeout_s=timeout_s, token=self.token, ssl=self.tls())
