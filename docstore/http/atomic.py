"""POST /core/bulk?atomic=true: the lines are one operation, all of them or none.

The documents share a partition key, and so they lie in one slot (`paths.partition_key`). If one
line is refused, the whole batch is refused with the status of that line, and the problem names the
line. As for a request about one document, a client may send an Idempotency-Key and a Fence, and the
outcome may be unknown.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from docstore.errors import (
    BadRequest,
    DocstoreError,
    NotApplied,
    NotFound,
    Picklable,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from docstore.http import bodies, headers
from docstore.http.authority import Authority, authority_of
from docstore.http.backend import Backend
from docstore.http.bulk_batch import method_of
from docstore.http.bulk_lines import operation_of, parsed
from docstore.http.large_bodies import LARGE_BYTES, LargeBodies
from docstore.http.lines import BodyLines, JsonLines, MsgpackLines
from docstore.http.problems import problem
from docstore.http.reply import Reply
from docstore.http.results import NDJSON_TYPE
from docstore.model import json
from docstore.model.batch import BYTES_MAX, ROWS_MAX, batch_of
from docstore.model.operation import Answer, Operation
from docstore.model.paths import SUFFIXES, canonical_link, has_keys, partition_key
from docstore.model.service import Refusal, ServiceOptions

T = TypeVar("T")

BODY_BYTES_MAX = 2 * BYTES_MAX
"""Limit of a body: its lines are longer than the states that they write."""
_HEAD = b"Content-Type: %b\r\n" % NDJSON_TYPE.encode()


class SeveralKeys(NotApplied):
    """The documents of a batch have several partition keys, so they may lie in several slots."""

    status = 422
    code = "several-slots"


class _LineRefused(Picklable):
    """The error of a line, which refuses the whole batch."""

    def __init__(self, line: int, link: str, why: DocstoreError | Refusal) -> None:
        super().__init__()
        self.line, self.link, self.why = line, link, why


class AtomicBatchPages:
    """Translates an atomic batch into one operation, and its answer into a reply."""

    def __init__(self, backend: Backend, large: LargeBodies, *, state_bytes_max: int) -> None:
        self._backend = backend
        self._large = large
        self._state_bytes_max = state_bytes_max

    async def serve(self, request: web.BaseRequest, *, packed: bool, timeout_s: float) -> Reply:
        """Answer a batch. packed: its lines are msgpack. Raises DocstoreError."""
        patience_s = headers.timeout_s(request)
        key, fence = headers.idempotency_key(request), headers.fence(request, 3)
        raw = await bodies.receive(request, bytes_max=BODY_BYTES_MAX, timeout_s=timeout_s)
        deadline = asyncio.get_running_loop().time() + patience_s
        path = request.raw_path.partition("?")[0]
        try:
            updates = await self._updates(raw, deadline, authority_of(request), packed=packed)
        except _LineRefused as refused:
            return _refused_line(refused, path)
        principal = authority_of(request).principal
        batch = batch_of(updates, key=key, fence=fence, principal=principal)
        answer = await self._backend.submit(batch, _left_s(deadline))
        return _reply(answer, updates, path)

    async def _updates(
        self, raw: bytes, deadline: float, authority: Authority, *, packed: bool
    ) -> list[Operation]:
        """Return the operations of the lines.

        Raises _LineRefused, TooLarge, BadRequest, Unauthenticated, Unavailable.
        """
        values = await self._beside(raw, deadline, partial(_values, raw, packed=packed))
        if not authority.holds():
            raise Unauthenticated
        authority.charge(len(values))
        options: dict[str, ServiceOptions] = {}
        for index, value in enumerate(values):
            link = value["link"]
            try:
                canonical_link(link)
                authority.insist(method_of(value), link)
                factory, _, name = link.rpartition("/")
                if name in SUFFIXES:
                    raise BadRequest(f"link: {name} is a utility, and cannot be an id: use another")
                if factory not in options:
                    options[factory] = await self._options(factory, link, deadline)
            except DocstoreError as error:
                raise _LineRefused(index, link, error) from None
        _check_keys([value["link"] for value in values])
        make = partial(_operations, values, options, self._state_bytes_max)
        return await self._beside(raw, deadline, make)

    async def _beside(self, raw: bytes, deadline: float, work: Callable[[], T]) -> T:
        """Call `work`, in a thread if the body is large: the event loop must not wait for it."""
        if len(raw) <= LARGE_BYTES:
            return work()
        return (await self._large.read(len(raw), _left_s(deadline), work))[0]

    async def _options(self, factory: str, link: str, deadline: float) -> ServiceOptions:
        if self._backend.registry.service_at(link) is not None:
            raise BadRequest(f"link must name a document; {link} is a factory")
        if not has_keys(factory):
            raise SeveralKeys(
                f"documents of {factory} have no keys: the path of the factory must end in a colon"
            )
        service = await self._backend.find_service(factory, _left_s(deadline))
        if service is None:
            raise NotFound(f"there is no factory {factory}")
        return service.options


def _left_s(deadline: float) -> float:
    """Return the seconds until the deadline, by the loop's clock. Raises Unavailable at 0."""
    left_s = deadline - asyncio.get_running_loop().time()
    if left_s <= 0:
        raise Unavailable(
            "timed out before the batch was sent to its owner, nothing is written: retry"
        )
    return left_s


