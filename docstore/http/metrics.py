"""Count requests, and write all counters of a node in Prometheus' text format.

Plain dicts and one bisection per request: the locked objects of the client library would cost more
than routing.
"""

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = b"Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
KNOWN_METHODS = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())
TEXTS = Path(__file__).with_name("metrics.json")
"""Section of docs/metrics.md -> name of a metric -> its text, in Markdown."""
_MARKDOWN = re.compile(r"`|\[([^]]*)\]\([^)]*\)")


class HttpMetrics:
    """Requests by method and status, and how long they took by method."""

    def __init__(self) -> None:
        self.connections = 0
        self.connections_refused = 0
        self.handshakes_failed = 0
        self.malformed = 0
        self.send_timeouts = 0
        self.waiting = 0
        self.internal_errors = 0
        self._requests: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._buckets: dict[str, list[int]] = {}
        self._took_s: defaultdict[str, float] = defaultdict(float)

    def note_failed_handshake(self) -> None:
        """Count a connection that failed the TLS handshake."""
        self.handshakes_failed += 1

    def note(self, method: str, status: int, took_s: float) -> None:
        """Count an answered request."""
        if method not in KNOWN_METHODS:
            # Clients invent method names, and the number of labels must be bounded.
            method = "other"
        self._requests[method, status] += 1
        buckets = self._buckets.get(method)
        if buckets is None:
            buckets = self._buckets[method] = [0] * (len(BOUNDS_S) + 1)
        buckets[bisect_left(BOUNDS_S, took_s)] += 1
        self._took_s[method] += took_s

    def text(self, others: Mapping[str, float]) -> bytes:
        """Return all metrics in Prometheus's text format. others: of the node's other parts."""
        lines: list[str] = []
        families: dict[str, list[str]] = {}
        values = {
            "docstore_http_connections": float(self.connections),
            "docstore_http_connections_refused_total": float(self.connections_refused),
            "docstore_http_handshakes_failed_total": float(self.handshakes_failed),
            "docstore_http_internal_errors_total": float(self.internal_errors),
            "docstore_http_malformed_total": float(self.malformed),
            "docstore_http_send_timeouts_total": float(self.send_timeouts),
            "docstore_http_waiting": float(self.waiting),
            **{
                f'docstore_http_requests_total{{method="{method}",status="{status}"}}': float(count)
                for (method, status), count in self._requests.items()
            },
            **others,
        }
        for name, value in sorted(values.items()):
            family = name.partition("{")[0]
            families.setdefault(family, []).append(f"{name} {value:.17g}")
        for family, samples in families.items():
            kind = "counter" if family.endswith("_total") else "gauge"
            lines += [*_described(family, kind), *samples]
        lines += self._histogram()
        return ("\n".join(lines) + "\n").encode()

    def _histogram(self) -> Iterator[str]:
        name = "docstore_http_request_seconds"
        yield from _described(name, "histogram")
        for method, buckets in sorted(self._buckets.items()):
            so_far = 0
            for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), buckets, strict=True):
                so_far += count
                yield f'{name}_bucket{{method="{method}",le="{bound}"}} {so_far}'
            yield f'{name}_sum{{method="{method}"}} {self._took_s[method]:.9g}'
            yield f'{name}_count{{method="{method}"}} {so_far}'


def _described(family: str, kind: str) -> list[str]:
    return [f"# HELP {family} {help_texts().get(family, '')}", f"# TYPE {family} {kind}"]


@cache
def help_texts() -> Mapping[str, str]:
    """Return the text of each metric by its name, as plain text on one line."""
    sections = json.loads(TEXTS.read_text("utf-8"))
    return {
        name: _MARKDOWN.sub(r"\1", text)
        for metrics in sections.values()
        for name, text in metrics.items()
    }
