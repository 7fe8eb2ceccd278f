"""Signatures of calls, by which a receiver recognises a node and the time. Pure.

    webhook-id: msg_...                  the same for each attempt to send the same lines
    webhook-timestamp: 1795677681        of this attempt, in seconds since 1970
    webhook-signature: v1,<base64>       HMAC-SHA256 of "<id>.<timestamp>.<body>"

The key is the base64 after `whsec_` in the secret.

Source: the Standard Webhooks specification.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from hashlib import blake2b

from docstore.errors import BadRequest

PREFIX = "whsec_"
KEY_BYTES = (24, 64)
MADE_BYTES = 32


def secret_of(key: bytes) -> str:
    return PREFIX + base64.b64encode(key).decode()


def key_of(secret: str) -> bytes:
    least, most = KEY_BYTES
    try:
        if not secret.startswith(PREFIX):
            raise ValueError
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        if not least <= len(key) <= most:
            raise ValueError
    except (ValueError, binascii.Error):
        raise BadRequest(
            f"`secret` must be {PREFIX} followed by {least} to {most} bytes in base64"
        ) from None
    return key


def message_id(body: bytes) -> str:
    return f"msg_{blake2b(body, digest_size=16, person=b'webhook id').hexdigest()}"


def signed(secret: str, message: str, now_s: int, body: bytes) -> Mapping[str, str]:
    """Return the headers of one attempt. now_s: since 1970."""
    content = b"%b.%d.%b" % (message.encode(), now_s, body)
    code = base64.b64encode(hmac.digest(key_of(secret), content, "sha256")).decode()
    return {**unsigned(message, now_s), "webhook-signature": f"v1,{code}"}


def unsigned(message: str, now_s: int) -> Mapping[str, str]:
    return {"webhook-id": message, "webhook-timestamp": str(now_s)}
