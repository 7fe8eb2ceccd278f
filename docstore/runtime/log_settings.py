"""Settings of what a node logs, and where."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docstore.errors import BadConfig
from docstore.model.limits import LOG_LEVELS
from docstore.model.settings import WEEK_S, choice, seconds, text

LOG_KEYS = ("log", "log_level", "slow_request_s", "audit_file", "otlp_endpoint")
SLOW_REQUEST_S = 1.0
_ENDPOINT = re.compile(r"https?://[^\s/@?#]+(?:/[^\s@?#]*)?\Z")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Settings of the log."""

    form: str = "auto"
    """Format of the log, text or json; auto: text on a terminal."""

    level: str = "info"
    """Lowest level of log lines: debug, info, warning or error."""

    slow_request_s: float = SLOW_REQUEST_S
    """Duration from which a request is logged as slow; 0: never."""

    audit_file: str = ""
    """File of the audit log; "-": standard output; "": none."""

    otlp_endpoint: str = ""
    """URL of a collector for spans, OTLP over HTTP; "": no spans."""


def log_settings(settings: Mapping[str, Any]) -> LogSettings:
    """Parse the settings. Raises BadConfig."""
    return LogSettings(
        choice(settings.get("log", "auto"), "log", ("auto", "text", "json")),
        choice(settings.get("log_level", "info"), "log_level", LOG_LEVELS),
        seconds(settings, "slow_request_s", SLOW_REQUEST_S, least=0, most=WEEK_S),
        text(settings, "audit_file"),
        _endpoint(settings),
    )


def _endpoint(settings: Mapping[str, Any]) -> str:
    url = text(settings, "otlp_endpoint")
    if url and not _ENDPOINT.match(url):
        raise BadConfig(
            f"otlp_endpoint: {url[:80]!r} is not a URL: give http(s)://HOST:PORT, and headers in"
            " OTEL_EXPORTER_OTLP_HEADERS"
        )
    return url
