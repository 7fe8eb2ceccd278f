"""Ids for documents of clients that send none: UUID version 7, which sorts by time (RFC 9562).

With an Idempotency-Key a retry at any node must yield the same id, so the id is derived from the
key (UUID version 8).
"""

import hashlib
import os
import time
import uuid


def new_id() -> str:
    milliseconds = time.time_ns() // 1_000_000
    noise = int.from_bytes(os.urandom(10), "big")
    return _uuid((milliseconds & (1 << 48) - 1) << 80 | noise, version=7)


def id_of_key(factory: str, key: str) -> str:
    """Return the id that a key always yields for a factory."""
    content = f"{factory}\0{key}".encode("utf-8", "surrogateescape")
    digest = hashlib.blake2b(content, digest_size=16, person=b"docstore-id").digest()
    return _uuid(int.from_bytes(digest, "big"), version=8)


def _uuid(value: int, *, version: int) -> str:
    value = value & ~(0xF << 76) | version << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return str(uuid.UUID(int=value))
