"""Encryption of what travels: AES-GCM around each datagram, and around each frame of a stream.

    head 1 | key id 4 | session 8 | counter 4 | ciphertext | tag 16          33 bytes more

The nonce is the session and the counter, so it is never used twice under a key: a session is drawn
anew at every start, and before its counter ends. (Random nonces would come near their safe number
within days in a large group.) Session and counter also reveal a repeated packet, without a clock:
see `replay.py`.

The label of the group, the head and the key id are authenticated with the rest, so that a packet
of another group does not open even under the same key.

Source: NIST SP 800-38D, section 8.2.1, the deterministic construction of nonces.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gossip.security.admission import SEAL_BYTES, SESSION_BYTES, Opened, Refused
from gossip.security.keyring import KEY_ID_BYTES, Keyring
from gossip.wire import SEALED_HEAD, is_sealed

_COUNTER_BYTES = 4
_COUNTER_MAX = 2**32 - 1
_TAG_BYTES = 16
_NONCE_AT = 1 + KEY_ID_BYTES
_BODY_AT = _NONCE_AT + SESSION_BYTES + _COUNTER_BYTES
assert _BODY_AT + _TAG_BYTES == SEAL_BYTES


class Seal:
    """Seals packets of this process, and opens packets of all members."""

    def __init__(
        self, keyring: Keyring, label: str, session: bytes, new_session: Callable[[], bytes]
    ) -> None:
        """Prepare. `new_session` draws another eight bytes once the counter has come to its end."""
        self._keyring = keyring
        self._label = label.encode()
        self._session = session
        self._new_session = new_session
        self._counter = 0
        self._ciphers: dict[bytes, AESGCM] = {}

    def seal(self, plain: bytes, context: bytes = b"") -> bytes:
        """Return `plain` sealed with the primary key.

        `context` is authenticated and not sent; the receiver must pass the same.
        """
        if self._counter > _COUNTER_MAX:
            self._session, self._counter = self._new_session(), 0
        nonce = self._session + self._counter.to_bytes(_COUNTER_BYTES, "big")
        self._counter += 1
        head = bytes([SEALED_HEAD]) + self._keyring.primary
        cipher = self._cipher(self._keyring.primary)
        assert cipher is not None
        return head + nonce + cipher.encrypt(nonce, plain, head + self._label + context)

    def open(self, packet: bytes, context: bytes = b"") -> Opened | Refused:
        """Return the content of `packet`, or the reason why it does not open."""
        if not is_sealed(packet):
            return Refused.PLAIN
        if len(packet) < SEAL_BYTES:
            return Refused.SHORT
        head, nonce = packet[:_NONCE_AT], packet[_NONCE_AT:_BODY_AT]
        cipher = self._cipher(head[1:])
        if cipher is None:
            return Refused.UNKNOWN_KEY
        try:
            plain = cipher.decrypt(nonce, packet[_BODY_AT:], head + self._label + context)
        except InvalidTag:
            return Refused.FORGED
        counter = int.from_bytes(nonce[SESSION_BYTES:], "big")
        return Opened(plain, head[1:], nonce[:SESSION_BYTES], counter)

    def _cipher(self, identifier: bytes) -> AESGCM | None:
        key = self._keyring.get(identifier)
        if key is None:
            self._ciphers.pop(identifier, None)
            return None
        if identifier not in self._ciphers:
            self._ciphers[identifier] = AESGCM(key)
        return self._ciphers[identifier]
