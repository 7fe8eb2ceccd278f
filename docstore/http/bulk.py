"""Many operations in one request: a line each, answered by a line each, in the same order.

Lines are read as they come, submitted in batches, and answered while later ones are still on
their way. A line that is wrong fails alone. Results are given to the socket without waiting for
the client to read them, up to a bound: many clients send everything before they read anything.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web

from docstore.errors import BadRequest, DocstoreError, NotFound
from docstore.http import attaching, bodies, headers
from docstore.http.backend import Backend
from docstore.http.bulk_lines import NoOperation, operation_of, parsed
from docstore.http.encodings import inflater
from docstore.http.large import LARGE_BYTES, LargeBodies
from docstore.http.lines import (
    BROKEN_LINES_MAX,
    InflatedLines,
    JsonLines,
    Lines,
    MsgpackLines,
    RequestLines,
    Source,
)
from docstore.http.quotas import WRITES, Quotas
from docstore.http.representation import MSGPACK_TYPE
from docstore.http.results import NDJSON_TYPE, Results, Submitted, answers
from docstore.model.paths import SUFFIXES, canonical_link
from docstore.model.service import Refusal

BATCHES_IN_FLIGHT = 16
BATCHES_OF_ALL = 24
"""Of all requests together: fewer lines and bytes than the protocol lets wait at one node. More
would be refused by it; so they wait here, and their clients with them."""
TYPES = {NDJSON_TYPE: "", "application/ndjson": "", "application/json": "", MSGPACK_TYPE: ""}


class Bulk:
    """POST /core/bulk."""

    def __init__(
        self,
        backend: Backend,
        quotas: Quotas,
        large: LargeBodies,
        *,
        state_bytes_max: int,
        timeout_s: float,
    ) -> None:
        self._backend = backend
        self._quotas = quotas
        self._large = large
        self._state_bytes_max = state_bytes_max
        self._timeout_s = timeout_s
        self._room = asyncio.Semaphore(BATCHES_OF_ALL)

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a stream of operations with a stream of results."""
        if request.rel_url.query.get("atomic", "false") != "false":
            raise BadRequest("atomic batches are not offered yet")
        packed = headers.content_media(request, TYPES) == MSGPACK_TYPE
        headers.refuse_fence(request, "bulk requests")
        attaching.refuse_header(request)
        bodies.invite(request)
        lines: Lines = MsgpackLines() if packed else JsonLines()
        inflate = inflater(request.headers.get("Content-Encoding"))
        if inflate is not None:
            lines = InflatedLines(lines, inflate)
        return await self.answer(request, RequestLines(request, lines, self._timeout_s))

    async def answer(self, request: web.BaseRequest, source: Source) -> web.StreamResponse:
        """Do what lines say, wherever they come from, and answer each.

        Raises BadRequest when not one of the first lines is an operation.
        """
        patience_s = headers.timeout_s(request)
        results = Results(request)
        await self._run(source, patience_s, results)
        return await results.end()

    async def _run(self, source: Source, patience_s: float, results: Results) -> None:
        """Read and answer side by side, with some batches in flight."""
        streak = _Streak()
        pending: deque[asyncio.Task[bytes]] = deque()
        reader: asyncio.Task[Sequence[Any]] | None = asyncio.create_task(source.read())
        try:
            while reader is not None or pending:
                waits: list[asyncio.Task[Any]] = [*list(pending)[:1]]
                if reader is not None and len(pending) < BATCHES_IN_FLIGHT:
                    waits.append(reader)
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                while pending and pending[0].done():
                    await results.write(pending.popleft().result())
                if reader is not None and reader.done() and len(pending) < BATCHES_IN_FLIGHT:
                    batch = reader.result()
                    reader = None
                    if batch:
                        begun, jobs = await self._begin(batch, patience_s, streak)
                        pending.append(begun)
                        await results.begin()
                        streak.is_answered = True
                        if not streak.is_over:
                            reader = asyncio.create_task(self._next(source, jobs))
        finally:
            for task in (*pending, *([reader] if reader is not None else [])):
                task.cancel()

    async def _begin(
        self, lines: Sequence[Any], patience_s: float, streak: "_Streak"
    ) -> tuple[asyncio.Task[bytes], Counter[str]]:
        """Submit a batch when there is room; return its result lines to come, and the jobs."""
        await self._room.acquire()
        try:
            submitted, jobs = await self._submit(lines, patience_s, streak)
        except BaseException:
            self._room.release()
            raise
        task = asyncio.create_task(answers(submitted))
        task.add_done_callback(lambda _: self._room.release())
        return task, jobs

    async def _next(self, source: Source, jobs: Counter[str]) -> Sequence[Any]:
        """Return the next lines; what has been too fast waits with them unread."""
        for job, count in jobs.items():
            await self._quotas.wait(job, WRITES, await self._quotas.rate(job, WRITES), count)
        return await source.read()

    async def _submit(
        self, lines: Sequence[Any], patience_s: float, streak: "_Streak"
    ) -> tuple[list[tuple[Any, Submitted]], Counter[str]]:
        """Return each line's link with its future answer, or why it cannot be submitted.

        Ends behind a streak of lines that is too long, with why.
        """
        submitted: list[tuple[Any, Submitted]] = []
        unknown: set[str] = set()
        jobs: Counter[str] = Counter()
        backend, bytes_max = self._backend, self._state_bytes_max
        for line in lines:
            link = ""
            large = len(line) if isinstance(line, bytes) and len(line) > LARGE_BYTES else 0
            try:
                if large:
                    value, _ = await self._large.read(large, patience_s, partial(parsed, line))
                else:
                    value = parsed(line)
                link = value["link"]
                streak.broken, streak.has_operations = 0, True
                factory = self._factory(link, value)
                service = backend.service_at(factory)
                if service is None and factory not in unknown:
                    service = await backend.find_service(factory, patience_s)
                if service is None:
                    unknown.add(factory)
                    raise NotFound(f"there is no factory {factory}")
                if large:
                    make = partial(operation_of, value, factory, service.options, bytes_max)
                    operation, _ = await self._large.read(large, patience_s, make)
                else:
                    operation = operation_of(value, factory, service.options, bytes_max)
                submitted.append((operation.link, backend.submit(operation, patience_s)))
                if operation.writer:
                    jobs[operation.writer[0]] += 1
            except (DocstoreError, Refusal) as error:
                # Where they were raised refers to this very list: a circle around all these bodies.
                error.__traceback__ = error.__context__ = None
                submitted.append((link, error))
                if isinstance(error, NoOperation) and (why := streak.ends(error)):
                    submitted.append(("", why))
                    break
        return submitted, jobs

    def _factory(self, link: str, value: dict[str, Any]) -> str:
        """Return the factory that a line is for: above its link, or the link of a POST itself."""
        canonical_link(link)
        if value.get("op") in ("POST", "post") and self._backend.service_at(link) is not None:
            return link
        factory, _, name = link.rpartition("/")
        if name in SUFFIXES:
            raise BadRequest("a utility's name cannot be an id")
        return factory


@dataclass(slots=True)
class _Streak:
    """Lines in a row that are no operations: a few are mistakes, many are another kind of body.

    is_answered: whether results have been sent. is_over: the streak was too long.
    """

    broken: int = 0
    has_operations: bool = False
    is_answered: bool = False
    is_over: bool = False

    def ends(self, error: NoOperation) -> BadRequest | None:
        """Count one more; return why the request ends, None if it goes on.

        Raises that instead if there was nothing else in the request: then it can be its status.
        """
        self.broken += 1
        if self.broken < BROKEN_LINES_MAX:
            return None
        why = f"{self.broken} lines in a row are no operations ({error}); the rest was not read"
        if not self.has_operations and not self.is_answered:
            raise BadRequest(f"{why}: is the body what its Content-Type says?")
        self.is_over = True
        return BadRequest(why)
