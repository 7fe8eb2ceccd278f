"""A request's body: received within its limits, and parsed strictly.

The fields that the store sets are separated from the author's own members.
"""

import asyncio
import re
from collections import Counter
from typing import Any, NamedTuple

import msgpack
from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING

from docstore.errors import BadRequest, TooLarge, TooSlow
from docstore.http.encodings import inflater
from docstore.http.headers import PATCHES, RequestHead
from docstore.http.ids import id_of_key, new_id
from docstore.http.representation import MSGPACK_TYPE
from docstore.model import json
from docstore.model.document import EXPIRY, EXPIRY_NAME, LEASE
from docstore.model.document_members import STORE_SET
from docstore.model.paths import SUFFIXES, canonical_link
from docstore.model.settings import quoted
from docstore.streams.records import why_not_msgpack

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_NOTED = STORE_SET | {LEASE, EXPIRY}
"""Members that the store reads or writes; few bodies have any of them."""
_WHITE = b" \t\r\n"
_NEGATIVE_VERSION = re.compile(rb'"documentVersion"[ \t\r\n]*:[ \t\r\n]*-')


async def receive(request: web.BaseRequest, *, bytes_max: int, timeout_s: float) -> bytes:
    """Return the body. Raises TooLarge, TooSlow, or aiohttp's error for malformed chunks."""
    content = request.content
    if content.is_eof():
        body = content.read_nowait()
    else:
        if (request.content_length or 0) > bytes_max:
            raise TooLarge(
                f"the body must have at most {bytes_max} bytes; got {request.content_length}"
            )
        invite(request)
        try:
            async with asyncio.timeout(timeout_s):
                body = await _gathered(request, bytes_max)
        except TimeoutError:
            raise TooSlow(f"the body must arrive within {timeout_s:g} s") from None
    return fitting(request, body, bytes_max)


def fitting(request: RequestHead, body: bytes, bytes_max: int) -> bytes:
    """Return the decompressed body. Raises TooLarge, BadRequest."""
    if body and CONTENT_ENCODING in request.headers:
        body = _plain(body, request.headers[CONTENT_ENCODING], bytes_max)
    if len(body) > bytes_max:
        raise TooLarge(f"the body must have at most {bytes_max} bytes")
    return body


def _plain(body: bytes, encoding: str, bytes_max: int) -> bytes:
    """Return the decompressed body; stop soon after it exceeds `bytes_max`."""
    inflate = inflater(encoding)
    if inflate is None:
        return body
    pieces, size = [], 0
    for piece in inflate.feed(body):
        pieces.append(piece)
        size += len(piece)
        if size > bytes_max:
            return b"".join(pieces)
    inflate.end()
    return b"".join(pieces)


def invite(request: web.BaseRequest) -> None:
    """Answer `100 Continue` to a client that waits for it before it sends the body."""
    if "Expect" in request.headers and request.transport is not None:
        request.transport.write(CONTINUE)


async def _gathered(request: web.BaseRequest, bytes_max: int) -> bytes:
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > bytes_max:
            break
    return b"".join(chunks)


def json_bytes(raw: bytes, media: str) -> bytes:
    """Return a JSON or msgpack body as JSON bytes. Raises BadRequest."""
    raw = raw if media == MSGPACK_TYPE else raw.strip(_WHITE)
    if not raw:
        raise BadRequest("the request must have a body; got none")
    return json.dump(unpacked(raw)) if media == MSGPACK_TYPE else raw


def unpacked(raw: bytes) -> Any:
    """Return the JSON value that msgpack bytes stand for. Raises BadRequest."""
    most = len(raw)
    try:
        value = msgpack.unpackb(
            raw, strict_map_key=True, timestamp=0, max_ext_len=0, max_bin_len=0,
            max_array_len=most, max_map_len=most, object_pairs_hook=object_of_pairs,
        )  # fmt: skip
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise BadRequest(
            f"the body must be msgpack of JSON values: {why_not_msgpack(error)}"
        ) from None
    json.check(value)
    return value


