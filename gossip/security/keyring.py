"""The keys of a group: all of them open, one of them seals.

So a key can be changed under traffic: install the new one everywhere, then use it everywhere,
then remove the old one. A key is named by a part of its hash, which travels with what it sealed:
nobody tries keys in turn.

Source: the rotation of keys as memberlist and serf do it; the identifier is our own.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from hashlib import blake2b

from gossip.errors import KeyringError

KEYS_MAX = 8
KEY_ID_BYTES = 4
_KEY_LENGTHS = (16, 24, 32)


def key_id(key: bytes) -> bytes:
    """Return the name under which a key travels. It says nothing about the key itself."""
    return blake2b(key, digest_size=KEY_ID_BYTES, person=b"gossip key id").digest()


class Keyring:
    """At most eight keys of 16, 24 or 32 bytes (AES-128, -192, -256); the first one seals."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        """Raises KeyringError for no key, too many keys, or a key of another length."""
        self._keys: dict[bytes, bytes] = {}
        self._primary = b""
        for key in keys:
            self.install(key)
            self._primary = self._primary or key_id(key)
        if not self._keys:
            raise KeyringError("a keyring needs a key")

    @classmethod
    def parse(cls, text: str) -> Keyring:
        """Return the keyring written in `text`: a key in base64 per line, the first one seals.

        Empty lines and lines that begin with # are skipped. Raises KeyringError.
        """
        lines = [line.strip() for line in text.splitlines()]
        try:
            return cls(
                base64.b64decode(line, validate=True)
                for line in lines
                if line and not line.startswith("#")
            )
        except binascii.Error as error:
            raise KeyringError(f"a key is not base64: {error}") from error

    @property
    def primary(self) -> bytes:
        """The identifier of the key that seals."""
        return self._primary

    @property
    def ids(self) -> list[str]:
        """The identifiers of all keys, in hex, the one that seals first."""
        return sorted(map(bytes.hex, self._keys), key=lambda name: name != self._primary.hex())

    def get(self, identifier: bytes) -> bytes | None:
        """Return the key of that name, None if it is not here."""
        return self._keys.get(identifier)

    def besides(self, key: bytes) -> list[bytes]:
        """Return all keys but this one."""
        return [other for name, other in self._keys.items() if name != key_id(key)]

    def install(self, key: bytes) -> None:
        """Let `key` open as well; again is no error. Raises KeyringError when it cannot."""
        if len(key) not in _KEY_LENGTHS:
            raise KeyringError(f"a key has 16, 24 or 32 bytes, not {len(key)}")
        if key_id(key) not in self._keys and len(self._keys) >= KEYS_MAX:
            raise KeyringError(f"a keyring holds {KEYS_MAX} keys; remove one first")
        self._keys[key_id(key)] = key

    def use(self, key: bytes) -> None:
        """Seal with `key` from now on. Raises KeyringError if it is not installed."""
        if key_id(key) not in self._keys:
            raise KeyringError("the key is not installed; install it everywhere first")
        self._primary = key_id(key)

    def remove(self, key: bytes) -> None:
        """Let `key` open no more; a key that is not here is no error. Raises for the primary."""
        if key_id(key) == self._primary:
            raise KeyringError("the key is in use; use another one first")
        self._keys.pop(key_id(key), None)
