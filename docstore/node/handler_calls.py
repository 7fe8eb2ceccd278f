"""Calls the handlers of authors' services: measures them, and logs slow and failing ones.

While a handler runs, the event loop stands still: this node sends no heartbeat and answers no
request.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import structlog

from docstore.model.service import Refusal

SLOW_S = 0.02
"""Seconds from which a call counts as slow: a tenth of the time between two heartbeats."""

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

    def __init__(self) -> None:
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
        except BaseException:
            # Catch even SystemExit: a handler must not end the node.
            counted.failures += 1
            log.exception("a service failed", service=path)
            raise Refusal(
                f"the service of {path} raised an error; its traceback is in the log of the node",
                status=500,
                code="internal",
            ) from None
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
