"""Encryption of secrets in documents, with keys that are outside of documents.

A subscription's document is visible in feeds, scans and copies of the disk. Its secret must be
readable by each node that may deliver, and by no client. So the operator gives all nodes the same
file of keys. The first key encrypts, and all keys decrypt. To replace a key, add the new one as the
second on all nodes, then make it the first, then delete the old key when no secret uses it.

Source: Fernet (AES-128-CBC and HMAC-SHA256), and its rotation, of the `cryptography` package.
"""

import binascii
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from docstore.errors import BadConfig, DocstoreError


class SealedByAnother(DocstoreError):
    """No key of this node decrypts a secret, or the secret belongs to another subscription."""


class SecretSeal:
    """The keys of a node, which encrypt and decrypt secrets."""

    def __init__(self, keys: MultiFernet) -> None:
        self._keys = keys

    def seal(self, link: str, secret: str) -> str:
        return self._keys.encrypt(f"{link} {secret}".encode()).decode()

    def open(self, link: str, sealed: str) -> str:
        """Decrypt the secret of a subscription. Raises SealedByAnother."""
        try:
            named, _, secret = self._keys.decrypt(sealed).decode().partition(" ")
        except (InvalidToken, ValueError):
            named, secret = "", ""
        if named != link:
            raise SealedByAnother(
                "callback_key_file has no key that decrypts the secret of this subscription"
            )
        return secret


def seal_in(path: str) -> SecretSeal:
    """Read the keys in a file: base64, one a line. Raises BadConfig."""
    try:
        lines = Path(path).read_text("ascii").split()
        if not lines:
            raise BadConfig(
                f"callback_key_file: {path} contains no key; write 32 bytes in base64 into it"
            )
        return SecretSeal(MultiFernet([Fernet(line) for line in lines]))
    except OSError as error:
        raise BadConfig(f"callback_key_file: {path}: {error.strerror}") from None
    except (ValueError, binascii.Error):
        raise BadConfig(f"callback_key_file: {path}: a key must be 32 bytes in base64") from None
