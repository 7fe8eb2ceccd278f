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
    """Most bytes of the request line, and of each header. Raise it if access tokens are longer."""

    head_bytes_max: int = 32_768
    """Most bytes of the request line and all headers together."""

    headers_max: int = 100

    connections_max: int = 10_000

    connections_per_address_max: int = 1_000

    keepalive_timeout_s: float = 75.0
    """Most seconds between two requests.

    Above the usual 60 s of proxies, so that the proxy closes first.
    """

    first_request_timeout_s: float = 10.0
    """Seconds from the connection to the end of the first request's headers."""

    body_timeout_s: float = 30.0

    send_timeout_s: float = 60.0
    """Most seconds in which a client reads nothing of its answer."""


def limits_of(settings: Mapping[str, Any]) -> Limits:
    chosen: dict[str, Any] = {}
    for each in fields(Limits):
        if each.name in settings:
            if each.name.endswith("_s"):
                chosen[each.name] = seconds(settings, each.name, 1.0)
            else:
                chosen[each.name] = integer(settings[each.name], each.name, 1, 1 << 40)
    return Limits(**chosen)
