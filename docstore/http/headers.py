"""Parse the headers of a request into checked values; refuse invalid ones.

Every error of a request that can be found without its document is found here and in `bodies.py`.
Values that clients repeat (media types, header names) are checked once and remembered.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol

from aiohttp.hdrs import ACCEPT, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH
from aiohttp.helpers import RequestKey
from multidict import CIMultiDictProxy, istr

from docstore.errors import BadRequest, ExpectationFailed, NotAcceptable, UnsupportedMedia
from docstore.http.representation import JSON_TYPE, MSGPACK_TYPE
from docstore.model.operation import Conditions, Media
from docstore.model.settings import quoted

TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX = 10_000, 60_000
KEY_BYTES_MAX = 128
SCOPE_BYTES_MAX = 200
EPOCH_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC)
PATCHES: Mapping[str, Media] = {
    JSON_TYPE: "handler",
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    MSGPACK_TYPE: "handler",
}
BODIES = {JSON_TYPE: "", MSGPACK_TYPE: ""}
TIMEOUT, CONSISTENCY = istr("Docstore-Timeout-Ms"), istr("Docstore-Consistency")
MIN_VERSION, QUORUM = istr("Docstore-Min-Version"), istr("Docstore-Quorum")
IDEMPOTENCY_KEY, FENCE = istr("Idempotency-Key"), istr("Fence")
PREFER, TRACEPARENT = istr("Prefer"), istr("traceparent")
CONSISTENCIES = ("linearizable", "committed", "stale")

_OUR_TAG = re.compile(r'(W/)?"([0-9]{1,18})\.([0-9]{1,18})(?:-m)?"\Z')
_TAG_LIST = re.compile(r'[ \t]*((?:W/)?"[\x21\x23-\x7e\x80-\U0010ffff]*")[ \t]*(?:,|\Z)')
_FENCE = re.compile(r"[ \t]*([!-+\--~]{1,200}):([0-9]{1,18})[ \t]*\Z", re.ASCII)
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{0,200})?\Z")
_INTERNAL = ("docstore-internal", "docstore-forwarded", "docstore-replication", "x-xenon")
_JUDGED = frozenset({"content-encoding", "expect", "pragma"})
_ONCE = frozenset(
    "content-encoding content-type docstore-consistency docstore-lease"
    " docstore-min-version docstore-producer docstore-quorum docstore-timeout-ms docstore-token"
    " expect fence host idempotency-key last-event-id origin pragma sec-fetch-site traceparent"
    " transfer-encoding".split()
)
"""Headers that may have one value only: the sender relies on each value, so none is dropped."""
_NAMES_REMEMBERED_MAX = 1000
_harmless: set[str] = set()


class RequestHead(Protocol):
    """The head of a request: aiohttp's, or that of a plain request (`fast_path.py`)."""

    @property
    def method(self) -> str:
        """Return the method, in capitals."""

    @property
    def raw_path(self) -> str:
        """Return the target as the request line spells it."""

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """Return the headers; names are compared without case."""

    @property
    def body_exists(self) -> bool:
        """Say whether a body was announced."""

    def __getitem__(self, key: str | RequestKey[Any]) -> Any:
        """Return a value that was stored with the request (`authority.py`). Raises KeyError."""


def refuse_oddities(request: RequestHead) -> None:
    """Refuse internal headers, unknown expectations or encodings, and second values of `_ONCE`."""
    for name in request.headers:
        if name not in _harmless:
            _judge_header(name, request.headers[name])
    if has_doubles(request.headers):
        for name in request.headers:
            if name.lower() in _ONCE and len(request.headers.getall(name)) > 1:
                raise BadRequest(f"{name} must be sent at most once; got several values")


def has_doubles(found: CIMultiDictProxy[str]) -> bool:
    """Say whether a header is repeated. Iterating yields each name once."""
    return len([*found]) < len(found)


def listed(request: RequestHead, name: str) -> str | None:
    """Return the joined values of a list header (RFC 9110, 5.3); None if it is absent."""
    if name not in request.headers:
        return None
    return ", ".join(request.headers.getall(name))