def object_of_pairs(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return an object. Raises ValueError when a key is there twice."""
    result = dict(pairs)
    if len(result) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {quoted(twice)} is there twice: keep one")
    return result


class WrittenBody(NamedTuple):
    """The content of a body about a document.

    raw: the author's bytes, or a patch. signature: the signature of the state, b"" for a patch.
    theirs: the fields set by the store that the client sent back, and the lease, which stays in
    `raw` as well. waited_s: seconds that a large body waited to be parsed.
    """

    raw: bytes
    signature: bytes
    theirs: dict[str, Any]
    waited_s: float = 0.0


def written(body: bytes, media: str, *, bytes_max: int) -> WrittenBody:
    """Parse the whole new state of a document. Raises BadRequest, TooLarge."""
    raw, state, theirs = author_state(json_bytes(body, media), bytes_max)
    return WrittenBody(raw, json.signature(state), theirs)


NOTHING = WrittenBody(b"", b"", {})


def written_of(state: dict[str, Any], *, bytes_max: int) -> WrittenBody:
    """Check the whole new state of a document. Raises BadRequest, TooLarge."""
    theirs = parted(state)
    return WrittenBody(_dumped(state, bytes_max), json.signature(state), theirs)


def change_of(patch: dict[str, Any] | list[Any], *, bytes_max: int) -> WrittenBody:
    """Check a patch. Raises BadRequest, TooLarge."""
    theirs = parted(patch, is_patch=True) if isinstance(patch, dict) else {}
    return WrittenBody(_dumped(patch, bytes_max), b"", theirs)


def _dumped(value: Any, bytes_max: int) -> bytes:
    raw = json.dump(value)
    if len(raw) > bytes_max:
        raise TooLarge(f"a document must have at most {bytes_max} bytes; got {len(raw)}")
    return raw


def change(body: bytes, media: str, *, bytes_max: int) -> WrittenBody:
    """Parse a patch. Raises BadRequest, TooLarge."""
    raw = json_bytes(body, media)
    if PATCHES[media] == "json":
        json.parse(raw)
        return WrittenBody(raw, b"", {})
    raw, _, theirs = author_state(raw, bytes_max, is_patch=True)
    return WrittenBody(raw, b"", theirs)


def author_state(
    raw: bytes, bytes_max: int, *, is_patch: bool = False
) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """Return the author's bytes, the author's fields, and the document* fields of a body.

    The bytes are those of the body itself if the client sent none of the fields that the store
    sets.
    """
    if len(raw) > bytes_max:
        raise TooLarge(f"a document must have at most {bytes_max} bytes; got {len(raw)}")
    value = json.parse_object(raw)
    if _NOTED.isdisjoint(value):
        return (raw if value else b"{}"), value, {}
    theirs = parted(value, is_patch=is_patch)
    if "documentVersion" in theirs and _NEGATIVE_VERSION.search(raw):
        # Also refuses -0, which JSON parsers read as 0.
        raise BadRequest("documentVersion must be a whole number from 0; got a negative one")
    if not value:
        return b"{}", value, theirs
    # The name must be spelled without escapes: storage finds expiring documents by this text.
    hidden = EXPIRY in value and EXPIRY_NAME not in raw
    return (json.dump(value) if theirs or hidden else raw), value, theirs


def parted(value: dict[str, Any], *, is_patch: bool = False) -> dict[str, Any]:
    """Remove the fields that the store sets from a state, and return them and the lease.

    A patch may set the expiry to null, which removes it.
    """
    if _NOTED.isdisjoint(value):
        return {}
    theirs = {key: value.pop(key) for key in list(value) if key in STORE_SET}
    if LEASE in value:
        theirs[LEASE] = value[LEASE]
    expiry = value.get(EXPIRY, 0)
    if is_patch and expiry is None:
        return theirs
    if isinstance(expiry, bool) or not isinstance(expiry, int) or expiry < 0:
        raise BadRequest(f"{EXPIRY} must be microseconds since 1970; got {quoted(expiry)}")
    return theirs


def sent_version(theirs: dict[str, Any], *, name: str = "documentVersion") -> int | None:
    """Return the version that a body is based on, None if it names none."""
    version = theirs.get("documentVersion")
    if version is None:
        return None
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise BadRequest(f"{name} must be a whole number from 0; got {quoted(version)}")
    return version


def check_self_link(theirs: dict[str, Any], link: str) -> None:
    """Refuse a body that names another document than the path does."""
    named = theirs.get("documentSelfLink")
    if named is not None and named not in (link, link.rpartition("/")[2]):
        raise BadRequest(f"documentSelfLink must be the path, {link}; got {quoted(named)}")


def new_link(theirs: dict[str, Any], factory: str, key: str) -> str:
    """Return the link for the document of a POST; the same key always gives the same link."""
    named = named_link(theirs, factory)
    return named or f"{factory}/{id_of_key(factory, key) if key else new_id()}"


def named_link(theirs: dict[str, Any], factory: str) -> str | None:
    """Return the link that a POST's body names, None if the node must choose one."""
    named = theirs.get("documentSelfLink")
    if named is None:
        return None
    if not isinstance(named, str) or not named:
        raise BadRequest(
            f"documentSelfLink must be a string that is not empty; got {quoted(named)}"
        )
    link = canonical_link(named if named.startswith("/") else f"{factory}/{named}")
    if link.rpartition("/")[0] != factory:
        raise BadRequest(f"documentSelfLink must be an id, or {factory}/<id>; got {quoted(named)}")
    name = link.rpartition("/")[2]
    if name in SUFFIXES:
        raise BadRequest(f"documentSelfLink: {name} is a utility, and cannot be an id: use another")
    return link
