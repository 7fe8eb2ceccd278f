"""The completion of each request: turns errors into problems, counts and logs responses."""

import time
from math import inf
from typing import Protocol

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from docstore.errors import DocstoreError, Family, Hidden
from docstore.http import headers
from docstore.http.headers import RequestHead
from docstore.http.metrics import HttpMetrics
from docstore.http.problems import problem, problem_of_error
from docstore.http.reply import Reply
from docstore.model.service import Refusal
from docstore.runtime import logs
from docstore.runtime.audit import AUDIT

WAITS = web.RequestKey("waits", bool)
"""Set on a request that waits for an event because its client wants that."""

log = structlog.get_logger("docstore.http")


class Notes(Protocol):
    """Lines about requests that deserve one; see `request_log.py`."""

    def slow(self, request: RequestHead, reply: Reply | web.StreamResponse, took_s: float) -> None:
        """Log a request that took long."""

    def answered(self, request: RequestHead, status: int) -> None:
        """Write an answered request to the audit log, if it belongs there."""

    def hidden(self, request: RequestHead) -> None:
        """Write a read without permission to the audit log."""


class Completion:
    """Completes all requests of a server, on the fast path and with tasks of their own."""

    def __init__(self, metrics: HttpMetrics, notes: Notes, slow_s: float = inf) -> None:
        """slow_s: duration from which a request is noted as slow."""
        self._metrics = metrics
        self._notes = notes
        self._slow_s = slow_s
        self._sends_away = False

    def send_away(self) -> None:
        """End waiting requests and event streams, so that their clients use other nodes."""
        self._sends_away = True

    def sends_away(self) -> bool:
        """Say whether clients are being sent to other nodes."""
        return self._sends_away

    def refused(self, request: RequestHead, error: Exception) -> Reply:
        """Return the answer to an exception. It hides the details of an internal error."""
        instance = instance_of(request)
        if AUDIT.is_on and isinstance(error, Hidden):
            self._notes.hidden(request)
        if isinstance(error, DocstoreError) and error.family is not Family.BROKEN:
            return problem_of_error(error, instance=instance)
        if isinstance(error, Refusal):
            return problem(error.status, error.code, error.detail, instance=instance)
        if isinstance(error, web.RequestPayloadError | HttpProcessingError):
            detail = "the body does not match its Content-Encoding, Content-Length or chunks"
            return problem(400, "malformed", detail, instance=instance, closes=True)
        self.note_error(request, error)
        return problem(500, "internal", "internal error: see this node's log", instance=instance)

    def note_error(self, request: RequestHead, error: Exception | None) -> None:
        """Count an internal error, and log it with the values that identify the request."""
        self._metrics.internal_errors += 1
        log.error(
            "a request failed",
            method=request.method,
            path=instance_of(request)[:200],
            traceparent=headers.trace(request),
            request_id=request.headers.get("X-Request-Id", "")[:128],
            exc_info=error,
        )

    def done(self, request: RequestHead, reply: Reply | web.StreamResponse, began_s: float) -> None:
        """Count an answer that is about to leave, and log it at level debug.

        began_s: when the request was there, by `perf_counter`.
        """
        took_s = time.perf_counter() - began_s
        self._metrics.note(request.method, reply.status, took_s)
        if logs.LOG_LEVEL.is_debug:
            path, took_ms = instance_of(request)[:200], round(took_s * 1000, 3)
            log.debug("request", method=request.method, path=path, status=reply.status, ms=took_ms)
        if took_s >= self._slow_s:
            self._notes.slow(request, reply, took_s)
        if AUDIT.is_on:
            self._notes.answered(request, reply.status)


def instance_of(request: RequestHead) -> str:
    """Return the raw path that was asked for."""
    return request.raw_path.partition("?")[0]
