"""Cursors of queries: where the next page begins, as a text for the nodes of one group. Pure.

A cursor holds the whole query: the request, its cut, and the last place. Nodes keep no state for
it. A keyed hash detects cursors of other groups, and truncated or changed ones. The key is no
secret: a cursor gives a client no access that it would not have without it.
"""

import base64
import zlib
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import orjson

from docstore.errors import BadRequest

CODE_BYTES = 16
_PLAIN_BYTES_MAX = 4 << 20


def pack_cursor(group: str, query: Mapping[str, Any]) -> str:
    packed = zlib.compress(orjson.dumps(query), 9)
    return base64.urlsafe_b64encode(_code(group, packed) + packed).decode().rstrip("=")


def unpack_cursor(group: str, cursor: str) -> dict[str, Any]:
    query: Any = None
    with suppress(ValueError, zlib.error):  # Errors of base64 and JSON are ValueErrors.
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
        code, packed = text[:CODE_BYTES], text[CODE_BYTES:]
        if code == _code(group, packed):
            query = orjson.loads(zlib.decompressobj().decompress(packed, _PLAIN_BYTES_MAX))
    if not isinstance(query, dict):
        raise BadRequest("the cursor is damaged, or of another group: begin the query again")
    return query


def _code(group: str, packed: bytes) -> bytes:
    key = blake2b(group.encode(), digest_size=32).digest()
    return blake2b(packed, digest_size=CODE_BYTES, key=key, person=b"docstore cursor").digest()
