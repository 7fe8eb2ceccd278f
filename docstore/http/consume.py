"""Records out: as lines, as one JSON object, as events that are pushed, or as sealed batches.

    GET /core/streams/<topic>/partitions/<n>/records?from=&isolation=&maxBytes=&maxRecords=&waitMs=

Any node answers: it asks the leader of the partition, and can have it wait for records. Each record
is also a document of its own that never changes, at its offset below that path.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import orjson
from aiohttp import web

from docstore.errors import BadRequest, DocstoreError, NotAcceptable
from docstore.http import headers
from docstore.http.backend import Backend
from docstore.http.changes import EVENTS_TYPE, QUIET_S, RETRY_MS
from docstore.http.long_poll import waiting
from docstore.http.missing import missing
from docstore.http.outcomes import problem_of, shown_high
from docstore.http.parameters import check_parameters
from docstore.http.problems import problem
from docstore.http.reply import Reply, header_lines, streamed
from docstore.http.representation import JSON_TYPE, MSGPACK_TYPE, page_reply
from docstore.http.results import NDJSON_TYPE
from docstore.model.settings import quoted
from docstore.model.streams_batch import (
    CODEC,
    JSON,
    KAFKA,
    BatchHeader,
    framed,
    header_of,
    range_of,
)
from docstore.streams.effects import HIGH_NOT_KNOWN, Problem, Records
from docstore.streams.forms import records_of
from docstore.streams.records import shown
from docstore.streams.requests import ReadRequest

BATCHES_TYPE = "application/vnd.docstore.batches"
MEMBERS = frozenset({"from", "incarnation", "isolation", "maxBytes", "maxRecords", "waitMs"})
BYTES, BYTES_MAX = 1 << 20, 8 << 20
RECORDS_MAX = 100_000
WAIT_MS_MAX = 300_000
OFFSET_MAX = 1 << 62
ISOLATIONS = ("committed", "uncommitted")
BEFORE_THE_FIRST = "-1"
"""Event id of the position before offset 0."""
FOR_EVER = "public, max-age=31536000, immutable"

_TOKEN = re.compile(r"[0-9]{1,18}\.([0-9]{1,18})\Z")
_FROM_END = re.compile(r"end-([0-9]{1,18})\Z")


@dataclass(frozen=True, slots=True)
class _ConsumeRequest:
    """The parameters of a request."""

    wanted: ReadRequest
    of: str
    """The incarnation of the topic that a client read last; "" for the present one."""
    records_max: int
    wait_s: float
    media: str


class Consuming:
    """Answers GET of a partition's records."""

    def __init__(self, backend: Backend, is_over: Callable[[web.BaseRequest], bool]) -> None:
        """is_over: whether to end a request that waits or receives events."""
        self._backend = backend
        self._is_over = is_over

    async def serve(self, request: web.BaseRequest, link: str) -> Reply | web.StreamResponse:
        """Answer a reader of the partition whose document is at `link`."""
        asked = _asked(request)
        timeout_s = headers.timeout_s(request)
        if asked.media == EVENTS_TYPE:
            return await self._push(request, link, asked, timeout_s)
        with waiting(request) if asked.wait_s else nullcontext():
            outcome = await self._fetch(link, asked.wanted, asked.wait_s, timeout_s, asked.of)
        if isinstance(outcome, Problem):
            return problem_of(outcome, request)
        if asked.media == BATCHES_TYPE:
            return _as_batches(outcome)
        lines, following = await _rendered(outcome, asked)
        ending = _position(outcome, following)
        head = _head(outcome, following)
        if asked.media == JSON_TYPE:
            records = orjson.Fragment(b"[%b]" % b",".join(lines))
            return Reply(
                200, orjson.dumps({"records": records, **ending}),
                header_lines({"Content-Type": JSON_TYPE}) + head,
            )  # fmt: skip
        lines.append(orjson.dumps({"complete": True, **ending}))
        body = b"\n".join([*lines, b""])
        return Reply(200, body, header_lines({"Content-Type": NDJSON_TYPE}) + head)

    async def _fetch(
        self, link: str, wanted: ReadRequest, wait_s: float, timeout_s: float, of: str = ""
    ) -> Records | Problem:
        streams = self._backend.inside().stream_backend
        outcome = await streams.fetch(link, wanted, wait_s=wait_s, timeout_s=timeout_s, of=of)
        if isinstance(outcome, Problem) and outcome.status == 404:
            raise await missing(streams, link, timeout_s)
        return outcome

    async def _push(
        self, request: web.BaseRequest, link: str, asked: _ConsumeRequest, timeout_s: float
    ) -> Reply | web.StreamResponse:
        """Send events until the client disconnects, this node stops, or an error occurs."""
        seen = request.headers.get("Last-Event-ID")
        wanted, of = asked.wanted, asked.of
        if seen is not None:
            offset, _, named = seen.partition("@")
            of = named or of
            is_before = offset == BEFORE_THE_FIRST
            last = -1 if is_before else headers.whole_number(offset, "Last-Event-ID", 0, OFFSET_MAX)
            wanted = wanted._replace(origin=("offset", last + 1))
        first = await self._fetch(link, wanted, 0, timeout_s, of)
        # Until the first event is sent, an error is answered with a status.
        if isinstance(first, Problem):
            return problem_of(first, request)
        response = streamed(EVENTS_TYPE)
        response.headers["Cache-Control"] = "no-store"
        response.force_close()
        await response.prepare(request)
        await response.write(b"retry: %d\n" % RETRY_MS + _position_event(first, first.offset))
        async for found in self._stretches(request, link, wanted, first, timeout_s):
            if isinstance(found, Problem):
                await response.write(_problem_event(found))
            else:
                for events in _events(found):  # Compressed batches may be many times as large.
                    await response.write(events)
        await response.write_eof()
        return response

    async def _stretches(
        self,
        request: web.BaseRequest,
        link: str,
        wanted: ReadRequest,
        found: Records,
        timeout_s: float,
    ) -> AsyncIterator[Records | Problem]:
        while not self._is_over(request):
            yield found
            if self._is_over(request):
                return
            following = max(found.offset, found.until)
            wanted = wanted._replace(origin=("offset", following))
            try:
                with waiting(request):
                    outcome = await self._fetch(link, wanted, QUIET_S, timeout_s, found.incarnation)
            except DocstoreError as error:  # For example because the topic is deleted.
                outcome = Problem(error.status, error.code, str(error))
            if isinstance(outcome, Problem):
                if not self._is_over(request):
                    yield outcome
                return
            found = outcome

    async def record(self, request: web.BaseRequest, link: str, offset: int) -> Reply:
        """Answer GET of one record, as a document that never changes."""
        media = headers.accepted_media(request)
        wanted = ReadRequest(("offset", offset), bytes_max=1)
        of = request.rel_url.query.get("incarnation", "")
        outcome = await self._fetch(link, wanted, 0, headers.timeout_s(request), of)
        if isinstance(outcome, Problem) and outcome.status != 416:
            return problem_of(outcome, request)
        if isinstance(outcome, Problem) or (found := _one(outcome, offset)) is None:
            detail = f"no committed record has the offset {offset}"
            return problem(404, "no-such-record", detail, instance=request.raw_path)
        header, body = found
        page = {
            "documentSelfLink": f"{link}/records/{offset}",
            "documentKind": "docstore:Record",
            "documentVersion": offset,
            "documentEpoch": header.epoch,
            "documentOwner": outcome.owner,
            "documentUpdateTimeMicros": header.last_us,
            **body,
        }
        suffix = "-m" if media == MSGPACK_TYPE else ""
        # A recreated topic repeats offsets and epochs, so the tag has the time of the record.
        lines = {
            "ETag": f'"{header.last_us}.{offset}{suffix}"',
            "Cache-Control": FOR_EVER if of else "no-cache",
        }
        held = headers.listed(request, "If-None-Match")
        if held is not None:
            tags = headers.tags(held, "If-None-Match", strong=False)
            if headers.is_current(tags, (header.last_us, offset)):
                return Reply(304, head=header_lines(lines))
        if media == MSGPACK_TYPE:  # msgpack cannot hold an orjson fragment, so the value is parsed.
            page = orjson.loads(orjson.dumps(page))
        return page_reply(page, media, headers=lines)


