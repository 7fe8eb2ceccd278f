"""The head of a plain request, in a part of the time that a parser of all of HTTP takes.

It takes only heads that every parser reads alike: HTTP/1.1, a path, names of headers in letters,
printable ASCII, and a body of the announced length that arrived with the head. aiohttp parses all
others, and refuses those that are wrong.
"""

import re
from functools import lru_cache

from aiohttp.hdrs import CONNECTION, CONTENT_LENGTH, HOST
from aiohttp.http import HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from docstore.model.limits import Limits

HEAD_BYTES_MAX = 2048
HEADERS_MAX = 16
"""Number of headers that no plain request has; none is repeated."""
HEADS_KNOWN = 256
"""Heads that are remembered: a client repeats that of its requests to one path."""

_END = b"\r\n\r\n"
_HEAD = re.compile(
    rb"(GET|PATCH|POST|PUT) (/[!-~]*) HTTP/1\.1\r\n"
    rb"((?:[A-Za-z-]+: [!-~](?:[ -~]*[!-~])?\r\n)*)\r\n"
)
_NO_URL = URL("/")
"""Plain requests use the raw path."""


def bytes_of_head(limits: Limits) -> int:
    """Return the greatest size of a head that is within these limits whatever its lines are."""
    most = min(HEAD_BYTES_MAX, limits.head_bytes_max, limits.header_line_bytes_max)
    return most if limits.headers_max >= HEADERS_MAX else 0


def plain_message(data: bytes, most: int) -> tuple[RawRequestMessage, bytes] | None:
    """Return a request and its body, if these bytes are all of one; None for any other bytes.

    most: bytes of its head.
    """
    end = data.find(_END, 0, most) + len(_END)
    found = _parsed(data[:end]) if end >= len(_END) else None
    if found is None or found[1] != len(data) - end:
        return None
    return found[0], data[end:]


@lru_cache(maxsize=HEADS_KNOWN)
def _parsed(head: bytes) -> tuple[RawRequestMessage, int] | None:
    """Return the message and the length of its body."""
    found = _HEAD.fullmatch(head)
    if found is None:
        return None
    method, path, lines = found[1].decode(), found[2].decode(), found[3].decode()
    pairs: list[tuple[str, str]] = []
    for line in lines.split("\r\n")[:-1]:
        name, _, value = line.partition(": ")
        pairs.append((name, value))
    headers = CIMultiDictProxy(CIMultiDict(pairs))
    length = headers.get(CONTENT_LENGTH, "0")
    if HOST not in headers or CONNECTION in headers:
        return None
    if not (length.isascii() and length.isdecimal()) or str(int(length[:9])) != length:
        return None
    return RawRequestMessage(
        method, path, HttpVersion11, headers, (), False, None, False, False, _NO_URL
    ), int(length)  # fmt: skip
