"""The Idempotency-Keys that made rows of one slot's log, in some 40 bytes each.

A key is a digest here, beside the number of its row and a part of the request's fingerprint. The
uses of two minutes are collected in a dictionary, and then sealed into sorted arrays, which expire
as a whole: so a key is remembered for ten to twelve minutes. Two keys of a slot have the same
digest with a probability of 2**-64, by chance only: Python draws its hashes anew at each start.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

KEY_LIFE_US = 10 * 60 * 1_000_000
SEALED_A_LIFE = 5
KEYS_PER_LINK_MAX = 65_536
"""As many rows as an owner reads back after its start to find a key (`MemoryBounds.recall_rows`):
2.6 MB of keys on each replica."""
KEY_BITS = 40
"""Bits of a digest that come from the key; the upper ones come from the link alone."""
MARK_BITS = 24
"""Bits of a fingerprint that are kept beside the number of the row."""


class KeyUse(NamedTuple):
    """The row that an Idempotency-Key made, and a part of the request's fingerprint."""

    n: int
    mark: int


def mark_of(fingerprint: int) -> int:
    """Return the part of a request's fingerprint that is remembered."""
    return fingerprint & ((1 << MARK_BITS) - 1)


class _Sealed:
    """Uses of keys within two minutes: digests in order, and the row of each."""

    __slots__ = ("digests", "newest_us", "rows")

    def __init__(self, uses: Iterable[tuple[int, int]], newest_us: int) -> None:
        pairs = sorted(uses)
        self.digests = array("Q", [digest for digest, _ in pairs])
        self.rows = array("Q", [row for _, row in pairs])
        self.newest_us = newest_us

    def row(self, digest: int) -> int:
        at = bisect_left(self.digests, digest)
        is_here = at < len(self.digests) and self.digests[at] == digest
        return self.rows[at] if is_here else 0

    def count(self, link: int) -> int:
        first, after = (bisect_left(self.digests, each << KEY_BITS) for each in (link, link + 1))
        return after - first


class Keys:
    """The keys that were used in one slot in the last ten minutes."""

    __slots__ = ("_began_us", "_newest_us", "_present", "_sealed")

    def __init__(self) -> None:
        self._sealed: list[_Sealed] = []
        self._present: dict[int, int] = {}
        """Digest -> row, of the last two minutes."""
        self._began_us = self._newest_us = 0

    def __len__(self) -> int:
        return len(self._present) + sum(len(each.rows) for each in self._sealed)

    def note(self, link: str, key: str, n: int, fingerprint: int, used_us: int) -> None:
        """Remember the row of a key; of two uses the later one counts."""
        if self._present and used_us >= self._began_us + KEY_LIFE_US // SEALED_A_LIFE:
            self._sealed.append(_Sealed(self._present.items(), self._newest_us))
            self._present = {}
        if not self._present:
            self._began_us = self._newest_us = used_us
        self._newest_us = max(self._newest_us, used_us)
        self._present[_digest(link, key)] = n << MARK_BITS | mark_of(fingerprint)

    def find(self, link: str, key: str, now_us: int) -> KeyUse | None:
        """Return the use of a key that has not expired."""
        digest, until_us = _digest(link, key), now_us - KEY_LIFE_US
        row = self._present.get(digest, 0)
        if row:
            return _use(row) if self._newest_us > until_us else None
        for each in reversed(self._sealed):
            row = each.row(digest)
            if row:
                return _use(row) if each.newest_us > until_us else None
        return None

    def forget(self, now_us: int) -> None:
        until_us = now_us - KEY_LIFE_US
        while self._sealed and self._sealed[0].newest_us <= until_us:
            del self._sealed[0]
        if self._present and self._newest_us <= until_us:
            self._present = {}

    def cut(self, end: int) -> None:
        """Forget the keys of truncated rows, those above `end`."""
        after = (end + 1) << MARK_BITS
        self._present = {each: row for each, row in self._present.items() if row < after}
        for number, each in enumerate(self._sealed):
            kept = [use for use in zip(each.digests, each.rows, strict=True) if use[1] < after]
            if len(kept) < len(each.rows):
                self._sealed[number] = _Sealed(kept, each.newest_us)

    def count(self, link: str) -> int:
        """Return how many uses of keys of a link are remembered."""
        wanted = _digest(link, "") >> KEY_BITS
        present = sum(digest >> KEY_BITS == wanted for digest in self._present)
        return present + sum(each.count(wanted) for each in self._sealed)

    def has_room(self, link: str, now_us: int) -> bool:
        """Say whether one more key of a link fits, after forgetting those that have expired."""
        self.forget(now_us)
        return len(self) < KEYS_PER_LINK_MAX or self.count(link) < KEYS_PER_LINK_MAX


def _digest(link: str, key: str) -> int:
    """Return 64 bits: the upper ones are of the link alone, the lower ones of both."""
    of_link = hash(link) & ((1 << (64 - KEY_BITS)) - 1)
    return of_link << KEY_BITS | hash((link, key)) & ((1 << KEY_BITS) - 1)


def _use(row: int) -> KeyUse:
    return KeyUse(row >> MARK_BITS, mark_of(row))