def _asked(request: web.BaseRequest) -> _ConsumeRequest:
    check_parameters(request, MEMBERS)
    query = request.rel_url.query
    isolation = query.get("isolation", "committed")
    if isolation not in ISOLATIONS:
        raise BadRequest(f"isolation must be committed or uncommitted; got {quoted(isolation)}")
    number = headers.whole_number
    wait = headers.preference(request, "wait")
    wait_ms = number(query.get("waitMs", "0"), "waitMs", 0, WAIT_MS_MAX)
    if wait:
        wait_ms = 1000 * number(wait, "Prefer: wait", 1, WAIT_MS_MAX // 1000)
    wanted = ReadRequest(
        origin_of(query.get("from", "beginning")),
        isolation,
        number(query.get("maxBytes", str(BYTES)), "maxBytes", 1, BYTES_MAX),
        _token(request),
        headers.consistency(request) == "stale",
    )
    records_max = number(query.get("maxRecords", str(RECORDS_MAX)), "maxRecords", 1, RECORDS_MAX)
    of = query.get("incarnation", "")
    return _ConsumeRequest(wanted, of, records_max, wait_ms / 1000, _media(request))


def origin_of(text: str, name: str = "from") -> tuple[str, int]:
    """Return the place that a text names: offset, `beginning`, `end`, `end-10`, time, @micros.

    name: of the parameter, for messages. Raises BadRequest.
    """
    if text in ("beginning", "end"):
        return (text, 0)
    if found := _FROM_END.match(text):
        return ("end", int(found[1]))
    if text.isascii() and text.isdecimal():
        return ("offset", headers.whole_number(text, name, 0, OFFSET_MAX))
    if text.startswith("@"):
        return ("time", headers.whole_number(text[1:], name, 0, OFFSET_MAX))
    try:
        return ("time", headers.instant_us(text, name))
    except BadRequest:
        detail = (
            f"{name} must be an offset, beginning, end, end-N, an RFC 3339 time with its zone, or"
            " @us"
        )
        raise BadRequest(detail) from None


def _token(request: web.BaseRequest) -> int:
    """Return the offset that must be committed before the answer is sent, -1 for none."""
    raw = request.headers.get("Docstore-Token")
    if raw is None:
        return -1
    found = _TOKEN.match(raw)
    if found is None:
        raise BadRequest(
            f"Docstore-Token must be EPOCH.OFFSET, from the answer of a produce; got {quoted(raw)}"
        )
    return int(found[1])


def _media(request: web.BaseRequest) -> str:
    accept = (headers.listed(request, "Accept") or "*/*").lower()
    named = {part.partition(";")[0].strip() for part in accept.split(",")}
    for media in (EVENTS_TYPE, BATCHES_TYPE, NDJSON_TYPE, JSON_TYPE):
        if media in named:
            return media
    if not named & {"*/*", "application/*", "application/ndjson", "application/problem+json", ""}:
        raise NotAcceptable(
            f"Accept must allow {NDJSON_TYPE}, {JSON_TYPE}, {BATCHES_TYPE} or {EVENTS_TYPE}"
        )
    return NDJSON_TYPE


def _shown(raw: bytes, first: int, until: int) -> Iterator[Mapping[str, object]]:
    """Yield the records first..until-1 of a batch, as JSON shows them."""
    header = header_of(raw)
    is_json = bool(header.flags & JSON)
    for offset, record in records_of(header, raw):
        if offset >= until:
            return
        if offset >= first:
            yield shown(offset, record, header.last_us, is_json=is_json)


def _one(found: Records, offset: int) -> tuple[BatchHeader, Mapping[str, object]] | None:
    """Return a record and the header of its batch, None if there is none at this offset."""
    if found.until <= offset:
        return None
    shape = next(_shown(found.batches[0], offset, offset + 1), None)
    return None if shape is None else (header_of(found.batches[0]), shape)


async def _rendered(found: Records, asked: _ConsumeRequest) -> tuple[list[bytes], int]:
    """Return the records as JSON, and the offset after the last of them."""
    until = min(found.until, found.offset + asked.records_max)
    lines: list[bytes] = []
    expanded = 0
    for raw in found.batches:
        if expanded > asked.wanted.bytes_max:
            until = min(until, range_of(raw)[0])
            break
        if lines:
            # A megabyte takes some milliseconds: the event loop gets a turn between batches.
            await asyncio.sleep(0)
        begin = len(lines)
        lines += map(orjson.dumps, _shown(raw, found.offset, until))
        if header_of(raw).flags & (CODEC | KAFKA):  # JSON may be many times as large.
            expanded += sum(map(len, lines[begin:]))
    return lines, max(found.offset, until)


def _position(found: Records, following: int) -> dict[str, object]:
    return {
        "next": following, "hw": shown_high(found.high), "leo": found.end, "base": found.start,
        "epoch": found.epoch, "incarnation": found.incarnation,
    }  # fmt: skip


def _head(found: Records, following: int) -> bytes:
    """Return the position as headers, for clients that do not read it from the body."""
    names = (
        b"Docstore-From: %d\r\nDocstore-Next: %d\r\nDocstore-Leo: %d\r\n"
        b"Docstore-Base: %d\r\nDocstore-Epoch: %d\r\nCache-Control: no-store\r\n"
    )
    lines = names % (found.offset, following, found.end, found.start, found.epoch)
    lines += b"Docstore-Incarnation: %b\r\n" % found.incarnation.encode()
    if found.high != HIGH_NOT_KNOWN:
        lines += b"Docstore-Hw: %d\r\n" % found.high
    if found.stale_us:
        lines += b"Docstore-Staleness-Ms: %d\r\n" % (found.stale_us // 1000)
    return lines


def _as_batches(found: Records) -> Reply:
    """Return sealed batches as they are stored, each preceded by its length in 4 bytes."""
    head = header_lines({"Content-Type": BATCHES_TYPE})
    return Reply(200, framed(found.batches), head + _head(found, max(found.offset, found.until)))


def _events(found: Records) -> Iterator[bytes]:
    """Yield the events of each batch: its records, with their positions as ids.

    The event of the position alone follows unless the last record has that position.
    """
    last, following = None, max(found.offset, found.until)
    for raw in found.batches:
        events: list[bytes] = []
        for each in _shown(raw, found.offset, found.until):
            last = each["offset"]
            events.append(f"id: {last}@{found.incarnation}\n".encode())
            events.append(b"data: %b\n\n" % orjson.dumps(each))
        yield b"".join(events)
    if last != following - 1:
        yield _position_event(found, following)


def _position_event(found: Records, following: int) -> bytes:
    """Return an event without data: it sets the client's last id and calls no listener."""
    return f": quiet\nid: {following - 1}@{found.incarnation}\n\n".encode()


def _problem_event(found: Problem) -> bytes:
    """Return the event that tells the client why the stream ends."""
    said = {"status": found.status, "errorCode": found.code, "detail": found.detail, **found.more}
    return b"event: problem\ndata: %b\n\n" % orjson.dumps(said)
