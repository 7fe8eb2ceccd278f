"""Calls the handlers of authors' services: measures them, and logs slow and failing ones.

While a handler runs, the event loop waits for it: this node sends no heartbeat and answers no
request.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from traceback import format_exc, format_exception_only
from typing import Any

import structlog

from docstore.model.service import Refusal

SLOW_S = 0.02
"""Seconds from which a call counts as slow: a tenth of the time between two heartbeats."""

TRACEBACK_LENGTH_MAX = 4_000
"""Longest part of a traceback that a client gets, in characters: the last ones."""

log = structlog.get_logger("docstore.services")


@dataclass(slots=True)
class HandlerCounts:
    """Counts for the handlers of one service. slow: calls that took longer than `SLOW_S`."""

    calls: int = 0
    failures: int = 0
    slow: int = 0
    seconds: float = 0.0


class HandlerCalls:
    """Calls handlers, and counts the calls."""

    def __init__(self, *, tells: bool = False) -> None:
        """tells: whether clients get the traceback of a handler that failed."""
        self._tells = tells
        self._of: defaultdict[str, HandlerCounts] = defaultdict(HandlerCounts)
        """Path of the factory -> counts."""

    def __call__(self, path: str, handler: Callable[[], Any]) -> Any:
        """Return the result of a handler. Raises Refusal for every exception of the handler."""
        counted = self._of[path]
        began = perf_counter()
        try:
            return handler()
        except Refusal:
            raise
        except BaseException as error:
            # Catch even SystemExit: a handler must not end the node.
            counted.failures += 1
            log.exception("a service failed", service=path)
            detail = (
                f"the service of {path} raised an error; its traceback is in the log of the node"
            )
            if self._tells:
                detail = f"the service of {path} raised {_told(error)}"
            raise Refusal(detail, status=500, code="internal") from None
        finally:
            took_s = perf_counter() - began
            counted.calls += 1
            counted.seconds += took_s
            if took_s > SLOW_S:
                counted.slow += 1
                log.warning("a service is slow", service=path, ms=round(took_s * 1000))

    def metrics(self) -> Mapping[str, float]:
        """Return name -> value of the counters, with the path of the factory as label."""
        values: dict[str, float] = {}
        for path, counted in self._of.items():
            label = path.replace('"', '\\"')
            values |= {
                f'docstore_service_calls_total{{path="{label}"}}': float(counted.calls),
                f'docstore_service_failures_total{{path="{label}"}}': float(counted.failures),
                f'docstore_service_slow_total{{path="{label}"}}': float(counted.slow),
                f'docstore_service_seconds_total{{path="{label}"}}': counted.seconds,
            }
        return values


def _told(error: BaseException) -> str:
    """Return an error and the end of its traceback."""
    text = "".join(format_exception_only(error)) + format_exc()[-TRACEBACK_LENGTH_MAX:]
    return text.encode("utf-8", "replace").decode()
