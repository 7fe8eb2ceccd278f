"""Streams over HTTP: topics, their partitions, and the way to their records.

    /core/streams                                       topics: POST, GET
    /core/streams/<topic>                               GET, PATCH, DELETE
    /core/streams/<topic>/records                       POST
    /core/streams/<topic>/partitions                    GET
    /core/streams/<topic>/partitions/<n>                GET, PATCH (a command)
    /core/streams/<topic>/partitions/<n>/records        GET, POST
    /core/streams/<topic>/partitions/<n>/records/<o>    GET
    /core/producers                                     POST

Topics and partitions are documents; their pages also show live figures from the leaders.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson
from aiohttp import web

from docstore.errors import BadRequest, NotFound, Unavailable
from docstore.http import bodies, headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.consume import Consuming
from docstore.http.documents import DocumentPages
from docstore.http.ids import id_of_key, new_id
from docstore.http.listing import FactoryPages
from docstore.http.missing import missing
from docstore.http.outcomes import problem_of
from docstore.http.own_documents import creation
from docstore.http.produce import ProducePages
from docstore.http.producers import next_epoch
from docstore.http.provisioned import provisioned
from docstore.http.reply import Reply, header_lines
from docstore.http.representation import document_json, entity_tag, page_reply
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Operation, Verb
from docstore.model.paths import encoded
from docstore.model.settings import quoted
from docstore.streams.effects import Problem
from docstore.streams.replica_set import PARTITIONS, STREAMS, partition_link
from docstore.streams.requests import NoSuchPartition, NoSuchTopic
from docstore.streams.topic import asked_topic, check_change

READS_AT_ONCE = 64
OFFSET_MAX = 1 << 62
PATCHES = {"application/json": "", "application/merge-patch+json": "", "application/msgpack": ""}
UNKNOWN: Mapping[str, object] = {
    "leo": None, "hw": None, "base": None, "followers": [], "stale": True
}  # fmt: skip
"""Figures of a partition whose leader did not answer."""


class StreamPages(FactoryPages):
    """Answers everything under /core/streams."""

    def __init__(
        self,
        backend: Backend,
        documents: DocumentPages,
        producing: ProducePages,
        is_over: Callable[[web.BaseRequest], bool],
    ) -> None:
        """is_over: whether to end a request that receives records."""
        super().__init__(backend, documents)
        self._producing = producing
        self._consuming = Consuming(backend, is_over)

    async def next_epoch(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer with the next epoch of a producer."""
        return await next_epoch(self._backend, request, body)

    async def create(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Create a topic; answer after its partitions exist, or the time is over."""
        raw = bodies.json_bytes(body, headers.content_media(request, headers.BODIES))
        state = json.parse_object(raw)
        key = headers.idempotency_key(request)
        # A retry with the same key must request the same topic.
        incarnation = id_of_key(STREAMS, key) if key else new_id()
        topic = asked_topic(
            state, incarnation=incarnation, members=self._backend.inside().stream_backend.members
        )
        authority_of(request).insist("PUT", topic.link)
        timeout_s = headers.timeout_s(request)
        wait = headers.preference(request, "wait")
        wait_s = headers.whole_number(wait, "Prefer: wait", 0, 300) if wait else timeout_s
        # A deleted topic's name may be used again, for another topic.
        principal = authority_of(request).principal
        operation = creation(request, topic.link, topic.state(), principal=principal)
        answer = await self._backend.submit(operation, timeout_s)
        if answer.is_success:
            answer = await provisioned(self._backend, answer, wait_s)
        reply = self._documents.reply(
            request, answer, self._service(STREAMS), headers.accepted_media(request)
        )
        if reply.status in (201, 202):
            reply.head += header_lines({"Location": encoded(topic.link)})
        return reply

    async def change_topic(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        timeout_s, media = headers.timeout_s(request), headers.accepted_media(request)
        answer = await self._backend.submit(_change(request, link, body), timeout_s)
        if answer.status == 404:
            raise NoSuchTopic(f"there is no topic {_names(link)[0]}")
        return self._documents.reply(request, answer, self._service(STREAMS), media)

    async def topic(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        """Answer with a topic, and live figures from the leaders of its partitions."""
        [name], timeout_s = _names(link), headers.timeout_s(request)
        service, media = self._service(STREAMS), headers.accepted_media(request)
        answer = await self._backend.submit(Operation(verb="GET", link=link), timeout_s)
        if answer.status == 404:
            raise NoSuchTopic(f"there is no topic {name}")
        reply = self._documents.reply(request, answer, service, media)
        if reply.status != 200 or answer.row is None:
            return reply
        count = json.load(answer.row.state)["partitions"]
        page = orjson.loads(document_json(answer.row, service.options.kind))
        page |= {
            "partitionCount": count,
            "partitions": [
                _entry(number, row, figures)
                for number, row, figures in await self._live(name, range(count), timeout_s)
            ],
        }
        head = header_lines({"Cache-Control": "no-store"})
        reply = page_reply(page, media)
        reply.head += head + b"ETag: %b\r\n" % entity_tag(answer.row, media, 3)
        return reply

    async def _live(
        self, name: str, numbers: Sequence[int], timeout_s: float
    ) -> Sequence[tuple[int, Row | None, Mapping[str, object]]]:
        """Return (number, document, live figures of the leader) of partitions."""
        links = [partition_link(name, number) for number in numbers]
        room = asyncio.Semaphore(READS_AT_ONCE)

        async def read(link: str) -> Row | None:
            async with room:
                answer = await self._backend.submit(Operation(verb="GET", link=link), timeout_s)
            if answer.status == 404:
                return None
            if not answer.is_success:
                raise Unavailable(f"{link} cannot be read, retry: {answer.detail}")
            return answer.row

        rows = await asyncio.gather(*map(read, links))
        figures = await self._backend.inside().stream_backend.figures(links)
        return [
            (number, row, figures.get(link, UNKNOWN))
            for number, link, row in zip(numbers, links, rows, strict=True)
        ]

    async def partitions(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer with the partitions of a topic, and live figures from their leaders."""
        name = _names(path)[0]
        media, timeout_s = headers.accepted_media(request), headers.timeout_s(request)
        topic = await self._backend.inside().stream_backend.topic(name, timeout_s)
        found = await self._live(name, range(topic.partitions), timeout_s)
        page = {
            "documentSelfLink": f"{STREAMS}/{name}/{PARTITIONS}",
            "documentLinks": [row.link for _, row, _ in found if row is not None],
            "partitions": [_entry(*each) for each in found],
        }
        return page_reply(page, media, headers={"Cache-Control": "no-store"})

    async def partition(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer with a partition and its leader's figures; forward a command to its controller."""
        name, _, segment = _names(path)
        number = _number(segment)
        media, timeout_s = headers.accepted_media(request), headers.timeout_s(request)
        [(_, row, figures)] = await self._live(name, [number], timeout_s)
        if row is None:
            link = partition_link(name, number)
            raise await missing(self._backend.inside().stream_backend, link, timeout_s)
        if request.method == "PATCH":
            return await self._command(request, row.link, body, timeout_s)
        kind = self._service(f"{STREAMS}/{name}/{PARTITIONS}").options.kind
        page = orjson.loads(document_json(row, kind)) | figures
        reply = page_reply(page, media, headers={"Cache-Control": "no-store"})
        reply.head += b"ETag: %b\r\n" % entity_tag(row, media, 3)
        return reply

    async def _command(
        self, request: web.BaseRequest, link: str, body: bytes, timeout_s: float
    ) -> Reply:
        """Delete records, or start a command of which the partition's page shows the progress."""
        raw = bodies.json_bytes(body, headers.content_media(request, headers.BODIES))
        backend, media = self._backend.inside().stream_backend, headers.accepted_media(request)
        command = _command_of(raw)
        if isinstance(command, int):
            deleted = await backend.delete_records(link, command, timeout_s)
            if isinstance(deleted, Problem):
                return problem_of(deleted, request)
            return page_reply({"documentSelfLink": link, "base": deleted.start}, media)
        outcome = await backend.command(link, command, timeout_s)
        if isinstance(outcome, Problem):
            return problem_of(outcome, request)
        return page_reply({"documentSelfLink": link}, media, status=202)

    async def produce(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Append records to a topic, or to one of its partitions."""
        name, *rest = _names(path)
        partition = _number(rest[1]) if len(rest) > 1 else None
        return await self._producing.serve(request, name, partition)

    async def records(
        self, request: web.BaseRequest, path: str, body: bytes
    ) -> Reply | web.StreamResponse:
        """Answer with the records of a partition."""
        name, _, segment, _ = _names(path)
        return await self._consuming.serve(request, partition_link(name, _number(segment)))

    async def record(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer with one record."""
        name, _, segment, _, offset = _names(path)
        link = partition_link(name, _number(segment))
        if not _is_number(offset, 19):
            raise NotFound(f"a record must be named by its offset; got {quoted(offset)}")
        return await self._consuming.record(request, link, int(offset))


@lru_cache(maxsize=1024)
def _names(path: str) -> Sequence[str]:
    """Return the segments of a path below /core/streams."""
    return path.removeprefix(f"{STREAMS}/").split("/")


@lru_cache(maxsize=1024)
def _number(segment: str) -> int:
    """Return the number of a partition. Raises NoSuchPartition."""
    if not _is_number(segment, 10):
        raise NoSuchPartition(f"partition must be a number from 0; got {quoted(segment)}")
    return int(segment)


def _is_number(segment: str, digits: int) -> bool:
    """Say whether a segment is a number with fewer than `digits` digits and no leading zero."""
    is_number = segment.isascii() and segment.isdecimal() and len(segment) < digits
    return is_number and str(int(segment)) == segment


def _change(request: web.BaseRequest, link: str, body: bytes) -> Operation:
    """Return the operation of a client's change of a topic. Raises BadRequest, Refusal."""
    verb: Verb = "DELETE"
    raw = b""
    if request.method == "PATCH":
        verb = "PATCH"
        media = headers.content_media(request, PATCHES)
        change = bodies.change(body, media, bytes_max=len(body))
        bodies.check_self_link(change.theirs, link)
        raw = change.raw
        check_change(json.load(raw))
    return Operation(
        verb=verb, link=link, body=raw, media="handler" if raw else "",
        conditions=headers.conditions(request, None), key=headers.idempotency_key(request),
        principal=authority_of(request).principal,
    )  # fmt: skip


def _command_of(raw: bytes) -> tuple[str, object] | int:
    """Return the command for the controller, or the offset below which to delete records."""
    asked = json.parse_object(raw)
    match asked:
        case {"kind": "ElectRequest", **rest} if not rest.keys() - {"unclean"}:
            unclean = rest.get("unclean", False)
            if not isinstance(unclean, bool):
                raise BadRequest(f"unclean must be true or false; got {quoted(unclean)}")
            return ("elect", unclean)
        case {"kind": "MoveLeaderRequest", "to": str(to)} if len(asked) == 2:
            return ("lead", to)
        case {"kind": "MoveRequest", "replicas": [*replicas]} if len(asked) == 2:
            if not replicas or not all(isinstance(each, str) for each in replicas):
                raise BadRequest("`replicas` must be an array of ids of nodes, with at least one")
            return ("place", tuple(replicas))
        case {"kind": "DeleteRecordsRequest", "before": before} if len(asked) == 2:
            if type(before) is not int or not -1 <= before <= OFFSET_MAX:
                raise BadRequest(
                    "`before` must be an offset, or -1 for all committed records;"
                    f" got {quoted(before)}"
                )
            return before
    raise BadRequest(
        'the body must be {"kind": "ElectRequest", "unclean"?},'
        ' {"kind": "MoveLeaderRequest", "to"}, {"kind": "MoveRequest", "replicas"}'
        ' or {"kind": "DeleteRecordsRequest", "before"}'
    )


def _entry(number: int, row: Row | None, figures: Mapping[str, object]) -> dict[str, Any]:
    """Return the page entry of one partition."""
    if row is None:
        return {"partition": number, "leader": "", "resolution": None, **UNKNOWN}
    state = json.load(row.state)
    named = ("leader", "epoch", "resolution", "replicas", "lrs", "elr", "minInSync")
    return {"partition": number, **{name: state[name] for name in named}, **figures}
