"""The keys of a group: each of them opens packets, the primary key seals them.

So a group changes its key under traffic: all members install the new key, then all use it, then
all remove the old one (`rotation.py`). A packet names its key by a part of the key's hash, so a
member never tries keys in turn.

Source: the rotation of keys as memberlist and serf do it; the identifier is our own.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from hashlib import blake2b

from gossip.errors import KeyringError
from gossip.messages import KeyVerb

KEYS_MAX = 8
KEY_ID_BYTES = 4
_KEY_LENGTHS = (16, 24, 32)


def key_id(key: bytes) -> bytes:
    """Return the name under which a key travels. It says nothing about the key itself."""
    return blake2b(key, digest_size=KEY_ID_BYTES, person=b"gossip key id").digest()


def keys_in(text: str) -> list[bytes]:
    """Return the keys in a text: one in base64 per line.

    Empty lines and lines that begin with # are skipped. Raises KeyringError.
    """
    lines = [line.strip() for line in text.splitlines()]
    try:
        return [
            base64.b64decode(line, validate=True)
            for line in lines
            if line and not line.startswith("#")
        ]
    except binascii.Error as error:
        raise KeyringError(f"each key must be base64: {error}") from error


class Keyring:
    """At most eight keys of 16, 24 or 32 bytes (AES-128, -192, -256); the first one seals."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        """Raises KeyringError for no key, too many keys, or a key of another length."""
        self._keys: dict[bytes, bytes] = {}
        for key in keys:
            self._keys = self._with(key)
        if not self._keys:
            raise KeyringError("a keyring must have at least one key")

    @property
    def primary(self) -> bytes:
        return next(iter(self._keys))

    @property
    def ids(self) -> list[str]:
        """The identifiers of all keys, in hex, the primary key first."""
        return [name.hex() for name in self._keys]

    def get(self, identifier: bytes) -> bytes | None:
        return self._keys.get(identifier)

    async def take(self, step: KeyVerb, key: bytes) -> None:
        """Take one step of a rotation; a step that was taken before changes nothing.

        key: the key to install, or the identifier of the key to use or to remove.
        Raises KeyringError, and nothing has changed.
        """
        self._keys = self._after(step, key)

    def _after(self, step: KeyVerb, key: bytes) -> dict[bytes, bytes]:
        match step:
            case KeyVerb.LIST:
                return self._keys
            case KeyVerb.INSTALL:
                return self._with(key)
            case KeyVerb.USE:
                if key not in self._keys:
                    raise KeyringError(f"key {key.hex()} is not installed; install it first")
                return {key: self._keys[key], **self._keys}
            case KeyVerb.REMOVE:
                if key == self.primary:
                    raise KeyringError(f"key {key.hex()} is in use; use another key first")
                return {name: each for name, each in self._keys.items() if name != key}

    def _with(self, key: bytes) -> dict[bytes, bytes]:
        if len(key) not in _KEY_LENGTHS:
            raise KeyringError(f"a key must have 16, 24 or 32 bytes; got {len(key)}")
        if key_id(key) not in self._keys and len(self._keys) >= KEYS_MAX:
            raise KeyringError(f"a keyring has at most {KEYS_MAX} keys; remove one first")
        return {**self._keys, key_id(key): key}
