"""What a request says: headers and body as values, each checked; the rest is refused.

Everything that can be wrong with a request before anybody looks at a document is found here.
"""

import re
from typing import Any

import msgpack
from aiohttp import web

from docstore import json
from docstore.document import STORE_SET
from docstore.errors import (
    BadRequest,
    ExpectationFailed,
    NotAcceptable,
    TooLarge,
    UnsupportedMedia,
)
from docstore.http.representation import JSON_TYPE, MSGPACK_TYPE
from docstore.operation import Conditions

TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX = 10_000, 60_000
KEY_BYTES_MAX = 128
PATCHES = {
    "application/json": "handler",
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    MSGPACK_TYPE: "handler",
}
BODIES = {JSON_TYPE: "", MSGPACK_TYPE: ""}

_TAG = re.compile(r'\s*(?:W/)?"(\d{1,18})\.(\d{1,18})(?:-m)?"\s*\Z')
_QUOTED = re.compile(r'\s*(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"\s*\Z')
_INTERNAL = ("docstore-internal", "docstore-forwarded", "docstore-replication", "x-xenon", "pragma")


def refuse_oddities(request: web.BaseRequest) -> None:
    """Refuse what no client of ours sends: internal headers, odd expectations and encodings."""
    headers = request.headers
    if len(headers) > 3:
        for name in headers:
            lowered = name.lower()
            if lowered.startswith(_INTERNAL) and not _is_harmless(lowered, headers[name]):
                raise BadRequest(f"the header {name[:60]} is not for clients")
    encoding = headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "deflate"):
        raise UnsupportedMedia("bodies come plain, or with gzip or deflate")
    if headers.get("Expect", "100-continue").lower() != "100-continue":
        raise ExpectationFailed("the only expectation understood is 100-continue")


def _is_harmless(name: str, value: str) -> bool:
    return name == "pragma" and value.strip().lower() == "no-cache"


def accepted_media(request: web.BaseRequest) -> str:
    """Return the media type to answer in. Raises NotAcceptable."""
    accept = request.headers.get("Accept")
    if not accept or "*/*" in accept or "application/*" in accept or "json" in accept:
        return JSON_TYPE
    if MSGPACK_TYPE in accept:
        return MSGPACK_TYPE
    raise NotAcceptable(f"answers come as {JSON_TYPE} or {MSGPACK_TYPE}")


def content_media(request: web.BaseRequest, allowed: dict[str, str]) -> str:
    """Return the media type of the body. Raises UnsupportedMedia."""
    raw = request.headers.get("Content-Type", JSON_TYPE)
    media, _, parameters = raw.partition(";")
    media = media.strip().lower()
    if media not in allowed:
        raise UnsupportedMedia(f"the body may be {', '.join(sorted(allowed))}")
    charset = parameters.strip().lower()
    if charset.startswith("charset=") and charset[8:].strip('"') not in ("utf-8", "utf8"):
        raise UnsupportedMedia("the only charset is UTF-8")
    return media


def timeout_s(request: web.BaseRequest) -> float:
    """Return how long the client is ready to wait, in seconds."""
    raw = request.headers.get("Docstore-Timeout-Ms")
    if raw is None:
        return TIMEOUT_MS_DEFAULT / 1000
    return whole_number(raw, "Docstore-Timeout-Ms", 1, TIMEOUT_MS_MAX) / 1000


def whole_number(raw: str, name: str, least: int, most: int) -> int:
    """Return a decimal integer within bounds. Raises BadRequest."""
    if not raw.isascii() or not raw.isdecimal() or not least <= int(raw[:20]) <= most:
        raise BadRequest(f"{name} is a whole number from {least} to {most}")
    return int(raw[:20])


def conditions(request: web.BaseRequest, version: int | None) -> Conditions | None:
    """Return the preconditions of an update, None if there are none."""
    match = request.headers.get("If-Match")
    none_match = request.headers.get("If-None-Match")
    if match is None and none_match is None and version is None:
        return None
    return Conditions(
        tags(match, "If-Match") if match is not None else None,
        tags(none_match, "If-None-Match") if none_match is not None else None,
        version,
    )


def tags(raw: str, name: str) -> str | list[list[int]]:
    """Return "*" or the [epoch, version] pairs of a list of entity tags. Raises BadRequest.

    A well-formed tag that is none of ours matches nothing and is left out.
    """
    if raw.strip() == "*":
        return "*"
    found = []
    for part in raw.split(","):
        tag = _TAG.match(part)
        if tag:
            found.append([int(tag[1]), int(tag[2])])
        elif not _QUOTED.match(part):
            raise BadRequest(f"{name} is a list of quoted entity tags, or *")
    return found


def idempotency_key(request: web.BaseRequest) -> str:
    """Return the client's key for this update, "" for none."""
    key = request.headers.get("Idempotency-Key", "")
    if len(key.encode("utf-8", "surrogateescape")) > KEY_BYTES_MAX:
        raise BadRequest(f"an Idempotency-Key has at most {KEY_BYTES_MAX} bytes")
    return key


def replicas(request: web.BaseRequest) -> int:
    """Return the durable copies that the client wants: 0 for the quorum, -1 for all."""
    raw = request.headers.get("Docstore-Quorum")
    if raw is None:
        return 0
    return -1 if raw.lower() == "all" else whole_number(raw, "Docstore-Quorum", 1, 255)


def consistency(request: web.BaseRequest) -> str:
    """Return how fresh a read must be."""
    value = request.headers.get("Docstore-Consistency", "linearizable")
    if value not in ("linearizable", "committed", "stale"):
        raise BadRequest("Docstore-Consistency is linearizable, committed or stale")
    return value


def json_body(raw: bytes, media: str) -> bytes:
    """Return a body as JSON bytes, whatever it came as. Raises BadRequest."""
    if not raw:
        raise BadRequest("a body is needed")
    if media != MSGPACK_TYPE:
        return raw.strip()
    try:
        value = msgpack.unpackb(raw, strict_map_key=True, timestamp=0, max_ext_len=0, max_bin_len=0)
        return json.dump(value)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise BadRequest(f"not msgpack of JSON values: {type(error).__name__}") from None


def author_state(raw: bytes, state_bytes_max: int) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """Return the author's bytes, the author's fields, and the document* fields that came along.

    The bytes are as they came when the client sent none of the fields that the store sets.
    """
    if len(raw) > state_bytes_max:
        raise TooLarge(f"a document has at most {state_bytes_max} bytes")
    value = json.parse_object(raw)
    if not value:
        return b"{}", value, {}
    if b'"document' not in raw and b"\\u" not in raw:
        return raw, value, {}
    theirs = {key: value.pop(key) for key in list(value) if key in STORE_SET}
    expiry = value.get("documentExpirationTimeMicros", 0)
    if isinstance(expiry, bool) or not isinstance(expiry, int) or expiry < 0:
        raise BadRequest("documentExpirationTimeMicros is a time in microseconds")
    return (json.dump(value) if theirs else raw), value, theirs


def sent_version(theirs: dict[str, Any]) -> int | None:
    """Return the documentVersion that a body is based on, None if it does not say."""
    version = theirs.get("documentVersion")
    if version is None:
        return None
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise BadRequest("documentVersion is a whole number")
    return version


def check_self_link(theirs: dict[str, Any], link: str) -> None:
    """Refuse a body that names another document than the path does."""
    named = theirs.get("documentSelfLink")
    if named is not None and named not in (link, link.rpartition("/")[2]):
        raise BadRequest("documentSelfLink differs from the path")
