"""`/core/changes`: the changes at a path, as lines, as a long poll, or as pushed events.

    GET /core/changes?prefix=/films&since=TOKEN&where=&before=&limit=
                                      NDJSON, and at the end one line {"complete", "rows", "next"}
    prefix=/films&prefix=/actors      several paths
    where=rating > 7                  only documents that fulfil a condition, each with its event:
                                      "enter", "update", or "leave" where it no longer does
    before=true                       each change with the body of the version before
    Prefer: wait=30                   wait 30 seconds for a change
    Accept: text/event-stream         events without end; Last-Event-ID resumes a broken stream
    GET /films?watch                  the same events for a document, or a factory and below

`since` is a token (`next`, or the cut of a snapshot), `earliest`, `latest` (the default), a time
with its zone, or the name of a snapshot. POST takes the same names in a JSON object, for tokens
that are too long for a URL: a token has one or two bytes for each slot of the group. A client that
passes `next` in its following request misses no change, whichever node it asks, and sees a change
twice only if it repeats a request.

The feed of one document reads the slot of the document alone, and its token names this slot alone.
The feed of a slot that the token does not name begins with the oldest change. So if a factory is
declared below the document, the next request reads all slots and misses no change made meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from aiohttp import web

from docstore.errors import BadRequest, Conflict, DocstoreError, NotFound
from docstore.http import headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.long_poll import waiting
from docstore.http.parameters import check_parameters, flag
from docstore.http.reply import Reply, header_lines, streamed
from docstore.model import json
from docstore.model.service import Service
from docstore.model.settings import quoted
from docstore.query.cut import CHARACTERS_A_SLOT, Cut
from docstore.query.names import insist_on_past
from docstore.query.parser import parse
from docstore.reads.positions import Positions
from docstore.reads.scans.feed import ChangeFilter, ChangePage
from docstore.services.registry import FACTORIES, declaration_link

NDJSON_TYPE, EVENTS_TYPE = "application/x-ndjson", "text/event-stream"
ROWS, ROWS_MAX = 1_000, 10_000
WAIT_S_MAX = 300
QUIET_S = 15.0
"""Seconds without a change after which the position is sent: proxies close silent streams."""
ROWS_A_POSITION = 50
"""Maximum number of changes between two positions, so that a broken stream repeats few."""
RETRY_MS = 1_000
MEMBERS = frozenset({"since", "prefix", "where", "before", "limit"})
PREFIXES_MAX = 64
WATCH = "watch"
Packing = Callable[[Cut], str]
"""Makes the token of a position for one caller."""


@dataclass(frozen=True, slots=True)
class _ChangesRequest:
    """The parameters of a request."""

    wanted: ChangeFilter
    since: str
    rows: int


class ChangePages:
    """Answers /core/changes."""

    def __init__(
        self, backend: Backend, positions: Positions, is_over: Callable[[web.BaseRequest], bool]
    ) -> None:
        """is_over: whether to end a request that waits or receives events."""
        self._backend = backend
        self._positions = positions
        self._is_over = is_over

    def token_bytes(self) -> int:
        """Return the maximum length of a token of this group, in a header or a URL."""
        return CHARACTERS_A_SLOT * self._backend.slots()

    async def serve(
        self, request: web.BaseRequest, path: str, body: bytes
    ) -> Reply | web.StreamResponse:
        """Answer GET and POST. Raises BadRequest, Conflict, NotFound, SnapshotGone, Unavailable."""
        asked = _asked(_given(request, body))
        if EVENTS_TYPE in (headers.listed(request, "Accept") or ""):
            return await self._pushed(request, asked)
        since = await self._begun(request, asked, asked.since)
        wait = headers.preference(request, "wait")
        wait_s = headers.whole_number(wait, "Prefer: wait", 1, WAIT_S_MAX) if wait else 0
        pack = await self._packing(request)
        stretch = await self._next(request, asked, since, wait_s)
        ending = {"complete": True, "rows": stretch.rows, "next": pack(stretch.until)}
        if stretch.unheard:
            ending["slotsUnheard"] = stretch.unheard
        head = header_lines({"Content-Type": NDJSON_TYPE, "Cache-Control": "no-store"})
        return Reply(200, stretch.lines + orjson.dumps(ending) + b"\n", head)

    async def watch(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Answer GET of a document or a factory with `watch`. Raises as `serve` does."""
        # First, because a path that needs no token has no authenticated caller.
        authority_of(request).insist_on_all(path)
        check_parameters(request, {*MEMBERS, WATCH})
        if "prefix" in request.rel_url.query:
            raise BadRequest("prefix must be left out: the path says what to watch")
        asked = _asked({**_parameters(request), "prefix": [path]})
        timeout_s = headers.timeout_s(request)
        parent = path.rpartition("/")[0]
        if not await self._service(path, timeout_s) and not await self._service(parent, timeout_s):
            raise NotFound(f"there is no factory or document at {path}")
        return await self._pushed(request, asked)

    async def begun(self, request: web.BaseRequest, path: str, where: str, since: str) -> str:
        """Return the token from which a subscription to a path begins.

        If the node knows users, the token is sealed even for a caller that may read all: other
        users who see the subscription later may read less. Raises as `serve` does.
        """
        asked = _asked({"prefix": [path], "where": where, "since": since})
        cut = await self._begun(request, asked, asked.since)
        reads_all = not authority_of(request).name
        return (await self._positions.packing(headers.timeout_s(request), reads_all=reads_all))(cut)

    async def _packing(self, request: web.BaseRequest) -> Packing:
        reads_all = authority_of(request).reads_all
        return await self._positions.packing(headers.timeout_s(request), reads_all=reads_all)

    async def _pushed(self, request: web.BaseRequest, asked: _ChangesRequest) -> web.StreamResponse:
        text = request.headers.get("Last-Event-ID", asked.since)
        if not text:
            raise BadRequest("Last-Event-ID must be the id of an event; got ''")
        return await self._push(request, asked, await self._begun(request, asked, text))

    async def _begun(self, request: web.BaseRequest, asked: _ChangesRequest, since: str) -> Cut:
        """Return the position at which a feed begins, if the caller may read its paths."""
        timeout_s = headers.timeout_s(request)
        paths = [prefix[:-1] for prefix in asked.wanted.prefixes]
        for path in paths:
            authority_of(request).insist_on_all(path)
        since = await self._positions.opened(since, timeout_s)
        slots = {await self._slot(path, timeout_s) for path in paths}
        slot = slots.pop() if len(slots) == 1 else None
        return await self._since(since, slot, timeout_s)

    async def _slot(self, path: str, timeout_s: float) -> int | None:
        """Return the only slot with changes at a path and below it; None if there may be several.

        Raises Unavailable, or Conflict for documents that no log records.
        """
        service = await self._service(path, timeout_s)
        is_document = service is None
        if service is None:
            service = await self._service(path.rpartition("/")[0], timeout_s)
            if service is None or await self._has_factories_below(path, timeout_s):
                return None
        if service.options.level < 3:
            raise Conflict(f"{path} has level {service.options.level}: only documents"
                           " with ENFORCE_QUORUM have a feed")  # fmt: skip
        return self._backend.inside().feed.slot_of(path) if is_document else None

    async def _service(self, path: str, timeout_s: float) -> Service | None:
        return await self._backend.find_service(path, timeout_s) if path else None

    async def _has_factories_below(self, path: str, timeout_s: float) -> bool:
        deadline = asyncio.get_running_loop().time() + timeout_s
        begins = after = declaration_link(path + "/")
        while after.startswith(begins):  # A page may end before it reaches the entry of the path.
            left_s = deadline - asyncio.get_running_loop().time()
            found, after = await self._backend.listing(
                FACTORIES, after=after, limit=1, expand=False, timeout_s=left_s
            )
            if found:
                return found[0][0].startswith(begins)
        return False

    async def _since(self, since: str, slot: int | None, timeout_s: float) -> Cut:
        """Return the position that `since` names: in one slot, or in all."""
        if since == "earliest":
            cut = await self._backend.inside().scans.earliest(timeout_s)
        else:
            insist_on_past(since, time.time_ns() // 1000)
            cut = await self._backend.inside().scans.cut(since, timeout_s)
        if not cut.is_whole and slot != cut.first:
            cut = (await self._backend.inside().scans.earliest(timeout_s)).moved(cut.by_slot())
        return cut if slot is None else cut.only(slot)

    async def _next(
        self, request: web.BaseRequest, asked: _ChangesRequest, since: Cut, wait_s: float
    ) -> ChangePage:
        """Return the next changes; a page without changes if none came within `wait_s`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            seen = self._backend.inside().feed.seen()
            stretch = await self._backend.inside().feed.read(asked.wanted, since, asked.rows)
            left_s = deadline - loop.time()
            if stretch.rows or left_s <= 0 or self._is_over(request):
                return stretch
            since = stretch.until
            with waiting(request):
                await self._backend.inside().feed.news(seen, min(left_s, 1.0))

    async def _push(
        self, request: web.BaseRequest, asked: _ChangesRequest, since: Cut
    ) -> web.StreamResponse:
        """Send events until the client disconnects, this node stops, or an error occurs."""
        # Until the first event is sent, an error is answered with a status.
        asked = replace(asked, rows=min(asked.rows, ROWS_A_POSITION))
        pack = await self._packing(request)
        first = await self._next(request, asked, since, 0)
        response = streamed(EVENTS_TYPE)
        response.headers["Cache-Control"] = "no-store"
        response.force_close()
        await response.prepare(request)
        begins = _events(first._replace(lines=b"", rows=0, until=since), pack)
        await response.write(b"retry: %d\n" % RETRY_MS + begins + _events(first, pack))
        try:
            async for stretch in self._stretches(request, asked, first.until):
                await response.write(_events(stretch, pack))
        except DocstoreError as error:
            await response.write(_problem(error))
        await response.write_eof()
        return response

    async def _stretches(
        self, request: web.BaseRequest, asked: _ChangesRequest, since: Cut
    ) -> AsyncIterator[ChangePage]:
        while not self._is_over(request):
            stretch = await self._next(request, asked, since, QUIET_S)
            yield stretch
            since = stretch.until


def _events(stretch: ChangePage, pack: Packing = Cut.pack) -> bytes:
    """Return an event for each change, then one with the position: without data if nothing changed.

    A browser keeps the id of an event without data, and calls no listener (WHATWG HTML 9.2.6).
    """
    position = b"id: %b\n\n" % pack(stretch.until).encode()
    if not stretch.rows:
        return b": quiet\n" + position
    changes = [b"event: change\ndata: %s\n\n" % line for line in stretch.lines.splitlines()]
    return b"".join([*changes, b"event: position\ndata: %d\n" % stretch.rows, position])


def _problem(error: DocstoreError) -> bytes:
    """Return the event that tells the client why the stream ends."""
    said = {"status": error.status, "errorCode": error.code, "detail": str(error)}
    return b"event: problem\ndata: %s\n\n" % orjson.dumps(said)


def is_watched(request: web.BaseRequest) -> bool:
    """Say whether a GET asks for the changes of a path, not for its content."""
    return request.method == "GET" and "?" in request.raw_path and WATCH in request.rel_url.query


def _given(request: web.BaseRequest, body: bytes) -> Mapping[str, Any]:
    is_get = request.method != "POST"
    check_parameters(request, MEMBERS if is_get else (), repeatable=("prefix",))
    if is_get:
        return _parameters(request)
    headers.content_media(request, {"application/json": ""})
    return json.parse_object(body)


def _parameters(request: web.BaseRequest) -> dict[str, Any]:
    query = request.rel_url.query
    given: dict[str, Any] = {name: text for name, text in query.items() if name != WATCH}
    return {**given, "prefix": query.getall("prefix", [""]), "before": flag(query, "before")}


def _asked(given: Mapping[str, Any]) -> _ChangesRequest:
    unknown = sorted(set(given) - MEMBERS)
    if unknown:
        raise BadRequest(
            f"a member must be one of {', '.join(sorted(MEMBERS))}; got {quoted(unknown[0])}"
        )
    where, since = given.get("where", ""), given.get("since", "latest")
    if not isinstance(where, str) or not isinstance(since, str):
        raise BadRequest("`since` and `where` must be strings")
    if not since:
        raise BadRequest("since must be `next` of an answer, earliest, latest or a time; got ''")
    if where.strip():
        parse(where)
    before = given.get("before", False)
    if not isinstance(before, bool):
        raise BadRequest(f"before must be true or false; got {quoted(before)}")
    rows = headers.whole_number(str(given.get("limit", ROWS)), "limit", 1, ROWS_MAX)
    wanted = ChangeFilter(_prefixes(given.get("prefix", "")), where.strip(), before)
    return _ChangesRequest(wanted, since, rows)


def _prefixes(value: Any) -> list[str]:
    """Return paths with a slash at their ends, each the prefix of all paths below it."""
    texts = value if isinstance(value, list) else [value]
    if not 1 <= len(texts) <= PREFIXES_MAX:
        raise BadRequest(f"prefix must be 1 to {PREFIXES_MAX} paths; got {len(texts)}")
    for text in texts:
        if not isinstance(text, str) or (text and not text.startswith("/")):
            raise BadRequest(
                f"prefix must be a path, such as /films, or several; got {quoted(text)}"
            )
    return sorted({text.rstrip("/") + "/" for text in texts})
