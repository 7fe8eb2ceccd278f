"""Limits on clients: settings define them, the HTTP server enforces them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from docstore.model.settings import integer, seconds

LOG_LEVELS = ("debug", "info", "warning", "error")
"""Lowest level that is logged; debug logs every request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of requests and connections of clients."""

    body_bytes_max: int = 1 << 20
    """Bytes of a request's body after decompression, and of a document's state, at most."""

    header_line_bytes_max: int = 8190
    """Bytes of the request line, and of each header, at most; more where a group's tokens need
    it."""

    head_bytes_max: int = 32_768
    """Bytes of the request line and all headers, at most; as much again for two such tokens."""

    headers_max: int = 100

    connections_max: int = 10_000

    connections_per_address_max: int = 1_000

    keepalive_timeout_s: float = 75.0
    """Seconds of silence between two requests; more than the usual 60 s of proxies, which close
    first."""

    first_request_timeout_s: float = 10.0
    """Seconds from the connection to the end of the first request's headers."""

    body_timeout_s: float = 30.0

    send_timeout_s: float = 60.0
    """Seconds for which a client may read nothing of its answer."""


def limits_of(settings: Mapping[str, Any]) -> Limits:
    chosen: dict[str, Any] = {}
    for each in fields(Limits):
        if each.name in settings:
            if each.name.endswith("_s"):
                chosen[each.name] = seconds(settings, each.name, 1.0)
            else:
                chosen[each.name] = integer(settings[each.name], each.name, 1, 1 << 40)
    return Limits(**chosen)
