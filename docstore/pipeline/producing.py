"""Append the rows of one task to a topic, each once, however often the task runs.

A task is a producer (`docstore/streams/producer_state.py`). Its id is made of the job and of its
Spark partition, its epoch is the batch, and its requests to each partition are numbered from 0. A
task that is repeated sends the same numbers, so its records are not appended again. A task of an
earlier batch is fenced.

This holds while the rows come in the same order, since a request is known by its number alone. A
repetition compares the stored records with its own as far back as the leader remembers their
offsets: five requests for each partition. It takes older ones for equal.
"""

import hashlib
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

from docstore.model.streams_batch import SPARSE, header_of, unframed
from docstore.pipeline.bulk_lines import RowRefused, WriteFailed
from docstore.pipeline.columns import insist_on_distinct
from docstore.pipeline.fetching import EVICTED, Range, fetch
from docstore.pipeline.group_client import FAILED, REPEATABLE, GroupClient, GroupError, in_turn
from docstore.pipeline.options import Options
from docstore.pipeline.topics import TIMEOUT_MS, link_of
from docstore.streams.forms import plain_body
from docstore.streams.records import Record, pack
from docstore.streams.routing import partition_of

MSGPACK = {"Content-Type": "application/msgpack"}
IN_FLIGHT = 4
RETRIES = 8
STALE = "stale-sequence"
"""Code for a request that was appended, but whose offset the leader has forgotten."""
JOB_MAX = 90
"""Most characters of a job's name in producer ids; a longer name is replaced by a digest."""
COLUMNS = ("key", "value", "headers", "partition")


class Target(NamedTuple):
    """The topic that rows go to."""

    topic: str
    batch_bytes: int
    urls: Sequence[Sequence[str]]
    """The nodes to ask for each partition, the leader first."""
    shared: int
    """Number of partitions for rows that name none; a row may name a greater partition."""
    incarnation: str


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """The job, the batch and the number of the Spark partition that rows belong to."""

    job: str
    batch: int
    task: int

    @property
    def producer(self) -> str:
        """The id of the producer, the same for all batches."""
        job = quote(self.job, safe="")
        if len(job) > JOB_MAX:
            job = hashlib.sha256(job.encode()).hexdigest()
        return f"spark-{job}-{self.task}"

    @property
    def epoch(self) -> int:
        return self.batch + 1


