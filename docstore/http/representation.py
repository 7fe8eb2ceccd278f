"""A row as a client sees it: the author's object with the store's fields appended.

For JSON, the author's bytes are not parsed. The entity tag is `"<epoch>.<version>"`, with a suffix
for msgpack, which is another representation (RFC 9110, section 8.8.3).
"""

from collections.abc import Mapping
from typing import Any

import msgpack
import orjson

from docstore.http.reply import Reply, header_lines
from docstore.model.document import Row, tag_of
from docstore.model.document_members import said_of
from docstore.model.fences import fences_of

JSON_TYPE = "application/json"
MSGPACK_TYPE = "application/msgpack"


def document_json(row: Row, kind: str) -> bytes:
    said = orjson.dumps(said_of(row, kind))
    return said if row.state == b"{}" else row.state[:-1] + b"," + said[1:]


def document_bytes(row: Row, kind: str, media: str) -> bytes:
    """Return the document in the media type that the client accepts."""
    if media == JSON_TYPE:
        return document_json(row, kind)
    return encode(orjson.loads(document_json(row, kind)), media)


def entity_tag(row: Row, media: str, level: int) -> bytes:
    """Return the strong entity tag of a document's representation."""
    return (b'"%d.%d-m"' if media == MSGPACK_TYPE else b'"%d.%d"') % tag_of(row, level)


def version_lines(row: Row) -> bytes:
    """Return header lines with the version of a document and the fences that it remembers."""
    lines = b"Docstore-Version: %d\r\n" % row.version
    fences = fences_of(row)
    if fences:
        lines += "".join([f"Fence: {scope}:{token}\r\n" for scope, token in fences]).encode()
    return lines


def encode(value: Any, media: str) -> bytes:
    """Return a value in the media type that the client accepts."""
    if media == MSGPACK_TYPE:
        packed: bytes = msgpack.packb(value)
        return packed
    return orjson.dumps(value)


def decode(body: bytes, media: str) -> Any:
    """Return the value that `encode` has encoded."""
    return msgpack.unpackb(body) if media == MSGPACK_TYPE else orjson.loads(body)


def stitched(page: Mapping[str, Any], media: str = JSON_TYPE) -> bytes:
    """Return a page whose members are values, or JSON bytes, which are copied unparsed."""
    members = [
        b"%b:%b" % (orjson.dumps(name), value if isinstance(value, bytes) else orjson.dumps(value))
        for name, value in page.items()
    ]
    whole = b"{" + b",".join(members) + b"}"
    return whole if media == JSON_TYPE else encode(orjson.loads(whole), media)


def page_reply(
    page: Any, media: str, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Reply:
    """Return a reply with a value as its body."""
    head = header_lines({"Content-Type": media, **(headers or {})})
    return Reply(status, encode(page, media), head)