def _judge_header(name: str, value: str) -> None:
    lowered, value = name.lower(), value.strip().lower()
    if lowered.startswith(_INTERNAL):
        raise BadRequest(f"the header {name[:60]} is for nodes only: leave it out")
    if lowered not in _JUDGED:
        if len(_harmless) < _NAMES_REMEMBERED_MAX:
            _harmless.add(name)
        return
    if lowered == "pragma" and value != "no-cache":
        raise BadRequest(f"Pragma must be no-cache; got {quoted(value)}")
    if lowered == "content-encoding" and value not in ("identity", "gzip", "deflate"):
        raise UnsupportedMedia(
            f"Content-Encoding must be identity, gzip or deflate; got {quoted(value)}"
        )
    if lowered == "expect" and value != "100-continue":
        raise ExpectationFailed(f"Expect must be 100-continue; got {quoted(value)}")


def accepted_media(request: RequestHead) -> str:
    """Return the media type to answer in. Raises NotAcceptable."""
    accept = listed(request, ACCEPT)
    return JSON_TYPE if accept is None else _accepted(accept)


@lru_cache(maxsize=1024)
def _accepted(accept: str) -> str:
    """Return the media type that the client prefers, JSON if equal (RFC 9110, 12.5.1)."""
    ranges: dict[str, float] = {}
    for part in accept.lower().split(","):
        media, *parameters = [piece.strip() for piece in part.split(";")]
        quality = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        ranges[media] = _quality(quality)
    offers = {
        media: next((ranges[each] for each in names if each in ranges), 0.0)
        for media, names in (
            (JSON_TYPE, (JSON_TYPE, "application/problem+json", "application/*", "*/*")),
            (MSGPACK_TYPE, (MSGPACK_TYPE, "application/*", "*/*")),
        )
    }
    best = max(offers, key=lambda media: offers[media])
    if offers[best] <= 0 and accept.strip():
        raise NotAcceptable(
            f"Accept must allow {JSON_TYPE} or {MSGPACK_TYPE}; got {quoted(accept)}"
        )
    return best


def _quality(text: str) -> float:
    if not re.fullmatch(r"[01](\.[0-9]{0,3})?", text):
        raise BadRequest(f"Accept: a quality must be a number from 0 to 1; got {quoted(text)}")
    return float(text)


def content_media(request: RequestHead, allowed: Mapping[str, str]) -> str:
    """Return the media type of the body. Raises UnsupportedMedia."""
    raw = request.headers.get(CONTENT_TYPE)
    if raw is None or raw == JSON_TYPE:
        return JSON_TYPE
    media, charset = _content_type(raw)
    if media not in allowed:
        raise UnsupportedMedia(
            f"Content-Type must be one of {', '.join(sorted(allowed))}; got {quoted(media)}"
        )
    if charset not in ("", "utf-8", "utf8"):
        raise UnsupportedMedia(f"Content-Type: charset must be utf-8; got {quoted(charset)}")
    return media


@lru_cache(maxsize=1024)
def _content_type(raw: str) -> tuple[str, str]:
    media, *parameters = [part.strip() for part in raw.lower().split(";")]
    charsets = [part[8:].strip('"') for part in parameters if part.startswith("charset=")]
    return media, charsets[0] if charsets else ""


def timeout_s(request: RequestHead) -> float:
    raw = request.headers.get(TIMEOUT)
    if raw is None:
        return TIMEOUT_MS_DEFAULT / 1000
    return whole_number(raw, "Docstore-Timeout-Ms", 1, TIMEOUT_MS_MAX) / 1000


def whole_number(raw: str, name: str, least: int, most: int) -> int:
    """Return a decimal integer within bounds. Raises BadRequest."""
    digits = raw.isascii() and raw.isdecimal() and len(raw) < 20
    if not digits or not least <= int(raw) <= most:
        raise BadRequest(f"{name} must be a whole number from {least} to {most}; got {quoted(raw)}")
    return int(raw)


def instant_us(raw: str, name: str) -> int:
    """Return a time in microseconds, from digits or from RFC 3339. Raises BadRequest."""
    if raw.isascii() and raw.isdecimal() and len(raw) <= 18:
        return int(raw)
    try:
        # A plus sign that the client did not encode arrives as a space.
        instant = datetime.fromisoformat(raw.replace(" ", "+"))
    except ValueError:
        raise BadRequest(
            f"{name} must be an RFC 3339 time, or microseconds since 1970; got {quoted(raw)}"
        ) from None
    if instant.tzinfo is None:
        raise BadRequest(f"{name} must have a time zone, such as Z; got {quoted(raw)}")
    return (instant - EPOCH_OF_TIME) // timedelta(microseconds=1)