def _values(raw: bytes, *, packed: bool) -> list[dict[str, Any]]:
    """Return the parsed lines of a body, one operation each."""
    lines: BodyLines = MsgpackLines() if packed else JsonLines()
    found = [*lines.feed(raw), *([] if lines.is_over else lines.end())]
    if len(found) > ROWS_MAX:
        raise TooLarge(f"a batch must have at most {ROWS_MAX} lines; got {len(found)}")
    if not found:
        raise BadRequest("a batch must have at least one line; got none")
    values = []
    for index, line in enumerate(found):
        try:
            values.append(parsed(line))
        except DocstoreError as error:
            raise _LineRefused(index, "", error) from None
    return values


def _check_keys(links: Sequence[str]) -> None:
    """Refuse a document with another partition key than the first, or one that is named twice."""
    key, seen = partition_key(links[0]), set()
    for index, link in enumerate(links):
        if partition_key(link) != key:
            detail = (
                f"all lines must have the key of the first, {key!r}; got {partition_key(link)!r}"
            )
            raise _LineRefused(index, link, SeveralKeys(detail))
        if link in seen:
            raise _LineRefused(
                index, link, BadRequest(f"a batch must name a document only once; got {link} twice")
            )
        seen.add(link)


def _operations(
    values: Sequence[dict[str, Any]], options: Mapping[str, ServiceOptions], bytes_max: int
) -> list[Operation]:
    operations = []
    for index, value in enumerate(values):
        link = value["link"]
        factory = link.rpartition("/")[0]
        try:
            for member, instead in (
                ("writer", "it is for bulk jobs"),
                ("key", "send an Idempotency-Key"),
            ):
                if member in value:
                    raise BadRequest(f"a line of an atomic batch must have no {member}: {instead}")
            operations.append(operation_of(value, factory, options[factory], bytes_max))
        except (DocstoreError, Refusal) as error:
            raise _LineRefused(index, link, error) from None
    return operations


def _reply(answer: Answer, updates: Sequence[Operation], path: str) -> Reply:
    if answer.is_success and answer.rows is not None:
        lines = [
            b'{"link":%b,"status":%d,"version":%d}\n' % (json.dump(row.link), status, row.version)
            for row, status in zip(answer.rows, answer.statuses, strict=True)
        ]
        return Reply(200, b"".join(lines), _HEAD)
    index = next((n for n, status in enumerate(answer.statuses) if status), -1)
    more: dict[str, object] = {}
    if index >= 0:
        more = {"line": index, "link": updates[index].link}
        if answer.row is not None:
            more["version"] = answer.row.version
    return problem(
        answer.status, answer.code or "not-found", answer.detail,
        instance=path, unknown=answer.unknown, more=more,
    )  # fmt: skip


def _refused_line(refused: _LineRefused, path: str) -> Reply:
    why = refused.why
    detail = why.detail if isinstance(why, Refusal) else str(why)
    more = {"line": refused.line, "link": refused.link}
    return problem(why.status, why.code, detail, instance=path, more=more)
