"""The queue of rumours that are still to be sent with our datagrams, and their order.

A rumour is sent a limited number of times, a multiple of the logarithm of the group, then
forgotten: by then all but a vanishing part of the members know. The least sent ones go first,
so that news overtakes what is half known; among equals the newest. A newer statement about
the same member replaces the older one.

Rumours lie in buckets by the number of times they were sent, so no step sorts the whole queue.

Source: SWIM (Das, Gupta and Motivala, 2002), section 4.1: infection-style dissemination,
lambda * ln n sends each, fewest sends first.
Left out: separate lists for joins and failures; packing the largest first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from gossip.config import Config
from gossip.messages import Claim, DatagramMessage, Rumour
from gossip.wire import ENVELOPE_BYTES, encoded_bytes

CLAIMS_MAX = 1024
"""Most claims in the queue. A further claim evicts the oldest."""

Item = Rumour | Claim
Key = str | tuple[str, int]
"""The subject of a rumour; or name and incarnation of a claim, which no rumour replaces."""

_MISFITS_MAX = 4
"""`fill` stops looking for shorter rumours after this many that do not fit."""


def transmit_limit(live_count: int, config: Config) -> int:
    """Return how often one member sends one rumour among `live_count` members, self included."""
    spread = math.ceil(math.log10(live_count + 1))
    return max(config.retransmit_min, config.retransmit_mult * spread)


def _key(item: Item) -> Key:
    if isinstance(item, Claim):
        return item.name, item.incarnation
    return item.name


class Broadcasts:
    """The queue: at most one rumour per name, and a bounded number of claims."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._buckets: list[dict[Key, Item]] = [{}]
        self._sends: dict[Key, int] = {}
        self._claims: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._sends)

    def __contains__(self, name: str) -> bool:
        return name in self._sends

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(key for key in self._sends if isinstance(key, str))

    @property
    def sends(self) -> Mapping[Key, int]:
        return self._sends

    @property
    def has_unsent(self) -> bool:
        return bool(self._buckets[0])

    def put(self, item: Item) -> None:
        """Spread `item` from the beginning, and no longer an older item about the same subject."""
        key = _key(item)
        self.drop(key)
        self._buckets[0][key] = item
        self._sends[key] = 0
        if not isinstance(key, str):
            self._claims[key] = None
            if len(self._claims) > CLAIMS_MAX:
                self.drop(next(iter(self._claims)))

    def drop(self, key: Key) -> None:
        sends = self._sends.pop(key, None)
        if sends is not None:
            del self._buckets[sends][key]
            self._claims.pop(key, None)

    def clear(self) -> None:
        """Drop all rumours: no member is there to receive them."""
        self._buckets = [{}]
        self._sends.clear()
        self._claims.clear()

    def fill(
        self, head: Sequence[DatagramMessage], *, live_count: int
    ) -> tuple[DatagramMessage, ...]:
        """Return `head` followed by as many rumours as still fit into one datagram.

        Each rumour taken counts as sent once; those sent often enough are forgotten.
        """
        if not self._sends:
            return tuple(head)
        room = self._config.datagram_bytes_max - ENVELOPE_BYTES
        room -= sum(map(encoded_bytes, head))
        assert room >= 0
        taken: list[Item] = []
        misfits = 0
        spoken = {message.name for message in head if isinstance(message, Rumour)}
        for item in self._in_order():
            if spoken and _key(item) in spoken:
                continue
            size = encoded_bytes(item)
            if size <= room:
                taken.append(item)
                room -= size
            else:
                misfits += 1
            if misfits > _MISFITS_MAX:
                break
        limit = transmit_limit(live_count, self._config)
        for item in taken:
            self._count_send(item, limit)
        return (*head, *taken)

    def _in_order(self) -> Iterator[Item]:
        for bucket in self._buckets:
            yield from reversed(bucket.values())

    def _count_send(self, item: Item, limit: int) -> None:
        key = _key(item)
        sends = self._sends[key] + 1
        del self._buckets[sends - 1][key]
        if sends >= limit:
            del self._sends[key]
            self._claims.pop(key, None)
            return
        while len(self._buckets) <= sends:
            self._buckets.append({})
        self._buckets[sends][key] = item
        self._sends[key] = sends
