"""Many operations in one request: a line each, answered by a line each, in the same order.

Lines are read as they come, submitted in batches, and answered while later ones are still on
their way, so neither side holds the whole. A line that is wrong fails alone.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgpack
from aiohttp import web

from docstore import json
from docstore.errors import BadRequest, DocstoreError, NotFound
from docstore.http import reading
from docstore.http.backend import Backend
from docstore.http.documents import canonical_text
from docstore.http.representation import MSGPACK_TYPE
from docstore.operation import Answer, Conditions, Operation

NDJSON_TYPE = "application/x-ndjson"
BATCH_LINES = 512
LINE_BYTES_MAX = 2 << 20
VERBS = ("PUT", "POST", "PATCH", "DELETE")
MEMBERS = frozenset({"op", "link", "body", "ifVersion", "recreate", "key"})
TYPES = {NDJSON_TYPE: "", "application/ndjson": "", "application/json": "", MSGPACK_TYPE: ""}


class Bulk:
    """POST /core/bulk."""

    def __init__(self, backend: Backend, *, state_bytes_max: int) -> None:
        self._backend = backend
        self._state_bytes_max = state_bytes_max

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a stream of operations with a stream of results."""
        if "atomic" in request.rel_url.query:
            raise BadRequest("atomic batches are not offered yet")
        media = reading.content_media(request, TYPES)
        patience_s = reading.timeout_s(request)
        response = web.StreamResponse(headers={"Content-Type": NDJSON_TYPE})
        await response.prepare(request)
        lines = _msgpack_lines(request) if media == MSGPACK_TYPE else _json_lines(request)
        batch: list[Any] = []
        try:
            async for line in lines:
                batch.append(line)
                if len(batch) >= BATCH_LINES:
                    await response.write(await self._run(batch, patience_s))
                    batch = []
        except BadRequest as error:
            batch.append(error)  # What follows cannot be told apart: the last line says why.
        if batch:
            await response.write(await self._run(batch, patience_s))
        await response.write_eof()
        return response

    async def _run(self, lines: Sequence[Any], patience_s: float) -> bytes:
        """Submit a batch side by side; return its result lines."""
        pending = [await self._begin(line, patience_s) for line in lines]
        results = []
        for link, submitted in pending:
            if isinstance(submitted, DocstoreError):
                results.append(_refusal(link, submitted))
            else:
                results.append(_result(link, await submitted))
        return b"".join(results)

    async def _begin(self, line: Any, patience_s: float) -> tuple[str, Any]:
        """Return the link and the future answer of a line, or why it cannot be submitted."""
        link = ""
        try:
            if isinstance(line, DocstoreError):
                raise line
            value = json.parse_object(line) if isinstance(line, bytes) else line
            if not isinstance(value, dict):
                raise BadRequest("a line is an object")
            link = value.get("link", "")
            operation = await self._operation(value, patience_s)
            return link, asyncio.ensure_future(self._backend.submit(operation, patience_s))
        except DocstoreError as error:
            return link if isinstance(link, str) else "", error

    async def _operation(self, value: dict[str, Any], patience_s: float) -> Operation:
        verb, link = value.get("op", "PUT"), value.get("link")
        if verb not in VERBS:
            raise BadRequest(f"op is one of {', '.join(VERBS)}")
        unknown = value.keys() - MEMBERS
        if unknown:
            raise BadRequest(f"a line has no member {min(unknown)[:40]!r}")
        if not isinstance(link, str) or not link.startswith("/"):
            raise BadRequest("link is a path")
        factory = canonical_text(link).rpartition("/")[0]
        service = self._backend.service_at(factory)
        if service is None:
            service = await self._backend.find_service(factory, patience_s)
        if service is None:
            raise NotFound(f"there is no factory {factory}")
        version = reading.sent_version({"documentVersion": value.get("ifVersion")})
        recreate = value.get("recreate", False)
        key = value.get("key", "")
        if not isinstance(recreate, bool) or not isinstance(key, str):
            raise BadRequest("recreate is true or false, key is a string")
        body, signature = b"", b""
        if verb != "DELETE":
            body, signature = self._body(value.get("body"), link)
        return Operation(
            verb, link, body, "handler" if verb == "PATCH" else "",
            signature if verb != "PATCH" else b"",
            Conditions(version=version) if version is not None else None,
            recreate=recreate, creates=service.options.put_creates, key=key,
        )  # fmt: skip

    def _body(self, value: Any, link: str) -> tuple[bytes, bytes]:
        if not isinstance(value, dict):
            raise BadRequest("body is an object")
        body, state, theirs = reading.author_state(json.dump(value), self._state_bytes_max)
        reading.check_self_link(theirs, link)
        return body, json.signature(state)


async def _json_lines(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """Yield the lines of the body that are not empty."""
    rest = b""
    async for chunk in request.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line.strip()
        if len(rest) > LINE_BYTES_MAX:
            raise BadRequest(f"a line has at most {LINE_BYTES_MAX} bytes")
    if rest.strip():
        yield rest.strip()


async def _msgpack_lines(request: web.BaseRequest) -> AsyncIterator[Any]:
    """Yield the msgpack objects of the body."""
    unpacker = msgpack.Unpacker(
        max_buffer_size=2 * LINE_BYTES_MAX, strict_map_key=True, max_ext_len=0, max_bin_len=0
    )
    try:
        async for chunk in request.content.iter_any():
            unpacker.feed(chunk)
            for value in unpacker:
                yield value
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise BadRequest(f"not a stream of msgpack objects: {type(error).__name__}") from None


def _result(link: str, answer: Answer) -> bytes:
    line: dict[str, Any] = {"link": link, "status": answer.status}
    if answer.row is not None:
        line["version"] = answer.row.version
    if not answer.is_success:
        line["outcome"] = "unknown" if answer.unknown else "not_applied"
        line["errorCode"] = answer.code
        line["detail"] = answer.detail
    return json.dump(line) + b"\n"


def _refusal(link: str, error: DocstoreError) -> bytes:
    line = {
        "link": link,
        "status": error.status,
        "outcome": "not_applied",
        "errorCode": error.code,
        "detail": str(error),
    }
    return json.dump(line) + b"\n"
