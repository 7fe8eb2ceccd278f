"""Records in: JSON, lines of JSON or msgpack, each routed to a partition, and appended.

    POST /core/streams/<topic>/records                  routed by `partition`, by key, or to any
    POST /core/streams/<topic>/partitions/<n>/records

A request's records for one partition are packed once and stay bytes from here on. An idempotent
producer (`Docstore-Producer`) numbers its requests for each partition, so the path names it.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import orjson
from aiohttp import web

from docstore.errors import BadRequest, TooLarge, Unavailable
from docstore.http import bodies, headers
from docstore.http.backend import Backend
from docstore.http.headers import RequestHead
from docstore.http.large_bodies import LARGE_BYTES, LargeBodies
from docstore.http.missing import missing
from docstore.http.outcomes import problem_of, shown_high
from docstore.http.problems import problem
from docstore.http.reply import Reply
from docstore.http.representation import MSGPACK_TYPE
from docstore.http.results import NDJSON_TYPE
from docstore.http.used_headers import PRODUCER
from docstore.model import json
from docstore.model.settings import quoted
from docstore.model.streams_batch import JSON
from docstore.runtime.streams_backend import topic_with
from docstore.streams.effects import HIGH_NOT_KNOWN, Problem
from docstore.streams.records import Posted, checked, from_json, from_lines, keyed
from docstore.streams.replica_set import STREAMS, partition_link
from docstore.streams.requests import NoSuchPartition, ProduceRequest
from docstore.streams.routing import partition_of
from docstore.streams.topic import Topic
from docstore.wire.streams_messages import Produced

BODY_BYTES_MAX = 8 << 20
"""Maximum bytes of a request to a topic; the topic limits the batch of one partition."""
MSGPACK_LARGE_BYTES = 4 * LARGE_BYTES
"""Size from which msgpack is checked in a thread: it costs a fifth of parsing JSON."""
TYPES = {"application/json": "", NDJSON_TYPE: "", "application/ndjson": "", MSGPACK_TYPE: ""}
ACKS = ("committed", "leader")
NO_RECORD = "the body must have at least one record; got no record"
JSON_HEAD = b"Content-Type: application/json\r\n"

_PRODUCER = re.compile(
    r"([!-:<-~]{1,128}) *; *epoch=([0-9]{1,18}) *; *sequence=([0-9]{1,18})\Z", re.ASCII
)


class NeedsPartition(BadRequest):
    """A request with a producer's number must use the path of one partition."""

    code = "producer-needs-a-partition"


class NeedsKey(BadRequest):
    """A record of a compacted topic must have a key: the newest record of each key is kept."""

    code = "record-needs-a-key"

    def __init__(self, index: int) -> None:
        super().__init__(f"record {index}: `key` must be given, as the topic is compacted by key")


@dataclass(slots=True)
class _Part:
    """The records of a request for one partition."""

    partition: int
    flags: int
    body: list[bytes] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    """Positions of the records in the request."""
    size: int = 0

    def add(self, index: int, packed: bytes) -> None:
        self.body.append(packed)
        self.indexes.append(index)
        self.size += len(packed)


Outcome = Produced | Problem


class Submitted(NamedTuple):
    """The records of a request on their way to their partitions.

    outcome: of the only part, or a list with that of each part, or already the reply.
    """

    topic: str
    patience_s: float
    parts: Sequence[_Part]
    outcome: "asyncio.Future[Outcome] | asyncio.Future[list[Outcome]] | asyncio.Future[Reply]"


class _Terms(NamedTuple):
    """The parameters and headers of a request to append records."""

    media: str
    patience_s: float
    acks: str
    producer: tuple[str, int, int] | tuple[()]


