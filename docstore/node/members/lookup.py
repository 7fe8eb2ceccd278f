"""Finds the addresses at which other nodes take links and gossip, by asking each over HTTP.

A configuration, or the list of founders, has the HTTP addresses of members. Their other ports may
change at each start, so they are neither guessed nor stored: a node asks each member until the
expected one has answered once. Gossip announces later changes of the addresses (`membership.py`).
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog

from docstore.client import Client, ClientError
from docstore.model.address import Address, parse_address
from docstore.model.tokens import Token

PAUSE_S = (0.05, 1.0)
PATIENCE_S = 3.0

log = structlog.get_logger("docstore.node.members.lookup")


def system_s() -> ssl.SSLContext | None:
    """Return None: the system's CAs are trusted."""
    return None


@dataclass(frozen=True, slots=True)
class OverHttp:
    """Settings for HTTP clients of other nodes.

    token: token to send. tls: returns the SSL context for https. Where this node serves https,
    other nodes must show a certificate for their host, signed by a CA of the nodes.
    """

    scheme: str = "http"
    token: Token = ""
    tls: Callable[[], ssl.SSLContext | None] = system_s

    def at(self, address: Address, timeout_s: float) -> Client:
        return self.by(address.url(self.scheme), timeout_s)

    def by(self, url: str, timeout_s: float) -> Client:
        return Client([url], timeout_s=timeout_s, token=self.token, ssl=self.tls())


class Located(NamedTuple):
    """The addresses at which a node takes links and gossip."""

    peer: Address
    gossip: Address


class Lookup:
    """Asks other nodes for their addresses, in the background.

    located: called with a member and its addresses.
    """

    def __init__(self, located: Callable[[str, Located], None], over_http: OverHttp) -> None:
        self._located = located
        self._over_http = over_http
        self._asked: dict[str, tuple[Address, asyncio.Task[None]]] = {}
        self._has_stopped = False

    def look_for(self, others: Mapping[str, Address]) -> None:
        """Look for these members only; skip those already found at the same address."""
        for member, (address, asking) in list(self._asked.items()):
            if others.get(member) != address:
                asking.cancel()
                del self._asked[member]
        loop = asyncio.get_running_loop()
        for member, address in others.items():
            if member not in self._asked and not self._has_stopped:
                asking = loop.create_task(self._ask(member, address))
                self._asked[member] = (address, asking)

    async def stop(self) -> None:
        """Cancel all requests and take no new ones: the group may change while this node stops."""
        self._has_stopped = True
        asking = [task for _, task in self._asked.values()]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, member: str, address: Address) -> None:
        pause_s, pause_s_max = PAUSE_S
        said = ""
        while True:
            try:
                located = _located_by(await management_page(address, self._over_http), member)
            except (ClientError, OSError, ValueError) as error:  # A TimeoutError is an OSError.
                if str(error) != said:
                    log.info("not located yet", member=member, at=str(address), why=str(error))
                said = str(error)
            else:
                self._located(member, located)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, pause_s_max)


async def management_page(at: Address, over_http: OverHttp) -> Any:
    """Return the management page of the node at an address. Raises ClientError, TimeoutError."""
    async with asyncio.timeout(PATIENCE_S), over_http.at(at, PATIENCE_S) as client:
        return await client.json("GET", "/core/management")


def _located_by(page: Any, member: str) -> Located:
    """Return the addresses on a page. Raises ValueError when it is another node's."""
    try:
        name, addresses = page["id"], page["addresses"]
        peer, gossip = parse_address(addresses["peer"]), parse_address(addresses["gossip"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the answer is not the page of a node: {error!r}") from None
    if name != member:
        raise ValueError(f"node {name} answers there")
    return Located(peer, gossip)
