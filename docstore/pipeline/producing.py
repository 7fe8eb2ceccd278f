"""One task's rows on their way into a topic: each once, however often the task runs.

A task is a producer (`docstore/streams/producer_state.py`): its id is made of the job and of its
place among the job's tasks, its epoch is the batch, and its requests for each partition are
numbered from 0. So a task that is repeated sends the same numbers again, whose records are there
already, and one of an earlier batch that comes back from the dead is refused.

That holds while the rows come in the same order, since a request is known by its number alone. The
records that a repetition finds are compared with its own, as far back as their place is known: five
requests for each partition. Others cannot be compared, and count as the same.
"""

import hashlib
import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegralType, MapType, StringType, StructType

from docstore.model.streams_batch import body_of, unframed
from docstore.pipeline.bulk_lines import RowRefused, WriteFailed
from docstore.pipeline.columns import insist_on_distinct
from docstore.pipeline.fetching import EVICTED, Range, fetch
from docstore.pipeline.group_client import GroupClient, GroupError, pause
from docstore.pipeline.options import Options
from docstore.pipeline.topics import TIMEOUT_MS, link_of
from docstore.streams.records import Record, pack
from docstore.streams.routing import partition_of

MSGPACK = {"Content-Type": "application/msgpack"}
IN_FLIGHT = 4
RETRIES = 8
AGAIN = frozenset({421, 429, 503, 504})
"""Statuses after which a request is sent again; 504, since its number makes that harmless."""
STALE = "stale-sequence"
"""The code of a request that was appended long ago."""
JOB_MAX = 90
"""Characters of a job's name that go into its producers' ids; a longer one has a digest there."""
COLUMNS = ("key", "value", "headers", "partition")


class Target(NamedTuple):
    """Where rows go. roads: for each partition, which nodes to ask, the leader first.

    shared: among how many partitions keys and rows without one are shared; a row may name another.
    """

    topic: str
    batch_bytes: int
    roads: Sequence[Sequence[str]]
    shared: int
    incarnation: str


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """Which rows these are. task: the place of their Spark partition among those of the batch."""

    job: str
    batch: int
    task: int

    @property
    def producer(self) -> str:
        """Return the producer's id, the same for all batches."""
        job = quote(self.job, safe="")
        if len(job) > JOB_MAX:
            job = hashlib.sha256(job.encode()).hexdigest()
        return f"spark-{job}-{self.task}"

    @property
    def epoch(self) -> int:
        """Return the producer's epoch."""
        return self.batch + 1


def check_columns(schema: StructType) -> None:
    """Refuse columns that are no record's. Raises ValueError."""
    insist_on_distinct(schema.names)
    if "value" not in schema.names:
        raise ValueError(
            "docstore: a record needs a column 'value'; to_json(struct(...)) makes one"
        )
    for name in schema.names:
        kind = schema[name].dataType
        if name not in COLUMNS:
            raise ValueError(
                f"docstore: column {name!r} is none of a record's, which are {', '.join(COLUMNS)};"
                " leave it out, or put it into 'value' by to_json(struct(...))"
            )
        fits = {
            "headers": isinstance(kind, MapType)
            and isinstance(kind.keyType, StringType)
            and isinstance(kind.valueType, StringType | BinaryType),
            "partition": isinstance(kind, IntegralType),
        }.get(name, isinstance(kind, StringType | BinaryType))
        if not fits:
            wanted = {"headers": "map<string, string or binary>", "partition": "int"}
            raise ValueError(
                f"docstore: column {name!r} is {kind.simpleString()}, not"
                f" {wanted.get(name, 'string or binary')}; cast it"
            )


def _records(batch: pa.RecordBatch) -> Iterator[tuple[int | None, bytes | None, bytes]]:
    """Yield the partition that a row names, its key and its record. Raises WriteFailed."""
    nothing = [None] * batch.num_rows
    names = batch.schema.names
    partitions, headers = (
        batch.column(name).to_pylist() if name in names else nothing
        for name in ("partition", "headers")
    )
    keys, values = (
        batch.column(name).cast(pa.binary()).to_pylist() if name in names else nothing
        for name in ("key", "value")
    )
    for partition, key, value, header in zip(partitions, keys, values, headers, strict=True):
        if value is None:
            raise WriteFailed("docstore: a row has nothing in 'value'")
        yield partition, key, pack(Record(key, value, _headers(header) if header else ()))


def _headers(given: Sequence[tuple[str, str | bytes | None]]) -> list[tuple[str, bytes]]:
    found = []
    for name, content in given:
        if content is None:
            raise WriteFailed(f"docstore: a row has nothing in header {name!r}")
        found.append((name, content.encode() if isinstance(content, str) else content))
    return found


@dataclass(slots=True)
class _Lane:
    """What waits for one partition, and what is on its way there: one request at a time."""

    partition: int
    records: list[bytes] = field(default_factory=list)
    size: int = 0
    sequence: int = 0
    sent: Future[None] | None = None