class ProducePages:
    """Answers POST of records."""

    def __init__(self, backend: Backend, large: LargeBodies, *, timeout_s: float) -> None:
        self._backend = backend
        self._large = large
        self._body_timeout_s = timeout_s
        self._turn = 0

    def known_topic(self, name: str, partition: int | None) -> Topic | None:
        """Return a topic with this partition if this node knows it, so that `submit` may follow."""
        try:
            topic = self._backend.inside().stream_backend.known_topic(name)
        except Unavailable:
            return None
        return topic if topic and (partition or 0) < topic.partitions else None

    def submit(
        self, request: RequestHead, topic: Topic, partition: int | None, body: bytes
    ) -> Submitted:
        """Submit the records of a request without parameters, whose body is small."""
        terms = _terms(request, "committed", topic.name, partition)
        anywhere = self._anywhere(topic) if partition is None else partition
        try:
            parts = _read(body, terms.media, topic, partition, anywhere)
        except NeedsKey:
            late = self._append_anew(request, terms, topic.name, partition, body)
            return Submitted(topic.name, terms.patience_s, (), asyncio.ensure_future(late))
        return self._submit(terms, topic, parts)

    async def serve(self, request: web.BaseRequest, name: str, partition: int | None) -> Reply:
        """Append the records of a request to the partition in its path, or each to its own."""
        query = request.rel_url.query if "?" in request.raw_path else {}
        terms = _terms(request, query.get("acks", "committed"), name, partition)
        streams = self._backend.inside().stream_backend
        topic = await topic_with(streams, name, partition, terms.patience_s)
        body = await bodies.receive(
            request, bytes_max=BODY_BYTES_MAX, timeout_s=self._body_timeout_s
        )
        try:
            return await self._append(request, terms, topic, partition, body)
        except NeedsKey:
            return await self._append_anew(request, terms, name, partition, body)

    async def _append_anew(
        self, request: RequestHead, terms: _Terms, name: str, partition: int | None, body: bytes
    ) -> Reply:
        """Read the topic and append the records: it may not be compacted any more."""
        streams = self._backend.inside().stream_backend
        topic = await streams.topic_or_last(name, partition, terms.patience_s)
        return await self._append(request, terms, topic, partition, body)

    async def _append(
        self, request: RequestHead, terms: _Terms, topic: Topic, partition: int | None, body: bytes
    ) -> Reply:
        anywhere = self._anywhere(topic) if partition is None else partition
        work = partial(_read, body, terms.media, topic, partition, anywhere)
        bound = MSGPACK_LARGE_BYTES if terms.media == MSGPACK_TYPE else LARGE_BYTES
        if len(body) <= bound:
            parts = work()
        else:
            parts, _ = await self._large.read(len(body), terms.patience_s, work)
        submitted = self._submit(terms, topic, parts)
        outcome = await submitted.outcome
        return self.reply(request, submitted, outcome) or await self.missing(submitted)

    def _anywhere(self, topic: Topic) -> int:
        """Return the partition for the records without a key of the next request."""
        self._turn += 1
        return self._turn % topic.partitions

    def _submit(self, terms: _Terms, topic: Topic, parts: Sequence[_Part]) -> Submitted:
        streams = self._backend.inside().stream_backend
        answers = [
            streams.produce(
                partition_link(topic.name, part.partition),
                ProduceRequest(
                    terms.acks, terms.producer, part.flags, len(part.indexes), b"".join(part.body)
                ),
                terms.patience_s,
            )
            for part in parts
        ]
        outcome = answers[0] if len(answers) == 1 else asyncio.ensure_future(_all(answers))
        return Submitted(topic.name, terms.patience_s, parts, outcome)

    def reply(
        self, request: RequestHead, submitted: Submitted, outcome: Outcome | list[Outcome] | Reply
    ) -> Reply | None:
        """Return the reply to a request; None if a document is missing: `missing` has the error."""
        if isinstance(outcome, Reply):
            return outcome
        parts = submitted.parts
        if isinstance(outcome, Produced):
            return _reply(parts[0].partition, outcome)
        if isinstance(outcome, list):
            return (
                None
                if all(map(_is_missing, outcome))
                else (_reply_of_several(request, parts, outcome))
            )
        return None if _is_missing(outcome) else problem_of(outcome, request)

    async def missing(self, submitted: Submitted) -> Reply:
        """Raise the error for a partition without a document, after a look at its topic."""
        link = partition_link(submitted.topic, submitted.parts[0].partition)
        raise await missing(self._backend.inside().stream_backend, link, submitted.patience_s)


class _Router:
    """Chooses the partition of each record, and gathers records by partition."""

    def __init__(self, topic: Topic, partition: int | None, anywhere: int) -> None:
        """partition: the one in the path, if any. anywhere: the one for records without a key."""
        self._topic = topic
        self._fixed = partition
        self._anywhere = anywhere
        self.parts: dict[int, _Part] = {}

    def find(self, index: int, posted: int | None, key: bytes | None) -> int:
        """Return the partition of a record: the named one, by its key, or any."""
        if key is None and self._topic.compacts:
            raise NeedsKey(index)
        if posted is not None:
            if self._fixed not in (None, posted):
                raise BadRequest(f"partition must be {self._fixed}, as in the path; got {posted}")
            if posted >= self._topic.partitions:
                raise NoSuchPartition(
                    f"partition must be below {self._topic.partitions}; got {posted}"
                )
            return posted
        if self._fixed is None and key is not None:
            return partition_of(key, self._topic.partitions)
        return self._anywhere

    def add(self, number: int, index: int, packed: bytes, flags: int) -> None:
        """Add a record to its partition. Raises TooLarge."""
        part = self.parts.get(number)
        if part is None:
            part = self.parts[number] = _Part(number, flags)
        part.add(index, packed)
        most = self._topic.batch_bytes_max
        if len(packed) > most:
            raise TooLarge(f"record {index} must have at most {most} bytes; got {len(packed)}")
        if part.size > most:
            raise TooLarge(f"a batch for one partition must have at most {most} bytes")


