"""The answer of a bulk request: a result line for each line, sent as soon as it is known."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from aiohttp import web

from docstore.errors import DocstoreError
from docstore.http.reply import streamed
from docstore.model import json
from docstore.model.operation import Answer
from docstore.model.service import Refusal

NDJSON_TYPE = "application/x-ndjson"
UNREAD_BYTES_MAX = 16 << 20


class Together(NamedTuple):
    """Lines that were submitted together: the links of their documents, and the pending answers."""

    links: Sequence[str]
    answers: "asyncio.Future[list[Answer]]"


class RefusedLine(NamedTuple):
    """A line that was not submitted, with the link that it named."""

    link: str
    error: DocstoreError | Refusal


Submitted = Together | RefusedLine
"""Consecutive lines of a request, submitted or refused."""


class Results:
    """The answer's stream. Waits for the client only if too many bytes are unread."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._response = streamed(NDJSON_TYPE)

    async def begin(self) -> None:
        """Send the head of the answer, unless it is sent."""
        if not self._response.prepared:
            await self._response.prepare(self._request)

    async def end(self) -> web.StreamResponse:
        await self.begin()
        await self._response.write_eof()
        return self._response

    async def write(self, lines: bytes) -> None:
        transport = self._request.transport
        if transport is None:
            raise ConnectionResetError("the client has disconnected")
        await self._request.writer.write(lines, drain=False)  # type: ignore[call-arg]
        if transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            await self._response.drain()


async def answers(submitted: Sequence[Submitted]) -> bytes:
    """Wait for the answers of a batch, and return its result lines."""
    results: list[bytes] = []
    for lines in submitted:
        if isinstance(lines, Together):
            results += map(_result, lines.links, await lines.answers)
        else:
            error = lines.error
            detail = error.detail if isinstance(error, Refusal) else str(error)
            results.append(_refused(lines.link, error.status, error.code, detail))
    return b"".join(results)


def _result(link: str, answer: Answer) -> bytes:
    row = answer.row
    if answer.status < 300 and row is not None:
        repeated = b',"repeated":true' if answer.code else b""
        return b'{"link":%b,"status":%d,"version":%d%b}\n' % (
            json.dump(link), answer.status, row.version, repeated,
        )  # fmt: skip
    return _refused(
        link, answer.status, answer.code, answer.detail,
        unknown=answer.unknown, version=row.version if row is not None else None,
    )  # fmt: skip


def _refused(
    link: str,
    status: int,
    code: str,
    detail: str,
    *,
    unknown: bool = False,
    version: int | None = None,
) -> bytes:
    line: dict[str, Any] = {"link": link, "status": status}
    if version is not None:
        line["version"] = version
    line["outcome"] = "unknown" if unknown else "not_applied"
    line["errorCode"] = code
    line["detail"] = detail[:512]
    return json.dump(line) + b"\n"
