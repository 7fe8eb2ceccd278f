"""Recognises answers of nodes, because another server may answer at a node's address.

A node names itself in the header `Server` of each answer. A proxy may replace that name. So if the
name differs, a client reads the management page, once for each address.

Source: clients of Elasticsearch (`X-Elastic-Product`).
"""

from typing import Protocol

import orjson

from docstore import SERVER

MANAGEMENT = "/core/management"
BETWEEN = frozenset({502, 503, 504})
"""Statuses of a proxy that gets no answer from its node, which may still be running."""


class Headers(Protocol):
    """Headers of an answer, with case-insensitive names."""

    def get(self, name: str, /) -> str | None:
        """Return the value of a header, None if there is none."""


def is_named(headers: Headers) -> bool:
    return headers.get("Server") == SERVER


def is_a_nodes(management: bytes) -> bool:
    """Say whether a node sent this management page, or this error in place of the page."""
    try:
        page = orjson.loads(management)
    except orjson.JSONDecodeError:
        return False
    return isinstance(page, dict) and ("storeId" in page or "errorCode" in page)


def is_strange(status: int, headers: Headers, *, is_text: bool) -> bool:
    """Say whether a proxy, and no node, gave this answer. is_text: a node may answer with text."""
    sends_elsewhere = 300 <= status < 400 and status != 304
    has_text = (headers.get("Content-Type") or "").startswith("text/")
    return sends_elsewhere or (has_text and status < 300 and not is_text)


def told(status: int, headers: Headers) -> str:
    """Return the status and the redirect target or content type, as text for an error message."""
    if where := headers.get("Location"):
        return f"{status}, to {where}"
    return f"{status}, {headers.get('Content-Type') or 'of no type'}"
