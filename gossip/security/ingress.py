"""The way in: packets become messages of members, or are dropped and counted.

A packet is opened if it is sealed, then read. Its sender, and the address that a member claims,
must be within the allowed networks.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
from collections import Counter
from collections.abc import Sequence

from gossip import wire
from gossip.errors import ConfigError
from gossip.member import Address
from gossip.messages import (
    Alive,
    Claim,
    DatagramMessage,
    Ping,
    StreamMessage,
    Sync,
    SyncAnswer,
)
from gossip.security.authenticator import SessionAuthenticator


class Ingress:
    """Filters the packets and tables that one agent receives."""

    def __init__(self, allow: Sequence[str]) -> None:
        """Raises ConfigError for a malformed network. Without networks all are allowed."""
        self.authenticator: SessionAuthenticator | None = None
        self.takes_plain = True
        self._counters: Counter[str] = Counter()
        try:
            self._networks = tuple(ipaddress.ip_network(network) for network in allow)
        except ValueError as error:
            raise ConfigError(f"allow: {error}") from error
        self._permits = functools.lru_cache(maxsize=4096)(self._is_within)

    @property
    def counters(self) -> Counter[str]:
        return self._counters + (self.authenticator.counters if self.authenticator else Counter())

    def permits(self, host: str) -> bool:
        return not self._networks or self._permits(host)

    def datagram(
        self, data: bytes, sender: Address, now: float
    ) -> tuple[tuple[DatagramMessage, ...], Ping | None]:
        """Return the accepted messages, and a ping to send back to an unknown session."""
        if not self.permits(sender[0]):
            self._counters["packets_not_allowed"] += 1
            return (), None
        if self.authenticator is None or (self.takes_plain and not wire.is_sealed(data)):
            return self._read(data), None
        opened = self.authenticator.open(data)
        if opened is None:
            return (), None
        return self.authenticator.admit(opened, self._read(opened.plain), sender, now)

    def table(self, message: StreamMessage) -> StreamMessage:
        """Return the message of a stream without members at addresses that are not allowed."""
        if not self._networks or not isinstance(message, Sync | SyncAnswer):
            return message
        members = tuple(member for member in message.members if self.permits(member.address[0]))
        self._counters["members_not_allowed"] += len(message.members) - len(members)
        return dataclasses.replace(message, members=members)

    def _read(self, data: bytes) -> tuple[DatagramMessage, ...]:
        decoded = wire.decode_datagram(data)
        self._counters["messages_malformed"] += decoded.dropped_count
        if not self._networks:
            return decoded.messages
        allowed = tuple(message for message in decoded.messages if self._is_allowed(message))
        self._counters["members_not_allowed"] += len(decoded.messages) - len(allowed)
        return allowed

    def _is_allowed(self, message: DatagramMessage) -> bool:
        return not isinstance(message, Alive | Claim) or self.permits(message.address[0])

    def _is_within(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)
