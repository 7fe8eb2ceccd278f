"""Rows as they lie on disk, page by page, for backups: `POST /core/backup/rows`.

    {"ranges": [[slot, after, until], ...], "of": "log" or "branches", "after": cursor or null}

The answer is msgpack: {"rows": n, "next": cursor or null, "block": bytes} (`reads/blocks.py`). Any
replica that has reached the ranges can answer any page.
"""

import msgpack
from aiohttp import web

from docstore.http import headers
from docstore.http.backend import Backend
from docstore.http.quotas import READS, Quotas
from docstore.http.reply import Reply, header_lines
from docstore.http.representation import MSGPACK_TYPE
from docstore.http.scans import CATCH_UP_S, insist_here, quota_of
from docstore.model import json
from docstore.query.request import Scan
from docstore.reads.scans.stored import ROWS_MAX, asked_of

PAGE_S = 0.25
"""Size of a page of a job with a rate, in seconds of the rate."""
ROWS_MIN = 64


class StoredRows:
    """Answers requests for stored rows."""

    def __init__(self, backend: Backend, quotas: Quotas) -> None:
        self._backend = backend
        self._quotas = quotas

    async def serve(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer POST. Raises BadRequest, Misdirected, TooEarly, SnapshotGone, Unavailable."""
        headers.content_media(request, {"application/json": ""})
        question = json.parse_object(body)
        job, rate = await quota_of(self._quotas, question)
        asked = asked_of(question)
        await insist_here(self._backend, Scan("/", asked.spans, (), is_log=True), CATCH_UP_S)
        rows = min(asked.rows, max(ROWS_MIN, int(rate * PAGE_S)) if rate else ROWS_MAX)
        page = asked._replace(rows=rows)._asdict()
        page["ranges"] = page.pop("spans")
        fields, block = await self._backend.inside().scans.stored(page)
        await self._quotas.wait(job, READS, rate, fields["rows"])
        answer = msgpack.packb({**fields, "block": block})
        return Reply(200, answer, header_lines({"Content-Type": MSGPACK_TYPE}))
