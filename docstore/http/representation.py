"""A row as a client sees it: the author's object with the store's fields stitched to its end.

The author's bytes are not parsed for JSON. The entity tag is `"<epoch>.<version>"`, with a
suffix for the msgpack form, since it is another representation (RFC 9110, section 8.8.3).
"""

from typing import Any

import msgpack
import orjson

from docstore.document import Row

JSON_TYPE = "application/json"
MSGPACK_TYPE = "application/msgpack"


def document_json(row: Row, kind: str) -> bytes:
    """Return the document as JSON."""
    link = row.link
    quoted = orjson.dumps(link) if not link.isascii() or '"' in link else b'"%b"' % link.encode()
    fields = (
        b'"documentSelfLink":%b,"documentKind":"%b","documentVersion":%d,"documentEpoch":%d,'
        b'"documentOwner":"%b","documentUpdateTimeMicros":%d,"documentUpdateAction":"%b",'
        b'"documentSignature":"%b"}'
    ) % (
        quoted, kind.encode(), row.version, row.epoch, row.owner.encode(), row.updated_us,
        row.action.encode(), row.signature.hex().encode(),
    )  # fmt: skip
    if row.state == b"{}":
        return b"{" + fields
    return row.state[:-1] + b"," + fields


def document_value(row: Row, kind: str) -> dict[str, Any]:
    """Return the document as a parsed object."""
    value: dict[str, Any] = orjson.loads(document_json(row, kind))
    return value


def encode(value: Any, media: str) -> bytes:
    """Return any value in the media type that the client accepts."""
    if media == MSGPACK_TYPE:
        packed: bytes = msgpack.packb(value)
        return packed
    return orjson.dumps(value)


def document_bytes(row: Row, kind: str, media: str) -> bytes:
    """Return the document in the media type that the client accepts."""
    if media == JSON_TYPE:
        return document_json(row, kind)
    return encode(document_value(row, kind), media)


def entity_tag(row: Row, media: str) -> str:
    """Return the strong entity tag of a document's representation."""
    suffix = "-m" if media == MSGPACK_TYPE else ""
    return f'"{row.epoch}.{row.version}{suffix}"'
