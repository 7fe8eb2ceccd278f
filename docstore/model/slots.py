"""Slots of links, and sets of slots as bitmaps.

The number of slots is fixed when the group is founded: a power of two from 1 to 65,536 (1,024 by
default; small ones are for simulations). The slot of a link is the first log2(slots) bits of its
SHA-256, so that slots in numeric order cut the ring of 2^256 points into equal arcs. Where a
factory has keys, the key is hashed instead: documents that share a key share a slot.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

from docstore.model.paths import partition_key

SLOTS_MAX = 1 << 16

_BITS = [[bit for bit in range(8) if byte >> bit & 1] for byte in range(256)]


@lru_cache(maxsize=8_192)  # Cached, because each operation computes its slot several times.
def slot_of(link: str, slots: int) -> int:
    """Return the slot of a link among `slots` (a power of two, at most SLOTS_MAX)."""
    key = partition_key(link)
    first = int.from_bytes(hashlib.sha256(key.encode()).digest()[:2], "big")
    return first * slots >> 16


def to_bitmap(slots: Iterable[int], count: int) -> bytes:
    bits = 0
    for slot in slots:
        bits |= 1 << slot
    return bits.to_bytes((count + 7) // 8, "little")


def from_bitmap(bitmap: bytes) -> Iterator[int]:
    for place, byte in enumerate(bitmap):
        for bit in _BITS[byte]:
            yield 8 * place + bit
