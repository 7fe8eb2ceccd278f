"""Datagrams of a vote: encode and sign a message; decode and verify one.

A datagram is msgpack of [form, sender, to, kind, fields...] and its HMAC-SHA256. With a secret only
its holders can send; without one the HMAC is a checksum. A replayed datagram does no more harm than
a late one, which the election tolerates.
"""

import hmac
from typing import Any, get_type_hints

import msgpack

from docstore.ownership.elector_messages import (
    Follow,
    Granted,
    Lead,
    Message,
    Received,
    RequestVote,
)

FORM = 1
BYTES_MAX = 1024
NAME_BYTES_MAX = 64
_KINDS: tuple[type[Message], ...] = (RequestVote, Granted, Lead, Follow)
_FIELDS = [tuple(get_type_hints(kind).values()) for kind in _KINDS]
_DIGEST_BYTES = 32
_GENERATION_MAX = 1 << 62


def sealed(message: Message, *, sender: str, to: str, secret: bytes) -> bytes:
    """Return the datagram, of BYTES_MAX at the most."""
    content = msgpack.packb([FORM, sender, to, _KINDS.index(type(message)), *message])
    return bytes(content + hmac.digest(secret, content, "sha256"))


def opened(datagram: bytes, *, to: str, secret: bytes) -> Received | None:
    """Return the message; None if it is damaged, of a stranger, or for another member."""
    content, digest = datagram[:-_DIGEST_BYTES], datagram[-_DIGEST_BYTES:]
    if len(datagram) > BYTES_MAX or not content:
        return None
    if not hmac.compare_digest(digest, hmac.digest(secret, content, "sha256")):
        return None
    try:
        parts = msgpack.unpackb(content)
    except (ValueError, msgpack.exceptions.UnpackException):
        return None
    return _received(parts, to) if isinstance(parts, list) and len(parts) > 4 else None


def _received(parts: list[Any], to: str) -> Received | None:
    form, sender, addressee, kind, *fields = parts
    if form != FORM or not isinstance(sender, str) or addressee != to:
        return None
    if type(kind) is not int or not 0 <= kind < len(_KINDS):
        return None
    if tuple(type(field) for field in fields) != _FIELDS[kind]:
        return None
    if any(type(field) is int and not 0 <= field < _GENERATION_MAX for field in fields):
        return None
    return Received(sender, _KINDS[kind](*fields))