def conditions(request: RequestHead, version: int | None) -> Conditions | None:
    """Return the preconditions of an update, None if there are none."""
    match, none_match = listed(request, IF_MATCH), listed(request, IF_NONE_MATCH)
    if match is None and none_match is None and version is None:
        return None
    return Conditions(
        tags(match, "If-Match", strong=True) if match is not None else None,
        tags(none_match, "If-None-Match", strong=False) if none_match is not None else None,
        version,
    )


def tags(raw: str, name: str, *, strong: bool) -> str | list[list[int]]:
    """Return "*" or the [epoch, version] pairs of a list of entity tags. Raises BadRequest.

    strong: leave out weak tags, which match nothing (RFC 9110, section 8.8.3.2). Well-formed tags
    of another form are left out too, since they match nothing either.
    """
    if raw.strip() == "*":
        return "*"
    found, at = [], 0
    while at < len(raw):
        part = _TAG_LIST.match(raw, at)
        if part is None:
            break
        at = part.end()
        ours = _OUR_TAG.match(part[1])
        if ours and not (strong and ours[1]):
            found.append([int(ours[2]), int(ours[3])])
    if at < len(raw) or not raw or raw.rstrip().endswith(","):
        raise BadRequest(f"{name} must be a list of quoted entity tags, or *; got {quoted(raw)}")
    return found


def is_current(held: str | Sequence[Sequence[int]], tag: tuple[int, int]) -> bool:
    """Say whether the client's tags contain the tag of the current version."""
    return held == "*" or any(tuple(each) == tag for each in held)


def idempotency_key(request: RequestHead) -> str:
    """Return the client's key for this update, "" for none."""
    key = request.headers.get(IDEMPOTENCY_KEY)
    if key is None:
        return ""
    is_short = 0 < len(key.encode("utf-8", "replace")) <= KEY_BYTES_MAX
    # A proxy may join two Idempotency-Key headers with a comma.
    if not key.isprintable() or "," in key or not is_short:
        raise BadRequest(
            f"Idempotency-Key must have 1 to {KEY_BYTES_MAX} printable bytes and no comma"
        )
    return key


def fence(request: RequestHead, level: int) -> Sequence[str | int]:
    """Return the (scope, token) of an update's fence, () for none."""
    raw = request.headers.get(FENCE)
    if raw is None:
        return ()
    if level < 3:
        raise BadRequest(
            f"a Fence can be sent only to documents of level 3; these have level {level}"
        )
    return _fence(raw)


@lru_cache(maxsize=1024)
def _fence(raw: str) -> tuple[str, int]:
    found = _FENCE.match(raw)
    if found is None:
        raise BadRequest(
            f"Fence must be <scope>:<token>: 1 to {SCOPE_BYTES_MAX} printable bytes without a comma"
            f" (%2C in a name), and a whole number; got {quoted(raw)}"
        )
    return found[1], int(found[2])


def replicas(request: RequestHead) -> int:
    """Return the durable copies that the client requires: 0 for the quorum, -1 for all."""
    raw = request.headers.get(QUORUM)
    if raw is None:
        return 0
    return -1 if raw.lower() == "all" else whole_number(raw, "Docstore-Quorum", 1, 255)


def consistency(request: RequestHead) -> str:
    value = request.headers.get(CONSISTENCY)
    if value is None:
        return "linearizable"
    if value not in CONSISTENCIES:
        raise BadRequest(
            f"Docstore-Consistency must be linearizable, committed or stale; got {quoted(value)}"
        )
    return value


def min_version(request: RequestHead) -> int | None:
    """Return the version that a replica must have reached before a read, None for any."""
    raw = request.headers.get(MIN_VERSION)
    return None if raw is None else whole_number(raw, "Docstore-Min-Version", 0, 1 << 62)


def trace(request: RequestHead) -> str:
    """Return the trace context to pass back; "" if absent or malformed."""
    value = request.headers.get(TRACEPARENT)
    return value if value is not None and _TRACE.match(value) else ""


def preference(request: RequestHead, name: str) -> str | None:
    """Return the value of a preference, "" without a value; None if it is absent (RFC 7240)."""
    for part in (listed(request, PREFER) or "").lower().split(","):
        key, _, value = part.partition(";")[0].partition("=")
        if key.strip() == name:
            return value.strip().strip('"')
    return None