def check_columns(schema: StructType) -> None:
    """Raise ValueError for columns that a record does not have."""
    insist_on_distinct(schema.names)
    if "value" not in schema.names:
        raise ValueError(
            "docstore: a record needs a column 'value'; to_json(struct(...)) makes one"
        )
    for name in schema.names:
        kind = schema[name].dataType
        if name not in COLUMNS:
            raise ValueError(
                f"docstore: a record has no column {name!r}, only {', '.join(COLUMNS)};"
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
    """Yield the partition that each row names, its key and its record. Raises WriteFailed."""
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
            raise WriteFailed("docstore: 'value' is null in a row; a record must have one")
        yield partition, key, pack(Record(key, value, _headers(header) if header else ()))


def _headers(given: Sequence[tuple[str, str | bytes | None]]) -> list[tuple[str, bytes]]:
    found = []
    for name, content in given:
        if content is None:
            raise WriteFailed(f"docstore: header {name!r} is null in a row; leave it out")
        found.append((name, content.encode() if isinstance(content, str) else content))
    return found


@dataclass(slots=True)
class _Lane:
    """The records that wait for one partition, and its one request in flight."""

    partition: int
    records: list[bytes] = field(default_factory=list)
    size: int = 0
    sequence: int = 0
    sent: Future[None] | None = None


class TaskProducer:
    """Appends the rows of one task to the partitions of a topic."""

    def __init__(self, options: Options, target: Target, attempt: TaskAttempt) -> None:
        self._target, self._attempt = target, attempt
        self._rows_at_once = options.number("batchRows", 1000, 1)
        self._retries = options.number("retries", RETRIES)
        self._timeout_s = options.timeout_s(TIMEOUT_MS)
        self._lanes = [_Lane(number) for number in range(len(target.urls))]
        self._urls = [list(urls) for urls in target.urls]
        """The nodes to ask for each partition, beginning with the one that answered last."""
        self._keyless = 0
        self._counting = threading.Lock()
        self._counts: Counter[str] = Counter()

    def send(self, batches: Iterator[pa.RecordBatch]) -> Counter[str]:
        """Append all rows; count them by outcome. Raises WriteFailed, GroupError, OSError."""
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            for batch in batches:
                for partition, key, packed in _records(batch):
                    lane = self._lanes[self._partition(partition, key)]
                    # Depends on sizes alone, so that a repetition makes the same requests.
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
        """Return the partition that a row names, or that of its key, or the next in turn."""
        count, shared = len(self._lanes), self._target.shared
        if named is not None:
            if not 0 <= named < count:
                raise RowRefused(
                    f"docstore: partition must be 0 to {count - 1} in "
                    f"{self._target.topic}; got {named}"
                )
            return named
        if key is not None:
            return partition_of(key, shared)
        self._keyless += 1
        return (self._attempt.task + (self._keyless - 1) // self._rows_at_once) % shared

    def _leave(self, pool: ThreadPoolExecutor, lane: _Lane) -> None:
        """Send the waiting records of a partition once its previous request is appended."""
        if lane.sent is not None:
            lane.sent.result()
        if lane.records:
            body, rows = b"".join(lane.records), len(lane.records)
            lane.sent = pool.submit(self._deliver, lane.partition, lane.sequence, body, rows)
            lane.records, lane.size, lane.sequence = [], 0, lane.sequence + 1

    def _deliver(self, partition: int, sequence: int, body: bytes, rows: int) -> None:
        """Send a request until its outcome is known."""
        name, tried = self._name(partition), 0

        def ask(url: str) -> Mapping[str, Any]:
            nonlocal tried
            tried += 1
            if tried > 1:
                self._count("retries", 1)
            try:
                answer = self._post(url, partition, sequence, body)
            except GroupError as error:
                if error.code == STALE:
                    return {"stale": True}
                if error.status not in REPEATABLE:
                    said = f"the records for {name} were refused: {error}"
                    raise RowRefused(f"docstore: {said}") from None
                raise
            at = self._urls[partition].index(url)
            self._urls[partition] = self._urls[partition][at:] + self._urls[partition][:at]
            return answer

        try:
            answer = in_turn(list(self._urls[partition]), self._retries, ask, REPEATABLE)
        except FAILED as error:
            raise WriteFailed(f"docstore: {name}: {error}") from None
        if answer.get("repeated"):
            self._compare(partition, answer["base"], body)
        is_old = "stale" in answer or (answer.get("repeated") and tried == 1)
        self._count("repeated" if is_old else "written", rows)

    def _post(self, url: str, partition: int, sequence: int, body: bytes) -> Mapping[str, Any]:
        number = f"{self._attempt.producer}; epoch={self._attempt.epoch}; sequence={sequence}"
        headers = MSGPACK | {"Docstore-Producer": number}
        path = f"{link_of(self._target.topic)}/partitions/{partition}/records"
        group = GroupClient([url], timeout_s=self._timeout_s)
        with group.open("POST", url, path, body, headers) as reply:
            answer: Mapping[str, Any] = json.loads(reply.read())
        return answer

    def _compare(self, partition: int, base: int, body: bytes) -> None:
        """Raise RowRefused if an earlier run of the task has appended other records.

        The leader sealed that run's request as one batch, whose records are as they were sent.
        """
        urls = tuple(self._target.urls[partition])
        topic, retries = self._target.topic, self._retries
        asked = Range(topic, partition, base, base + 1, urls, True, retries, self._timeout_s)
        try:
            page = fetch(asked, str(base), bytes_max=1)
        except GroupError as error:
            if error.code != EVICTED:
                raise
            return
        original = next(unframed(page.content))
        header = header_of(original)
        # Compaction may have deleted some of the records.
        if not header.flags & SPARSE and plain_body(header, original) != body:
            raise RowRefused(
                f"docstore: {self._name(partition)}: an earlier run of this task has written other"
                " records: its rows came in another order, so some may be stored twice and some"
                " not at all. Sort the rows, or write from a table that does not change"
            )

    def _name(self, partition: int) -> str:
        return f"partition {partition} of {self._target.topic}"

    def _count(self, name: str, rows: int) -> None:
        with self._counting:
            self._counts[name] += rows
