"""Large pages that seldom change: with an entity tag, and compressed for clients that accept it."""

import hashlib
import re
import zlib
from functools import lru_cache
from typing import Any

from aiohttp.hdrs import ACCEPT_ENCODING, IF_NONE_MATCH

from docstore.http import headers
from docstore.http.encodings import GZIP_WBITS
from docstore.http.headers import RequestHead
from docstore.http.reply import Reply, header_lines
from docstore.http.representation import encode

_GZIP = re.compile(
    r"(?:^|,)\s*(?:gzip|x-gzip|\*)\s*(?:;\s*q=(?!0(?:\.0*)?\s*(?:,|$))[^,]*)?(?:,|$)"
)


def tagged_reply(request: RequestHead, page: Any) -> Reply:
    """Return a page as a reply; 304 if the client has it. Raises NotAcceptable, BadRequest."""
    media = headers.accepted_media(request)
    plain = encode(page, media)
    tag, packed = _tagged(plain)
    told = {
        "ETag": tag, "Cache-Control": "private, no-cache",
        "Vary": "Accept, Accept-Encoding, Authorization",
    }  # fmt: skip
    held = headers.listed(request, IF_NONE_MATCH) or ""
    if tag in held or held.strip() == "*":
        return Reply(304, head=header_lines(told))
    told["Content-Type"] = media
    if _GZIP.search((headers.listed(request, ACCEPT_ENCODING) or "").lower()):
        told["Content-Encoding"] = "gzip"
        return Reply(200, packed, header_lines(told))
    return Reply(200, plain, header_lines(told))


@lru_cache(maxsize=2)
def _tagged(plain: bytes) -> tuple[str, bytes]:
    """Return the entity tag of a page and its compressed bytes.

    The tag is weak, because it is that of both representations.
    """
    return f'W/"{hashlib.sha256(plain).hexdigest()[:16]}"', zlib.compress(plain, wbits=GZIP_WBITS)
