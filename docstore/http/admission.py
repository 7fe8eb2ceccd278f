"""Limit the number of connections, in all and from each address.

A connection beyond a limit gets a 503 and is closed. The node logs refusals when they begin, and
then at most once a minute, because a refused client connects again at once.
"""

import time

import structlog

from docstore.http.problems import problem
from docstore.http.reply import closing_bytes
from docstore.model.limits import Limits

TELL_AGAIN_S = 60.0

log = structlog.get_logger("docstore.http")


class Admission:
    """Counts connections; a refused connection counts until it is closed."""

    def __init__(self, limits: Limits) -> None:
        self._max = limits.connections_max
        self._per_address_max = limits.connections_per_address_max
        self._addresses: dict[str, int] = {}
        self._count = 0
        self._told_at = -TELL_AGAIN_S

    def enter(self, address: str) -> str:
        """Count a connection; return why it must be refused, "" if it fits the limits."""
        own = self.count(address)
        if self._count > self._max:
            why = f"this node takes at most {self._max} connections"
        elif own > self._per_address_max:
            why = f"this node takes at most {self._per_address_max} connections from one address"
        else:
            return ""
        self._tell(address, why)
        return why

    def count(self, address: str) -> int:
        """Count a connection without checking the limits; return the count of its address."""
        self._count += 1
        own = self._addresses[address] = self._addresses.get(address, 0) + 1
        return own

    def leave(self, address: str) -> None:
        """Forget a connection that was counted."""
        self._count -= 1
        own = self._addresses[address] - 1
        if own:
            self._addresses[address] = own
        else:
            del self._addresses[address]

    def _tell(self, address: str, why: str) -> None:
        now = time.monotonic()
        if now - self._told_at >= TELL_AGAIN_S:
            self._told_at = now
            log.warning("connections are refused", why=why, address=address, open=self._count)


def refusal(why: str) -> bytes:
    """Return the answer to a connection that is refused."""
    told = problem(503, "too-many-connections", why, instance="/", closes=True)
    return closing_bytes(told)
