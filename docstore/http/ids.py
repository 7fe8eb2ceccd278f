"""Ids for documents whose client gave none: UUID version 7, which sorts by time (RFC 9562)."""

import os
import time
import uuid


def new_id() -> str:
    """Return a fresh id."""
    milliseconds = time.time_ns() // 1_000_000
    noise = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & (1 << 48) - 1) << 80 | noise & (1 << 80) - 1
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return str(uuid.UUID(int=value))
