"""Canonical paths: a document has one spelling of its link, and all others are rejected.

The raw path is split before it is decoded, and decoded once, so that an encoded slash never becomes
a separator. Encoded slashes and backslashes, control characters, dot segments, empty segments, text
that is not UTF-8 in normal form C, and long paths are rejected.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import quote, unquote_to_bytes

from docstore.errors import BadRequest
from docstore.model.settings import quoted

PATH_BYTES_MAX = 1024
SEGMENTS_MAX = 32
ID_BYTES_MAX = 512
"""Most bytes of an id from `id_of`, so that half of PATH_BYTES_MAX is left for the factory."""
RESERVED = ("core", "mgmt", "health", "metrics")
_OWN = tuple(f"/{name}/" for name in RESERVED)
KEYED = ("/core/leases", "/core/elections", "/core/locks")
"""Factories of the store whose documents have partition keys, so that a lease can share the slot of
a lock."""
_KEYED = tuple(f"{path}/" for path in KEYED)
KEY_IN_LINK = rf"(?s)\A(?!/(?:{'|'.join(RESERVED)})/).*:/([^/~]*)[^/]*\z"
"""`partition_key` of users' documents as a regular expression of Java, whose group is the key."""
SUFFIXES = frozenset(
    {
        "stats", "config", "subscriptions", "template", "available", "versions",
        "synchronization", "explain", "conflicts",
    }
)  # fmt: skip
"""Last segments that name a utility of a document or factory, and so can be no document's id.

They do not count for the limits of paths.
"""

_PLAIN = re.compile(
    r"(?=.{2,256}\Z)(?:/[A-Za-z0-9_~@!$&'()*+,;=:-][A-Za-z0-9._~@!$&'()*+,;=:-]*){1,32}\Z"
)
"""Short paths that have one spelling: nearly all paths."""
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f/\\\ud800-\udfff]")
_ESCAPED = re.compile(r"[\x00-\x1f\x7f-\x9f/\\\ud800-\udfff%~]")
_DIGEST = "%sha256="
_RAW_MAX = 3 * PATH_BYTES_MAX + 1 + max(map(len, SUFFIXES))


def canonical(raw_path: str) -> str:
    """Return the canonical link of a request's raw path without query. Raises BadRequest."""
    if _PLAIN.match(raw_path):
        return raw_path
    if len(raw_path) > _RAW_MAX:
        raise BadRequest(f"a path must have at most {PATH_BYTES_MAX} bytes")
    return canonical_link("/".join([_decoded(part) for part in raw_path.split("/")]))


def canonical_link(link: str) -> str:
    """Return a link from a body, if it is canonical. Raises BadRequest."""
    if _PLAIN.match(link):
        return link
    if not link.startswith("/"):
        raise BadRequest(f"a path must begin with /; got {quoted(link)}")
    segments = link[1:].split("/")
    for segment in segments:
        _check_segment(segment)
    above, _, last = link.rpartition("/")
    if len(segments) > SEGMENTS_MAX + (last in SUFFIXES):
        raise BadRequest(f"a path must have at most {SEGMENTS_MAX} segments; got {len(segments)}")
    if len((above if last in SUFFIXES else link).encode()) > PATH_BYTES_MAX:
        raise BadRequest(f"a path must have at most {PATH_BYTES_MAX} bytes")
    return link


def encoded(link: str) -> str:
    return link if _PLAIN.match(link) else quote(link, safe="/~@!$&'()*+,;=:")


def _decoded(part: str) -> str:
    """Decode a segment of a raw path once. Raises BadRequest, also for an encoded slash."""
    if "%" not in part and part.isascii():
        if "#" in part:
            raise BadRequest(f"a path must not contain a #: send %23; got {quoted(part)}")
        return part
    if _BAD_ESCAPE.search(part):
        raise BadRequest(f"a % in a path must come with two hexadecimal digits; got {quoted(part)}")
    if not part.isascii():
        raise BadRequest(
            f"a path must have characters outside ASCII percent-encoded; got {quoted(part)}"
        )
    try:
        text = unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        raise BadRequest(f"a path must be percent-encoded UTF-8; got {quoted(part)}") from None
    _check_segment(text)
    return text


def _check_segment(text: str) -> None:
    if not text:
        raise BadRequest("a path must not contain an empty segment, such as // or a / at its end")
    if text in (".", ".."):
        raise BadRequest(f"a path must not contain the segments . and ..; got {quoted(text)}")
    if _FORBIDDEN.search(text):
        raise BadRequest(
            "a segment of a path must not contain a slash, backslash or control character;"
            f" got {quoted(text)}"
        )
    if not text.isascii() and unicodedata.normalize("NFC", text) != text:
        raise BadRequest(f"a path must be in Unicode normal form C (NFC); got {quoted(text)}")


def check_factory_path(path: str) -> None:
    """Raise BadRequest unless users may declare a factory at this canonical path."""
    first, *rest = path[1:].split("/")
    if first in RESERVED:
        raise BadRequest(f"/{first} is reserved for the store: use another path")
    if any(segment in SUFFIXES for segment in (first, *rest)):
        named = ", ".join(sorted(SUFFIXES))
        raise BadRequest(f"a factory's path must not contain {named}; got {quoted(path)}")
    if ":" in path[:-1]:  # Ids of declarations have colons.
        raise BadRequest(
            "a factory's path must contain a colon only at its end, for documents with partition"
            f" keys; got {quoted(path)}"
        )
    if path.endswith("/:"):
        raise BadRequest(
            f"a factory's path must have a name before the colon at its end; got {quoted(path)}"
        )


def has_keys(factory: str) -> bool:
    """Say whether the documents of a factory have partition keys: its path ends in a colon."""
    return factory.endswith(":") and not factory.startswith(_OWN)


def partition_key(link: str) -> str:
    """Return the text that determines the slot of a document: its link, or its partition key.

    Where a factory has keys, the key is the part of the id before the first `~`. A key has no
    slash, and a link begins with one.
    """
    if ":/" not in link and not link.startswith(_KEYED):
        return link
    factory, _, name = link.rpartition("/")
    return name.partition("~")[0] if has_keys(factory) or factory in KEYED else link


def id_of(parts: Iterable[str | None]) -> str:
    """Return a segment that encodes these texts uniquely, separated by `~`.

    `%`, `~` and characters that a segment cannot hold are percent-encoded. A percent sign without
    hexadecimal digits marks None, an empty text, and the digest that replaces a text that is too
    long.
    """
    name = "~".join(_escaped(part) for part in parts)
    if name in SUFFIXES or name in (".", ".."):
        name = _percent(name[0]) + name[1:]
    raw = name.encode()
    if len(raw) <= ID_BYTES_MAX:
        return name
    kept = raw[: ID_BYTES_MAX - len(_DIGEST) - 64].decode(errors="ignore")
    return kept + _DIGEST + hashlib.sha256(raw).hexdigest()


def _escaped(text: str | None) -> str:
    if not text:
        return "%null" if text is None else "%empty"
    escaped = _ESCAPED.sub(lambda found: _percent(found[0]), text)
    if escaped.isascii() or unicodedata.normalize("NFC", escaped) == escaped:
        return escaped
    # Normalizing could make two texts equal: encode all letters outside ASCII.
    return "".join(each if each.isascii() else _percent(each) for each in escaped)


def _percent(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))
