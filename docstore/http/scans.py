"""Bulk reads: positions of slots, snapshots and ranges of the logs, page after page.

    GET  /core/spark/plan?asOf=&path=   a cut, and the holders of slots; prefix= for any path
    GET  /core/spark/layout          the holders of slots, without the cut
    GET  /core/spark/high?prefix=    the first and the last position of each slot's log
    POST /core/spark/scan            a snapshot at a cut
    POST /core/spark/changes         a range of the logs

The answer of a scan is a stream: in Arrow's format if this node has it and the client accepts it,
else NDJSON. A line of JSON follows the rows: `{"complete": true, "rows": n}`, or the reason why
rows are missing. An answer without that line was cut off.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from docstore.errors import (
    BadRequest,
    Conflict,
    DocstoreError,
    Misdirected,
    NotFound,
    TooEarly,
    Unauthenticated,
)
from docstore.http import headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.quotas import READS, Quotas
from docstore.http.reply import Reply, streamed
from docstore.http.representation import page_reply
from docstore.model import json
from docstore.model.settings import quoted
from docstore.query.cut import Cut
from docstore.query.names import insist_on_past
from docstore.query.request import Scan, scan_of
from docstore.reads.positions import Positions
from docstore.reads.scans.pool import has_arrow

ARROW_TYPE = "application/vnd.apache.arrow.stream"
NDJSON_TYPE = "application/x-ndjson"
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"

FIRST_ROWS = 64
"""Rows of the first page. Each further page doubles: a reader of a few rows costs little."""
ROWS_AT_ONCE, BYTES_AT_ONCE = 16_384, 4 << 20
"""Limits of a page: rows, and bytes as estimated from the previous page."""
PAGE_S = 0.05
"""Size of a page of a job with a rate, in seconds of that rate: small, so that clients share it."""
SLOTS_AT_ONCE = 128
"""Maximum slots of a page, to bound its time when few rows match the condition."""
CATCH_UP_S, CATCH_UP_S_MAX = 2.0, 60.0
OURS = frozenset({"compression", "rowsPerSecond", "catchUpMs", "job"})
"""Members of the request for the HTTP server: they change the speed or form, not the rows."""


@dataclass(frozen=True, slots=True)
class _Page:
    """One request to a scanning process."""

    after: list[Any]
    rows: int
    is_skipped: bool
    schema: bool


class ScanPages:
    """Answers everything under /core/spark."""

    def __init__(self, backend: Backend, quotas: Quotas, positions: Positions) -> None:
        self._backend = backend
        self._positions = positions
        self._quotas = quotas

    async def layout(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the holders of slots."""
        return page_reply(self._backend.scan_layout(), headers.accepted_media(request))

    async def high(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the positions of all slots."""
        _insist_on_all(request)
        page = await self._high(headers.timeout_s(request))
        return page_reply(page, headers.accepted_media(request))

    async def plan(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of a cut."""
        patience_s, query = headers.timeout_s(request), request.rel_url.query
        media = headers.accepted_media(request)
        prefix = _insist_on_all(request)
        if "path" in query:
            await self._insist_on_factory(prefix + "/")
        as_of = await self._positions.opened(query.get("asOf", "latest"), patience_s)
        insist_on_past(as_of, time.time_ns() // 1000)
        cut = await self._backend.inside().scans.cut(as_of, patience_s)
        if not cut.is_whole:
            raise BadRequest(
                "asOf must be a token of a whole feed; this one is of the feed of one document"
            )
        return page_reply(self._plan(cut), media)

    async def _high(self, patience_s: float) -> dict[str, Any]:
        scans = self._backend.inside().scans
        positions = await scans.positions.of_all(None, patience_s)
        stand = [positions[slot] for slot in range(len(positions))]
        return {
            "clusterId": scans.cluster,
            "epochs": [each.epoch for each in stand],
            "ends": [each.n for each in stand],
            "kept": [each.kept for each in stand],
            "firstTimesMicros": [each.first_us for each in stand],
        }

    def _plan(self, cut: Cut) -> dict[str, Any]:
        return {
            "cut": cut.pack(),
            "epochs": [epoch for epoch, _ in cut.positions],
            "ends": [n for _, n in cut.positions],
            "arrow": has_arrow(),
            **self._backend.scan_layout(),
        }

    async def scan(self, request: web.BaseRequest, path: str, body: bytes) -> web.StreamResponse:
        """Answer POST scan and changes."""
        headers.content_media(request, {"application/json": ""})
        asked = json.parse_object(body)
        how = {name: asked.pop(name) for name in OURS & asked.keys()}
        scan = scan_of(asked)
        if scan.order is not None:
            raise BadRequest("a scan must not have `orderBy`: use /core/query-tasks")
        if scan.others or scan.events:
            raise BadRequest("a scan must have one prefix and no `events`: use /core/changes")
        authority_of(request).insist_on_all(scan.prefix[:-1])
        catch_up_s = _number(how, "catchUpMs", CATCH_UP_S * 1000, CATCH_UP_S_MAX * 1000) / 1000
        job, rate = await quota_of(self._quotas, how)
        await insist_here(self._backend, scan, catch_up_s)
        form = self._form(request, scan)
        compression = str(how.get("compression", ""))
        if compression not in ("", "zstd", "lz4"):
            raise BadRequest(f"compression must be zstd or lz4; got {quoted(compression)}")
        async with aclosing(self._pages(asked, scan, form, compression, rate)) as pages:
            # Until the first page is sent, an error is answered with a status, not a line.
            first = await anext(pages)
            return await self._stream(request, form, first, pages, (job, rate))

    async def _insist_on_factory(self, prefix: str) -> None:
        """Refuse a path without a factory, or a factory whose documents no log records."""
        service = await self._backend.find_service(prefix[:-1], CATCH_UP_S)
        if service is None:
            raise NotFound(f"there is no factory {prefix[:-1]}")
        if service.options.level < 3:
            raise Conflict(f"{prefix[:-1]} has level {service.options.level}: only documents"
                           " with ENFORCE_QUORUM can be read in bulk")  # fmt: skip

    def _form(self, request: web.BaseRequest, scan: Scan) -> str:
        accept = headers.listed(request, "Accept") or ""
        return "arrow" if ARROW_TYPE in accept and has_arrow() and scan.columns else "ndjson"

    async def _stream(
        self, request: web.BaseRequest, form: str, first: tuple[int, bytes],
        pages: AsyncIterator[tuple[int, bytes]], quota: tuple[str, float],
    ) -> web.StreamResponse:  # fmt: skip
        job, rate = quota
        media = ARROW_TYPE if form == "arrow" else NDJSON_TYPE
        response = streamed(media)
        await response.prepare(request)
        sent = 0
        ending: dict[str, Any] = {"complete": True}
        page: tuple[int, bytes] | None = first
        try:
            while page is not None:
                if not authority_of(request).holds():
                    raise Unauthenticated
                rows, payload = page
                sent += rows
                await self._quotas.wait(job, READS, rate, rows)
                sending = asyncio.ensure_future(response.write(payload))
                try:
                    page = await anext(pages, None)
                finally:
                    await sending
        except DocstoreError as error:
            ending = {"complete": False, "status": error.status, "errorCode": error.code,
                      "detail": str(error)}  # fmt: skip
        if form == "arrow":
            await response.write(END_OF_STREAM)
        await response.write(orjson.dumps({**ending, "rows": sent}) + b"\n")
        await response.write_eof()
        return response

    async def _pages(
        self, asked: dict[str, Any], scan: Scan, form: str, compression: str, rate: float
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield (rows, bytes) of each page."""
        skip, left, rows = scan.skip, scan.limit, FIRST_ROWS
        most = ROWS_AT_ONCE if not rate else max(FIRST_ROWS, min(ROWS_AT_ONCE, int(rate * PAGE_S)))
        await self._insist_on_factory(scan.prefix)
        schema = form == "arrow"
        for first in range(0, max(1, len(scan.spans)), SLOTS_AT_ONCE):
            spans = scan.spans[first : first + SLOTS_AT_ONCE]
            question = _question(asked, scan, spans, form, compression)
            after: list[Any] | None = [-1, "", -1]
            while after is not None and left > 0:
                page = _Page(after, min(rows, skip or left), is_skipped=skip > 0, schema=schema)
                fields, payload = await self._ask(question, page)
                after, found, schema = fields["next"], fields["rows"], False
                if found and not page.is_skipped:
                    fitting = BYTES_AT_ONCE * found // max(1, len(payload))
                    rows = max(1, min(most, 2 * rows, fitting))
                if page.is_skipped:
                    skip -= found
                    yield 0, payload
                else:
                    left -= found
                    yield found, payload

    async def _ask(self, question: dict[str, Any], page: "_Page") -> tuple[dict[str, Any], bytes]:
        """Return a page. Rows that are skipped are read without their columns."""
        asked = {**question, "after": page.after, "rows": page.rows, "schema": page.schema,
                 "skipped": page.is_skipped}  # fmt: skip
        return await self._backend.inside().scans.page(asked)


def _insist_on_all(request: web.BaseRequest) -> str:
    """Return the path that a request names, if the caller may read all of it.

    A partial permission is not enough, because positions count all rows of a slot.
    """
    query = request.rel_url.query
    path = query.get("path", query.get("prefix", "")).rstrip("/")
    authority_of(request).insist_on_all(path)
    return path


def _question(
    asked: dict[str, Any], scan: Scan, spans: tuple[tuple[int, int, int], ...], form: str,
    compression: str,
) -> dict[str, Any]:  # fmt: skip
    given = {k: v for k, v in asked.items() if k not in ("cut", "ranges", "skip", "limit")}
    if scan.is_log:
        given["ranges"] = spans
    else:
        given["cut"] = [(slot, until) for slot, _, until in spans]
    return {**given, "columns": scan.columns, "format": form, "compression": compression}


async def insist_here(backend: Backend, scan: Scan, catch_up_s: float) -> None:
    """Wait until this replica has reached the cut of a scan. Raises Misdirected, TooEarly."""
    spans = [(slot, until) for slot, _, until in scan.spans]
    elsewhere, late = await backend.inside().scans.arrived(spans, catch_up_s)
    if elsewhere:
        raise Misdirected(
            f"{len(elsewhere)} slots are not on this node, such as {elsewhere[0]}: ask another"
        )
    if late:
        raise TooEarly(f"{len(late)} slots are behind on this node, such as {late[0]}: retry")


async def quota_of(quotas: Quotas, how: dict[str, Any]) -> tuple[str, float]:
    """Remove the job and its rate from a request and return them; rate 0 is no limit."""
    job = str(how.pop("job", ""))[:256]
    asked = _number(how, "rowsPerSecond", 0.0, 1e12)
    how.pop("rowsPerSecond", None)
    return job, await quotas.rate(job, READS, asked)


def _number(how: dict[str, Any], name: str, default: float, most: float) -> float:
    value = how.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise BadRequest(f"{name} must be a number from 0 to {most:g}; got {quoted(value)}")
    return float(value)
