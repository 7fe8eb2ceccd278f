"""Who is turned away at a port because of TLS: all are counted, one a second is told of."""

import time
from collections.abc import Callable

import structlog

TELL_AGAIN_S = 1.0

log = structlog.get_logger("docstore.tls")


class Strangers:
    """Those at one port. counted: called for each."""

    def __init__(self, port: str, counted: Callable[[], None]) -> None:
        self._port = port
        self._counted = counted
        self._told_at = -TELL_AGAIN_S
        self._untold = 0

    def tell(self, address: str, why: str) -> None:
        """Count one that is turned away, and log it unless another was a moment ago."""
        self._counted()
        now = time.monotonic()
        if now - self._told_at < TELL_AGAIN_S:
            self._untold += 1
            return
        more = {"others": self._untold} if self._untold else {}
        self._told_at, self._untold = now, 0
        log.warning("turned away", port=self._port, address=address, why=why, **more)
