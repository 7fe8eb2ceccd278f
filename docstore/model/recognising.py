"""Recognises answers of nodes: another server may answer at a node's address, often with 200.

A node names itself in the header `Server` of each answer. A proxy may replace that name, so for
another name a client reads the management page, once for each address.

Source: clients of Elasticsearch (`X-Elastic-Product`).
"""

from typing import Protocol

import orjson

from docstore import SERVER

MANAGEMENT = "/core/management"
BETWEEN = frozenset({502, 503, 504})
"""Statuses of a proxy whose node does not answer; the node may be running."""


class Headers(Protocol):
    """Headers of an answer, with case-insensitive names."""

    def get(self, name: str, /) -> str | None:
        """Return the value of a header, None if there is none."""


def is_named(headers: Headers) -> bool:
    return headers.get("Server") == SERVER


def is_a_nodes(management: bytes) -> bool:
    """Say whether a node gave this management page, or this error for it."""
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
    """Return the status, and where it redirects to or its content type, for a message."""
    if where := headers.get("Location"):
        return f"{status}, to {where}"
    return f"{status}, {headers.get('Content-Type') or 'of no type'}"
