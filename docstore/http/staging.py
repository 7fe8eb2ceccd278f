"""Parts of a bulk job that wait for its commit, on this node alone.

    GET    /core/spark/staging               the waiting parts
    PUT    /core/spark/staging/<job>/<part>  store lines of /core/bulk for later
    POST   /core/spark/staging/<job>/<part>  carry them out; answers a line each, as /core/bulk
    DELETE /core/spark/staging/<job>/<part>

A job stores each of its parts on two nodes before it carries out the first one. So a job that fails
before its commit has changed nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, BinaryIO
from urllib.parse import unquote

from aiohttp import web

from docstore.errors import BadRequest, NotFound, TooSlow
from docstore.http import bodies, headers
from docstore.http.bulk import Bulk
from docstore.http.lines import BATCH_LINES, JsonLines
from docstore.http.reply import Reply
from docstore.http.representation import JSON_TYPE, page_reply
from docstore.http.results import NDJSON_TYPE
from docstore.http.staged_files import Arriving, Staging

STAGING = "/core/spark/staging"
PART = f"{STAGING}/{{job}}/{{part}}"
PIECE_BYTES = 1 << 20


class StagedParts:
    """Answers everything under /core/spark/staging."""

    def __init__(self, staging: Staging, bulk: Bulk, *, timeout_s: float) -> None:
        self._staging = staging
        self._bulk = bulk
        self._timeout_s = timeout_s

    async def get_list(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the parts that wait on this node."""
        return page_reply({"parts": await asyncio.to_thread(self._staging.describe)}, JSON_TYPE)

    async def keep(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer PUT of a part: write its lines to a file."""
        job, part = named(path)
        headers.content_media(request, {NDJSON_TYPE: ""})
        if "Content-Encoding" in request.headers:
            raise BadRequest("a part must be sent without Content-Encoding")
        bodies.invite(request)
        arriving: Arriving = await asyncio.to_thread(self._staging.receive, job, part)
        with arriving:
            async for piece in self._pieces(request):
                await asyncio.to_thread(arriving.write, piece)
            await asyncio.to_thread(arriving.finish)
        return page_reply({"part": part, "bytes": arriving.size}, JSON_TYPE, status=201)

    async def do(self, request: web.BaseRequest, path: str, body: bytes) -> web.StreamResponse:
        """Answer POST of a part: carry out its lines."""
        lines = FileLines(await asyncio.to_thread(self._staging.open, *named(path)))
        try:
            return await self._bulk.answer(request, lines)
        finally:
            lines.close()

    async def remove(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer DELETE of a part."""
        removed = await asyncio.to_thread(self._staging.remove, *named(path))
        return page_reply({"removed": removed}, JSON_TYPE)

    async def _pieces(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """Yield the body in pieces that are large enough for a call of a thread."""
        waiting = bytearray()
        while True:
            try:
                async with asyncio.timeout(self._timeout_s):
                    chunk = await request.content.readany()
            except TimeoutError:
                raise TooSlow(
                    f"the rest of the part must arrive within {self._timeout_s:g} s of a piece"
                ) from None
            waiting += chunk
            if waiting and (not chunk or len(waiting) >= PIECE_BYTES):
                yield bytes(waiting)
                waiting.clear()
            if not chunk:
                return


def named(path: str) -> tuple[str, str]:
    """Return the job and the part that a raw path names. Raises NotFound."""
    job, _, part = path.removeprefix(f"{STAGING}/").partition("/")
    if not job or not part:
        raise NotFound(f"the path must be {STAGING}/<job>/<part>")
    return unquote(job), unquote(part)


def route_of(raw: str) -> str:
    """Return the route table's path for a raw path. Raises NotFound."""
    if raw == STAGING:
        return STAGING
    named(raw)
    return PART


class FileLines:
    """The lines of a part, in batches of a bounded size."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lines = JsonLines()
        self._waiting: Sequence[Any] = ()

    async def read(self) -> Sequence[Any]:
        """Return the next lines, none at the end."""
        while not self._waiting and not self._lines.is_over:
            piece = await asyncio.to_thread(self._file.read, PIECE_BYTES)
            self._waiting = self._lines.feed(piece) if piece else self._lines.end()
        batch, self._waiting = self._waiting[:BATCH_LINES], self._waiting[BATCH_LINES:]
        return batch

    def close(self) -> None:
        self._file.close()