def _read(
    body: bytes, media: str, topic: Topic, partition: int | None, anywhere: int
) -> Sequence[_Part]:
    """Return a body's records by partition. Raises BadRequest, TooLarge."""
    try:
        if media == MSGPACK_TYPE and (partition is not None or topic.partitions == 1):
            return [_whole(body, topic, anywhere)]
        return _parts(body, media, _Router(topic, partition, anywhere))
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _whole(body: bytes, topic: Topic, partition: int) -> _Part:
    """Return all of a body in msgpack as one part. Raises BadRequest, TooLarge, ValueError."""
    records, most = checked(body), topic.batch_bytes_max
    if len(body) > most:
        raise TooLarge(f"a batch for one partition must have at most {most} bytes; got {len(body)}")
    if not records:
        raise BadRequest(NO_RECORD)
    if topic.compacts:
        for index, (key, _) in enumerate(keyed(body)):
            if key is None:
                raise NeedsKey(index)
    return _Part(partition, 0, [body], list(range(records)), len(body))


def _parts(body: bytes, media: str, router: _Router) -> Sequence[_Part]:
    """Return a body's records by partition. Raises BadRequest, TooLarge, ValueError."""
    if media == MSGPACK_TYPE:
        checked(body)
        for index, (key, packed) in enumerate(keyed(body)):
            router.add(router.find(index, None, key), index, packed, 0)
    else:
        for index, each in enumerate(_posted(body, media)):
            router.add(router.find(index, each.partition, each.key), index, each.packed, JSON)
    parts = list(router.parts.values())
    if not parts or not parts[0].indexes:
        raise BadRequest(NO_RECORD)
    return parts


def _posted(body: bytes, media: str) -> Sequence[Posted]:
    if media != "application/json":
        return from_lines(body)
    value = json.parse(body)
    if not isinstance(value, dict) or "records" not in value:
        return [from_json(value)]
    records = value["records"]
    if len(value) > 1 or not isinstance(records, list):
        raise BadRequest('several records must be {"records": [...]} without other members')
    posted: list[Posted] = []
    for index, each in enumerate(records):
        try:
            posted.append(from_json(each))
        except ValueError as error:
            raise BadRequest(f"record {index}: {error}") from None
    return posted


def _terms(request: RequestHead, acks: str, name: str, partition: int | None) -> _Terms:
    """Return the terms of a request to a topic. Raises BadRequest, UnsupportedMedia."""
    media = headers.content_media(request, TYPES)
    patience_s = headers.timeout_s(request)
    if acks not in ACKS:
        raise BadRequest(f"acks must be committed or leader; got {quoted(acks)}")
    producer = _producer(request.headers.get(PRODUCER))
    if producer and partition is None:
        raise NeedsPartition(
            "Docstore-Producer must be sent to one partition:"
            f" post to {STREAMS}/{name}/partitions/<n>/records, and retry there"
        )
    return _Terms(media, patience_s, acks, producer)


async def _all(answers: Sequence["asyncio.Future[Outcome]"]) -> list[Outcome]:
    return await asyncio.gather(*answers)


def _producer(raw: str | None) -> tuple[str, int, int] | tuple[()]:
    if raw is None:
        return ()
    found = _PRODUCER.match(raw)
    if found is None:
        raise BadRequest(f"Docstore-Producer must be ID; epoch=N; sequence=N; got {quoted(raw)}")
    return found[1], int(found[2]), int(found[3])


def _is_missing(outcome: Outcome) -> bool:
    return isinstance(outcome, Problem) and outcome.status == 404


def _reply(partition: int, outcome: Produced) -> Reply:
    high = b"null" if outcome.high == HIGH_NOT_KNOWN else b"%d" % outcome.high
    body = b'{"partition":%d,"base":%d,"count":%d,"epoch":%d,"leo":%d,"hw":%b%b}' % (
        partition, outcome.base, outcome.records, outcome.epoch, outcome.end,
        high, b',"repeated":true' if outcome.code else b"",
    )  # fmt: skip
    last = outcome.base + outcome.records - 1
    return Reply(200, body, JSON_HEAD + b"Docstore-Token: %d.%d\r\n" % (outcome.epoch, last))


def _reply_of_several(
    request: RequestHead, parts: Sequence[_Part], outcomes: Sequence[Outcome]
) -> Reply:
    """Return the result of each partition; the status is a common one only if all are equal."""
    shown = []
    for part, outcome in zip(parts, outcomes, strict=True):
        each: dict[str, object] = {"partition": part.partition, "records": part.indexes}
        if isinstance(outcome, Problem):
            unknown = "unknown" if outcome.unknown else "not_applied"
            each |= {"status": outcome.status, "errorCode": outcome.code, "outcome": unknown}
        else:
            each |= {
                "base": outcome.base, "count": outcome.records, "epoch": outcome.epoch,
                "leo": outcome.end, "hw": shown_high(outcome.high),
            }  # fmt: skip
        shown.append(each)
    problems = [outcome for outcome in outcomes if isinstance(outcome, Problem)]
    if not problems:
        return Reply(200, orjson.dumps({"parts": shown}), JSON_HEAD)
    if len(problems) == len(outcomes) and not any(each.unknown for each in problems):
        return problem_of(problems[0], request)
    return problem(
        504, "undecided", "some partitions may not have their records: retry those",
        instance=request.raw_path.partition("?")[0], unknown=True, more={"parts": shown},
    )  # fmt: skip
