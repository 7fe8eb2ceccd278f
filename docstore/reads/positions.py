"""Encryption of feed tokens and cursors for users that may not read everything.

A token contains the number of rows of each slot, and so reveals something about documents that the
user may not read. Such a user gets tokens that are encrypted, padded, and different each time. The
key is a document that only an administrator can read. The first node that needs it creates it, and
all nodes use it. Source: AES-256-GCM, NIST SP 800-38D, with random nonces.
"""

import base64
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from docstore.errors import BadRequest, Unavailable
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import ANY_TOMBSTONE, Answer, Operation
from docstore.query.cut import SEALED, Cut
from docstore.services.registry import FEED_KEYS

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES, NONCE_BYTES, PADDED_BYTES = 32, 12, 256
LINK = f"{FEED_KEYS}/first"


class Positions:
    """Encrypts and decrypts tokens of cuts. submit: carries an operation to its owner."""

    def __init__(self, submit: Callable[[Operation, float], Awaitable[Answer]]) -> None:
        self._submit = submit
        self._sealing: AESGCM | None = None

    async def packing(self, timeout_s: float, *, reads_all: bool) -> Callable[[Cut], str]:
        """Return the function that packs cuts for a reader. Raises Unavailable."""
        if reads_all:
            return Cut.pack
        sealing = await self._key(timeout_s)

        def sealed(cut: Cut) -> str:
            token, nonce = cut.pack().encode(), os.urandom(NONCE_BYTES)
            padded = token.ljust(-(-len(token) // PADDED_BYTES) * PADDED_BYTES)
            raw = nonce + sealing.encrypt(nonce, padded, None)
            return SEALED + base64.urlsafe_b64encode(raw).decode().rstrip("=")

        return sealed

    async def opened(self, text: str, timeout_s: float) -> str:
        """Decrypt a sealed token; return other text unchanged. Raises BadRequest, Unavailable."""
        if not text.startswith(SEALED):
            return text
        sealing = await self._key(timeout_s)
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - As in `_key`.

        try:
            sealed = text.removeprefix(SEALED)
            raw = base64.b64decode(sealed + "=" * (-len(sealed) % 4), b"-_", validate=True)
            plain = sealing.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], None)
        except (ValueError, InvalidTag):
            raise BadRequest(
                "the token is damaged, or of another group: send one that this group returned"
            ) from None
        return plain.decode().rstrip()

    async def _key(self, timeout_s: float) -> "AESGCM":
        """Return the group's key; create it if there is none."""
        if self._sealing is None:
            row = await self._asked(Operation(verb="GET", link=LINK), timeout_s)
            if row is None:
                made = base64.b64encode(os.urandom(KEY_BYTES)).decode()
                state = {"key": made}
                body, signature = json.dump(state), json.signature(state)
                post = Operation(
                    verb="POST", link=LINK, body=body, signature=signature,
                    recreate_below=ANY_TOMBSTONE,
                )  # fmt: skip
                await self._asked(post, timeout_s)
                row = await self._asked(Operation(verb="GET", link=LINK), timeout_s)
            if row is None:
                raise Unavailable("the key of feeds has not been created yet: ask again")
            from cryptography.hazmat.primitives.ciphers.aead import (  # noqa: PLC0415 - For few users.
                AESGCM,
            )

            self._sealing = AESGCM(base64.b64decode(json.load(row.state)["key"]))
        return self._sealing

    async def _asked(self, operation: Operation, timeout_s: float) -> Row | None:
        answer = await self._submit(operation, timeout_s)
        if answer.status >= 500:
            raise Unavailable(f"the key of feeds cannot be read: {answer.detail or answer.code}")
        return answer.row if answer.is_success else None
