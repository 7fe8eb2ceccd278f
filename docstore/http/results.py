"""The answer of a bulk request: a line for each of its lines, as soon as it is known."""

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from docstore.errors import DocstoreError
from docstore.model import json
from docstore.model.operation import Answer
from docstore.model.service import Refusal

NDJSON_TYPE = "application/x-ndjson"
UNREAD_BYTES_MAX = 16 << 20

Submitted = Any
"""The future answer of a line, or the error that kept it from being submitted."""


class Results:
    """The answer's stream. Waits for the client only when very much is unread."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._response = web.StreamResponse(headers={"Content-Type": NDJSON_TYPE})

    async def begin(self) -> None:
        """Say that results follow, unless that was said."""
        if not self._response.prepared:
            await self._response.prepare(self._request)

    async def end(self) -> web.StreamResponse:
        """Say that there are no more."""
        await self.begin()
        await self._response.write_eof()
        return self._response

    async def write(self, lines: bytes) -> None:
        """Send result lines."""
        transport = self._request.transport
        if transport is None:
            raise ConnectionResetError("the client has gone")
        await self._request.writer.write(lines, drain=False)  # type: ignore[call-arg]
        if transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            await self._response.drain()


async def answers(submitted: Sequence[tuple[str, Submitted]]) -> bytes:
    """Return the result lines of a batch, when all are there."""
    results = []
    for link, outcome in submitted:
        if isinstance(outcome, DocstoreError):
            results.append(_refused(link, outcome.status, outcome.code, str(outcome)))
        elif isinstance(outcome, Refusal):
            results.append(_refused(link, outcome.status, outcome.code, outcome.detail))
        else:
            results.append(_result(link, await outcome))
    return b"".join(results)


def _result(link: str, answer: Answer) -> bytes:
    row = answer.row
    if answer.status < 300 and row is not None:
        line = b'{"link":%b,"status":%d,"version":%d%b}\n'
        repeated = b',"repeated":true' if answer.code else b""
        return line % (json.dump(link), answer.status, row.version, repeated)
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
