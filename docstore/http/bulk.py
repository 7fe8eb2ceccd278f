"""Many operations in one request: each line is answered by a line, in the same order.

Lines are parsed as they arrive, submitted in batches, and answered while later lines still arrive.
An invalid line fails alone. The node writes results without waiting for the client to read them, up
to a bound: many clients send the whole body before they read any result.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from docstore.errors import BadRequest
from docstore.http import bodies, headers
from docstore.http.atomic import AtomicBatchPages
from docstore.http.authority import Authority, authority_of
from docstore.http.backend import Backend
from docstore.http.bulk_batch import BulkBatch, Streak
from docstore.http.encodings import inflater
from docstore.http.large_bodies import LargeBodies
from docstore.http.lines import (
    BodyLines,
    InflatedLines,
    JsonLines,
    MsgpackLines,
    RequestLines,
    Source,
)
from docstore.http.quotas import WRITES, Quotas
from docstore.http.representation import MSGPACK_TYPE
from docstore.http.results import NDJSON_TYPE, Results, answers
from docstore.http.used_headers import refuse_all
from docstore.model.settings import quoted

BATCHES_IN_FLIGHT = 16
BATCHES_OF_ALL = 24
"""Maximum batches in flight of all requests together. Their lines and bytes stay below the limits
of the protocol's queue at one node, which would refuse more; further batches wait here."""
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
        self._atomic = AtomicBatchPages(backend, large, state_bytes_max=state_bytes_max)
        self._quotas = quotas
        self._large = large
        self._state_bytes_max = state_bytes_max
        self._timeout_s = timeout_s
        self._room = asyncio.Semaphore(BATCHES_OF_ALL)

    async def serve(self, request: web.BaseRequest, path: str, body: bytes) -> web.StreamResponse:
        """Answer a stream of operations with a stream of results."""
        packed = headers.content_media(request, TYPES) == MSGPACK_TYPE
        match request.rel_url.query.get("atomic", "false"):
            case "true":
                return await self._atomic.serve(request, packed=packed, timeout_s=self._timeout_s)
            case "false":
                refuse_all(request, "lines that are not atomic")
            case other:
                raise BadRequest(f"atomic must be true or false; got {quoted(other)}")
        bodies.invite(request)
        lines: BodyLines = MsgpackLines() if packed else JsonLines()
        inflate = inflater(request.headers.get("Content-Encoding"))
        if inflate is not None:
            lines = InflatedLines(lines, inflate)
        return await self.answer(request, RequestLines(request, lines, self._timeout_s))

    async def answer(self, request: web.BaseRequest, source: Source) -> web.StreamResponse:
        """Carry out and answer each line of a source.

        Raises BadRequest when the first lines are not operations. If the body has no line at all,
        raises the error that ended it: TooLarge, TooSlow, BadRequest.
        """
        patience_s = headers.timeout_s(request)
        results = Results(request)
        await self._run(source, patience_s, results, authority_of(request))
        return await results.end()

    async def _run(
        self, source: Source, patience_s: float, results: Results, authority: Authority
    ) -> None:
        """Read lines and write results concurrently, with several batches in flight."""
        streak = Streak()
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
                        begun, jobs = await self._begin(batch, patience_s, streak, authority)
                        pending.append(begun)
                        await results.begin()
                        streak.is_answered = True
                        if not streak.is_over:
                            reader = asyncio.create_task(self._next(source, jobs))
        finally:
            for task in (*pending, *([reader] if reader is not None else [])):
                task.cancel()

    async def _begin(
        self, lines: Sequence[Any], patience_s: float, streak: Streak, authority: Authority
    ) -> tuple[asyncio.Task[bytes], Counter[str]]:
        """Submit a batch when there is room; return its task, and its line count by bulk job."""
        most = self._state_bytes_max
        batch = BulkBatch(
            self._backend, self._large, authority, state_bytes_max=most, patience_s=patience_s
        )
        await self._room.acquire()
        try:
            await batch.read(lines, streak)
        except BaseException:
            self._room.release()
            raise
        task = asyncio.create_task(answers(batch.submitted))
        task.add_done_callback(lambda _: self._room.release())
        return task, batch.jobs

    async def _next(self, source: Source, jobs: Counter[str]) -> Sequence[Any]:
        """Return the next lines; wait first if a job exceeded its rate of writes."""
        for job, count in jobs.items():
            await self._quotas.wait(job, WRITES, await self._quotas.rate(job, WRITES), count)
        return await source.read()
