"""Questions to other nodes over HTTP, before there is a link to them, or a group.

They are asked as clients ask, and show a token where the group wants one.
"""

from dataclasses import dataclass

from docstore.client import Client
from docstore.model.address import Address
from docstore.tokens import Token


@dataclass(frozen=True, slots=True)
class OverHttp:
    """How other nodes are asked. token: what this node shows."""

    token: Token = ""

    def at(self, address: Address, timeout_s: float) -> Client:
        """Return a client of the node at an address, for `async with`."""
        return self.by(address.url, timeout_s)

    def by(self, url: str, timeout_s: float) -> Client:
        """Return a client of the node with a URL, for `async with`."""
        return Client([url], timeout_s=timeout_s, token=self.token)
