"""Answers that nobody takes: a connection is given up on once its client has stood still for long.

What a client does not read stays in this process, an answer of megabytes as well, and closing in
order waits until it has been read. So who takes no byte of what is written to it, and sends none
of what it is asked with, for `send_timeout_s` is cut off; whoever is slow, but reads, stays. As
nginx does it (`send_timeout`). A feed that ends like this goes on from the token its reader has.

All connections are looked at four times in that span: one that writes and is read at once, as
almost all do, is not held up by a timer of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

LOOKS = 4
"""In the span after which a connection is given up on."""

Mark = tuple[int, ...]
"""What changes whenever a client takes or sends something; compared, never counted."""


class Client(Protocol):
    """A connection, as it is looked at."""

    def mark(self) -> Mark | None:
        """Return how far its client has come; None while everything is taken."""

    def abort(self) -> None:
        """Hang up at once, whatever is unread."""


@dataclass(slots=True)
class _Stuck:
    """A connection whose client has not moved on."""

    mark: Mark
    looks: int = 0


class Unread:
    """Who has had something to read since the last look."""

    def __init__(self) -> None:
        self._stuck: dict[Client, _Stuck] = {}

    def look(self, clients: Iterable[Client]) -> int:
        """Cut off who has not moved since `LOOKS` looks ago; return how many that are."""
        waited, self._stuck = self._stuck, {}
        given_up = 0
        for client in tuple(clients):
            mark = client.mark()
            if mark is None:
                continue
            stuck = waited.get(client)
            if stuck is None or stuck.mark != mark:
                stuck = _Stuck(mark)
            else:
                stuck.looks += 1
            if stuck.looks < LOOKS:
                self._stuck[client] = stuck
            else:
                client.abort()
                given_up += 1
        return given_up
