"""Whether what answers is a node at all.

At an address where a node was, or should be, another server may answer: with pages of its own, and
often with 200. A node names itself in each of its answers (`Server`). A proxy before it may put its
own name there, so a client asks an address without that name for its management page, once for each
address. Source: clients of Elasticsearch (`X-Elastic-Product`).
"""

from typing import Protocol

import orjson

from docstore import SERVER

MANAGEMENT = "/core/management"
BETWEEN = frozenset({502, 503, 504})
"""Statuses of a proxy whose node does not answer: the node may well be there."""


class Headers(Protocol):
    """Headers of an answer, whatever their capitals."""

    def get(self, name: str, /) -> str | None:
        """Return what a header says, None if it is not there."""


def is_named(headers: Headers) -> bool:
    """Say whether an answer has the name of a node."""
    return headers.get("Server") == SERVER


def is_a_nodes(management: bytes) -> bool:
    """Say whether a management page, or why there is none yet, is a node's."""
    try:
        page = orjson.loads(management)
    except orjson.JSONDecodeError:
        return False
    return isinstance(page, dict) and ("storeId" in page or "errorCode" in page)


def is_strange(status: int, headers: Headers, *, is_text: bool) -> bool:
    """Say whether a proxy, and no node, gave this answer. is_text: it may be."""
    sends_elsewhere = 300 <= status < 400 and status != 304
    has_text = (headers.get("Content-Type") or "").startswith("text/")
    return sends_elsewhere or (has_text and status < 300 and not is_text)


def told(status: int, headers: Headers) -> str:
    """Return what was met, in a few words."""
    if where := headers.get("Location"):
        return f"{status}, to {where}"
    return f"{status}, {headers.get('Content-Type') or 'of no type'}"
