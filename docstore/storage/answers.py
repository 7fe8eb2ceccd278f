"""Answers as every implementation of the contract gives them: their size, children, digests."""

import hashlib
from collections.abc import Sequence

from docstore.model.document import Row

ROW_BYTES = 128
"""Bytes that a row weighs in an answer besides its state and its link: its other fields."""


def within_bytes(rows: Sequence[Row], bytes_max: int) -> list[Row]:
    """Return the first rows that weigh `bytes_max` together; at least one if there is one."""
    weight = 0
    for index, row in enumerate(rows):
        weight += row_bytes(row)
        if weight > bytes_max and index:
            return list(rows[:index])
    return list(rows)


def row_bytes(row: Row) -> int:
    """Return about how many bytes a row takes on the wire."""
    return ROW_BYTES + len(row.link) + len(row.state)


def is_child(link: str, prefix: str) -> bool:
    """Return whether `link` stands directly below `prefix`, which ends in "/"."""
    return len(link) > len(prefix) and link.startswith(prefix) and "/" not in link[len(prefix) :]


def link_digest(link: str, version: int, digest: bytes) -> int:
    """Return what the newest row of a link adds to the digest of its slot.

    A sum of keyed hashes is a set hash that can be updated row by row: take away what the link
    added before, add what it adds now. Bellare and Micciancio (1997), AdHASH; 128 bits guard
    against accidents, not against a peer that searches for collisions.
    """
    body = b"%s\x00%d\x00%s" % (link.encode(), version, digest)
    hashed = hashlib.blake2b(body, digest_size=16, key=b"docstore slot digest").digest()
    return int.from_bytes(hashed, "big")


def digest_hex(total: int) -> str:
    """Return a sum of `link_digest` as 32 hexadecimal digits."""
    return f"{total % (1 << 128):032x}"
