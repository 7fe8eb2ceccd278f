"""Spans of requests in OpenTelemetry's form, sent to a collector by OTLP over HTTP.

Imported only with the setting `otlp_endpoint`. The span of a request continues the client's
`traceparent`, and operations carry the span's own to the node that executes them.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from docstore import __version__
from docstore.http.completion import instance_of
from docstore.http.fast_path import FastHead, FastPath, FastRequest
from docstore.http.headers import trace
from docstore.http.metrics import KNOWN_METHODS
from docstore.http.reply import Reply
from docstore.http.request_log import address_of
from docstore.http.routes.table import template_of
from docstore.machines.effects import Send
from docstore.machines.events import Received
from docstore.model.operation import operation_from_wire
from docstore.runtime.trace.context import TRACEPARENT
from docstore.runtime.trace.recorder import Recorder
from docstore.wire.messages import Answered, Forward
from docstore.wire.streams_messages import Produce, Produced

PATH = "/v1/traces"
"""Path of a collector that takes spans."""
POLL_S = 0.01
STOP_S = 2.0
"""Seconds for the last spans to leave when the node stops."""
NOT_MINE = "not-mine"
FORWARDED_MAX = 4_096
"""Spans of forwarded operations without an answer yet; older ones end without a status."""

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Key = tuple[str, int, int]
"""(entry node, its start, number of the operation) of a forwarded operation."""
_CONTEXTS = TraceContextTextMapPropagator()


class Spans:
    """Makes a span for each request of a client, and for each operation that was forwarded here."""

    def __init__(self, endpoint: str, node_id: str) -> None:
        attributes = {"service.instance.id": node_id, "service.version": __version__}
        resource = Resource.create({"service.name": "docstore", **attributes})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + PATH)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("docstore", __version__)

    async def stop(self) -> None:
        """Send the last spans; give up when the collector does not answer."""
        # A daemon: the process may end while the exporter waits for a collector.
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        deadline = asyncio.get_running_loop().time() + STOP_S
        while ending.is_alive() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)

    def begin(self, request: web.BaseRequest | FastHead) -> Span:
        method = request.method if request.method in KNOWN_METHODS else "_OTHER"
        path = instance_of(request)
        route = template_of(path)
        host, _, port = request.headers.get("Host", "").partition(":")
        attributes: dict[str, str | int] = {
            "http.request.method": method,
            "http.route": route,
            "url.path": path,
            "url.scheme": "https" if _is_secure(request) else "http",
            "server.address": host,
            "client.address": address_of(request),
            "network.protocol.version": f"{request.version.major}.{request.version.minor}",
            "user_agent.original": request.headers.get("User-Agent", ""),
        }
        if port.isascii() and port.isdecimal():
            attributes["server.port"] = int(port)
        return self._started(
            f"{method} {route}".rstrip(),
            trace(request),
            {name: value for name, value in attributes.items() if value != ""},
        )

    def forwarded(self, verb: str, link: str, traceparent: str, peer: str) -> Span:
        """Start the span of an operation that another node forwarded to this one."""
        attributes = {"docstore.verb": verb, "docstore.link": link, "docstore.entry_node": peer}
        return self._started(f"execute {verb}", traceparent, attributes)

    def _started(
        self, name: str, traceparent: str, attributes: dict[str, str | int] | dict[str, str]
    ) -> Span:
        context = _CONTEXTS.extract({"traceparent": traceparent})
        return self._tracer.start_span(name, context, SpanKind.SERVER, attributes)

    async def serve(self, handle: Handle, request: web.BaseRequest) -> web.StreamResponse:
        """Serve a request with a task of its own in a span."""
        span = self.begin(request)
        TRACEPARENT.set(traceparent_of(span))
        try:
            reply = await handle(request)
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            span.end()
            raise
        end(span, reply.status)
        return reply

    def fast_path(self, *args: Any, **kwargs: Any) -> FastPath:
        """Return a path for plain requests that makes spans."""
        return _FastPath(self, *args, **kwargs)

    def watch(self, *recorders: Recorder) -> None:
        """Make spans of the operations that arrive in the steps which recorders note."""
        for recorder in recorders:
            setattr(recorder, "note", _Forwarded(self, recorder.note).note)  # noqa: B010 - a hook


class _FastPath(FastPath):
    """Serves plain requests, each in a span."""

    def __init__(self, spans: Spans, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._spans = spans
        self._begun: dict[FastRequest, Span] = {}

    def serve(self, request: FastRequest) -> None:
        span = self._begun[request] = self._spans.begin(request)
        before = TRACEPARENT.set(traceparent_of(span))
        try:
            super().serve(request)
        finally:
            TRACEPARENT.reset(before)

    def _end(self, request: FastRequest, reply: Reply) -> None:
        end(self._begun.pop(request), reply.status)
        super()._end(request, reply)


class _Forwarded:
    """Spans of forwarded operations, from the step that they arrive in to the one that answers."""

    def __init__(self, spans: Spans, note: Callable[[float, Any, Sequence[Any]], None]) -> None:
        self._spans = spans
        self._note = note
        self._begun: OrderedDict[Key, Span] = OrderedDict()

    def note(self, at: float, event: Any, effects: Sequence[Any]) -> None:
        """Note a step."""
        if type(event) is Received:
            self._arrived(event.sender, event.message)
        for effect in effects:
            if type(effect) is Send:
                self._answered(effect.to, effect.message)
        self._note(at, event, effects)

    def _arrived(self, peer: str, message: Any) -> None:
        match message:
            case Forward(operations):
                for each in operations:
                    found = operation_from_wire(each.operation)
                    if found.trace:
                        self._begin(
                            (peer, each.boot, each.seq), found.verb, found.link, found.trace
                        )
            case Produce() if message.trace:
                self._begin((peer, 0, message.id), "produce", message.name, message.trace)

    def _begin(self, key: Key, verb: str, link: str, traceparent: str) -> None:
        if key not in self._begun:  # Else the entry node asks again.
            self._begun[key] = self._spans.forwarded(verb, link, traceparent, key[0])
        if len(self._begun) > FORWARDED_MAX:
            self._begun.popitem(last=False)[1].end()

    def _answered(self, peer: str, message: Any) -> None:
        match message:
            case Answered(boot, answers):
                for number, _, answer, _ in answers:
                    span = self._begun.pop((peer, boot, number), None)
                    if span is not None and answer is not None:
                        end(span, answer[0])
                    elif (
                        span is not None
                    ):  # This node may not execute it: the entry node asks again.
                        span.set_attribute("docstore.code", NOT_MINE)
                        span.end()
            case Produced():
                span = self._begun.pop((peer, 0, message.id), None)
                if span is not None:
                    span.set_attribute("docstore.code", message.code or "appended")
                    span.end()


def traceparent_of(span: Span) -> str:
    """Return the `traceparent` that makes a span the parent of others."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def end(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_attribute("error.type", str(status))
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _is_secure(request: Any) -> bool:
    connection = request.protocol if isinstance(request, web.BaseRequest) else request.client
    transport = connection.transport
    return transport is not None and transport.get_extra_info("ssl_object") is not None
