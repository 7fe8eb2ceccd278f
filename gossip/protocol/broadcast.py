"""The rumours that still have to ride on our datagrams, and in which order they do.

A rumour is sent a limited number of times, a multiple of the logarithm of the group, then
forgotten: by then all but a vanishing part of the members know. The least sent ones go first,
so that news overtakes what is half known; among equals the newest. A newer statement about
the same member replaces the older one.

Rumours lie in buckets by the number of times they were sent. Taking costs as much as is taken.

Source: SWIM (Das, Gupta and Motivala, 2002), section 4.1: infection-style dissemination,
lambda * ln n sends each, fewest sends first.
Left out: separate lists for joins and failures; packing the largest first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gossip.config import Config
from gossip.wire import (
    ENVELOPE_BYTES,
    DatagramMessage,
    Rumour,
    encoded_bytes,
)

_MISFITS_MAX = 4
"""Rumours that may be too long for the rest of a datagram before we stop looking for more."""


def transmit_limit(live_count: int, config: Config) -> int:
    """Return how often one member sends one rumour among `live_count` members, self included."""
    spread = math.ceil(math.log10(live_count + 1))
    return max(config.retransmit_min, config.retransmit_mult * spread)


class Broadcasts:
    """The queue of rumours: at most one per name, so never longer than the member table."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._buckets: list[dict[str, Rumour]] = [{}]
        self._sends: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sends)

    def __contains__(self, name: str) -> bool:
        return name in self._sends

    @property
    def names(self) -> tuple[str, ...]:
        """About whom there are rumours."""
        return tuple(self._sends)

    @property
    def has_unsent(self) -> bool:
        """Whether some rumour was never sent at all."""
        return bool(self._buckets[0])

    def put(self, rumour: Rumour) -> None:
        """Spread `rumour` from the beginning, instead of any older one about its subject."""
        self.drop(rumour.name)
        self._buckets[0][rumour.name] = rumour
        self._sends[rumour.name] = 0

    def drop(self, name: str) -> None:
        """Stop spreading what we say about `name`, if anything."""
        sends = self._sends.pop(name, None)
        if sends is not None:
            del self._buckets[sends][name]

    def clear(self) -> None:
        """Stop spreading anything: there is nobody to tell."""
        self._buckets = [{}]
        self._sends.clear()

    def fill(
        self, head: Sequence[DatagramMessage], *, live_count: int
    ) -> tuple[DatagramMessage, ...]:
        """Return `head` followed by as many rumours as still fit into one datagram.

        Each rumour taken counts as sent once; those sent often enough are forgotten.
        """
        room = self._config.datagram_bytes_max - ENVELOPE_BYTES
        room -= sum(map(encoded_bytes, head))
        assert room >= 0
        taken: list[Rumour] = []
        misfits = 0
        spoken = {message.name for message in head if isinstance(message, Rumour)}
        for rumour in self._in_order():
            if rumour.name in spoken:
                continue
            size = encoded_bytes(rumour)
            if size <= room:
                taken.append(rumour)
                room -= size
            else:
                misfits += 1
            if misfits > _MISFITS_MAX:
                break
        limit = transmit_limit(live_count, self._config)
        for rumour in taken:
            self._count_send(rumour, limit)
        return (*head, *taken)

    def _in_order(self) -> Iterator[Rumour]:
        for bucket in self._buckets:
            yield from reversed(bucket.values())

    def _count_send(self, rumour: Rumour, limit: int) -> None:
        sends = self._sends[rumour.name] + 1
        self.drop(rumour.name)
        if sends >= limit:
            return
        while len(self._buckets) <= sends:
            self._buckets.append({})
        self._buckets[sends][rumour.name] = rumour
        self._sends[rumour.name] = sends
