"""Answers as all implementations of the contract give them: size, children, digests."""

import hashlib
from collections.abc import Sequence

from docstore.model.document import Row

ROW_BYTES = 128
"""Bytes that an answer counts for the fields of a row other than its state and its link."""


def within_bytes(rows: Sequence[Row], bytes_max: int) -> list[Row]:
    """Return the first rows whose sizes add up to at most `bytes_max`, but always the first row."""
    weight = 0
    for index, row in enumerate(rows):
        weight += row_bytes(row)
        if weight > bytes_max and index:
            return list(rows[:index])
    return list(rows)


def row_bytes(row: Row) -> int:
    """Return the approximate size of a row on the wire, in bytes."""
    return ROW_BYTES + len(row.link) + row.weight


def is_child(link: str, prefix: str) -> bool:
    """Return whether `link` is a direct child of `prefix`, which ends in "/"."""
    return len(link) > len(prefix) and link.startswith(prefix) and "/" not in link[len(prefix) :]


def link_digest(link: str, version: int, digest: bytes) -> int:
    """Return the term that the newest row of a link adds to the digest of its slot.

    The digest is a sum of keyed hashes, which a node updates row by row: it subtracts the old term
    of a link and adds the new one. Bellare and Micciancio (1997), AdHASH. 128 bits guard against
    accidents, not against a peer that searches for collisions.
    """
    body = b"%s\x00%d\x00%s" % (link.encode(), version, digest)
    hashed = hashlib.blake2b(body, digest_size=16, key=b"docstore slot digest").digest()
    return int.from_bytes(hashed, "big")


def digest_hex(total: int) -> str:
    """Return a sum of `link_digest` as 32 hexadecimal digits."""
    return f"{total % (1 << 128):032x}"