class TaskProducer:
    """One task's rows on their way into the partitions of a topic."""

    def __init__(self, options: Options, target: Target, attempt: TaskAttempt) -> None:
        self._target, self._attempt = target, attempt
        self._rows_at_once = options.number("batchRows", 1000, 1)
        self._retries = options.number("retries", RETRIES)
        self._timeout_s = options.number("timeoutMs", TIMEOUT_MS, 1) / 1000
        self._lanes = [_Lane(number) for number in range(len(target.roads))]
        self._answered = [0] * len(target.roads)
        """Which of a partition's nodes has answered last: one that is gone is not tried again."""
        self._keyless = 0
        self._counting = threading.Lock()
        self._counts: Counter[str] = Counter()

    def send(self, batches: Iterator[pa.RecordBatch]) -> Counter[str]:
        """Append all rows; return what became of them. Raises WriteFailed, GroupError, OSError."""
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            for batch in batches:
                for partition, key, packed in _records(batch):
                    lane = self._lanes[self._partition(partition, key)]
                    # By sizes alone, so that a repetition makes the same requests.
                    is_large = lane.size + len(packed) > self._target.batch_bytes
                    if is_large or len(lane.records) == self._rows_at_once:
                        self._leave(pool, lane)
                    lane.records.append(packed)
                    lane.size += len(packed)
            for lane in self._lanes:
                self._leave(pool, lane)
            for lane in self._lanes:
                if lane.sent is not None:
                    lane.sent.result()
        return self._counts

    def _partition(self, named: int | None, key: bytes | None) -> int:
        """Return where a row goes: where it says, by its key, or a request each in turn."""
        count, shared = len(self._lanes), self._target.shared
        if named is not None:
            if not 0 <= named < count:
                raise RowRefused(
                    f"docstore: {self._target.topic} has {count} partitions, so none is {named}"
                )
            return named
        if key is not None:
            return partition_of(key, shared)
        self._keyless += 1
        return (self._attempt.task + (self._keyless - 1) // self._rows_at_once) % shared

    def _leave(self, pool: ThreadPoolExecutor, lane: _Lane) -> None:
        """Send what waits, once what was sent before is appended."""
        if lane.sent is not None:
            lane.sent.result()
        if lane.records:
            body, rows = b"".join(lane.records), len(lane.records)
            lane.sent = pool.submit(self._deliver, lane.partition, lane.sequence, body, rows)
            lane.records, lane.size, lane.sequence = [], 0, lane.sequence + 1

    def _deliver(self, partition: int, sequence: int, body: bytes, rows: int) -> None:
        """Send a request until it is known what became of it."""
        first, urls = self._answered[partition], self._target.roads[partition]
        attempts = (self._retries + 1) * len(urls)
        last = "no node answers"
        for attempt in range(attempts):
            if attempt:
                self._count("retries", 1)
            if attempt >= len(urls):
                pause(attempt // len(urls) - 1)
            at = (first + attempt) % len(urls)
            try:
                answer = self._post(urls[at], partition, sequence, body)
            except GroupError as error:
                if error.code == STALE:
                    self._count("repeated", rows)
                    return
                if error.status not in AGAIN:
                    raise RowRefused(f"docstore: {self._name(partition)}: {error}") from None
                last = str(error)
            except (OSError, http.client.HTTPException) as error:
                last = str(error)
            else:
                self._answered[partition] = at
                if answer.get("repeated"):
                    self._compare(partition, answer["base"], body)
                self._count(
                    "repeated" if answer.get("repeated") and not attempt else "written", rows
                )
                return
        raise WriteFailed(f"docstore: {self._name(partition)}: {last}")

    def _post(self, url: str, partition: int, sequence: int, body: bytes) -> Mapping[str, Any]:
        number = f"{self._attempt.producer}; epoch={self._attempt.epoch}; sequence={sequence}"
        headers = MSGPACK | {"Docstore-Producer": number}
        path = f"{link_of(self._target.topic)}/partitions/{partition}/records"
        group = GroupClient([url], timeout_s=self._timeout_s)
        with group.open("POST", url, path, body, headers) as reply:
            answer: Mapping[str, Any] = json.loads(reply.read())
        return answer

    def _compare(self, partition: int, base: int, body: bytes) -> None:
        """Refuse rows that are others than those an earlier run of the task has written.

        Its request was sealed as one batch, and its records are kept as they came.
        """
        urls = tuple(self._target.roads[partition])
        asked = Range(
            self._target.topic,
            partition,
            base,
            base + 1,
            urls,
            True,
            self._retries,
            self._timeout_s,
        )
        try:
            page = fetch(asked, str(base), bytes_max=1)
        except GroupError as error:
            if error.code != EVICTED:
                raise
            return
        if body_of(next(unframed(page.content))) != body:
            raise RowRefused(
                f"docstore: {self._name(partition)}: an earlier run of this task has written other"
                " records: its rows came in another order, so some may be there twice and some not"
                " at all. Sort them, or write from what has been stored before"
            )

    def _name(self, partition: int) -> str:
        return f"partition {partition} of {self._target.topic}"

    def _count(self, name: str, rows: int) -> None:
        with self._counting:
            self._counts[name] += rows
