"""A producer: records into a topic, in order for each partition, and each of them once.

    async with client.producer("flights", id="loader") as producer:
        await producer.send("LH100", {"delay": 12})

Each partition has a queue of records, which is sent in batches, one at a time. A batch has a
number, so it is appended once even if it is sent again after a lost answer. A new producer fences
any earlier producer with the same `id`.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import orjson

from docstore.client.errors import ClientError, Closed, RequestFailed, Unanswered
from docstore.client.leaders import Leaders
from docstore.client.requests import Requests
from docstore.streams.records import Record, pack
from docstore.streams.routing import partition_of

JSON = {"Content-Type": "application/json"}
MSGPACK = {"Content-Type": "application/msgpack"}
LINGER_S = 0.005
"""Seconds that a batch waits for more records."""
QUEUED_BYTES_MAX = 32 << 20
"""Bytes of unsent records above which `send` waits."""


class Position(NamedTuple):
    """Partition and offset of a record."""

    partition: int
    offset: int


_Batch = list[tuple[bytes, "asyncio.Future[Position]"]]
"""Packed records, each with the future of its position."""


@dataclass(slots=True)
class _Queue:
    """Records of one partition that are not acknowledged."""

    partition: int
    records: deque[tuple[bytes, "asyncio.Future[Position]"]] = field(default_factory=deque)
    size: int = 0
    sequence: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    sending: "_Batch" = field(default_factory=list)
    """Batches in flight, in one request."""


class Producer:
    """Writes to one topic; made by `Client.producer`, and used with `async with`."""

    def __init__(
        self,
        client: Requests,
        topic: str,
        *,
        id: str = "",  # noqa: A002 - as in `docstore produce --id`
        acks: str = "committed",
        batch: int = 500,
        timeout_s: float = 60.0,
    ) -> None:
        """id: a name that outlives this process; "" for a new one.

        acks: "committed", or "leader" for records that are only on the leader's disk. batch: most
        records sent at once. timeout_s: for how long a batch is retried.
        """
        if batch < 1:
            raise ValueError(f"`batch` must be 1 or more records; got {batch}")
        self._client = client
        self._leaders = Leaders(client, topic)
        self._id = id
        self._epoch = 1
        self._acks = acks
        self._batch = batch
        self._timeout_s = timeout_s
        self._queues: dict[int, _Queue] = {}
        self._turn = 0
        self._queued_bytes = 0
        self._acknowledged = asyncio.Event()
        self._is_flushing = False
        self._failure: ClientError | None = None

    async def __aenter__(self) -> Self:
        """Find the leaders, and get an epoch."""
        await self._leaders.refresh()
        if self._id:
            asked = orjson.dumps({"id": self._id})
            # A repeated request skips an epoch, which does no harm.
            _, _, content = await self._client.request(
                "POST", "/core/producers", asked, JSON, only_reads=True
            )
            self._epoch = int(orjson.loads(content)["epoch"])
        else:
            self._id = uuid.uuid4().hex
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Wait until all records are acknowledged. Raises the error that prevented it.

        A record without an acknowledgement fails, as Unanswered if it was sent.
        """
        try:
            if kind is None:
                await self.flush()
        finally:
            tasks = [each.task for each in self._queues.values() if each.task is not None]
            for task in tasks:
                task.cancel()
            sent = [each for queue in self._queues.values() for each in queue.sending]
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._leaders.close()
            _refuse(sent, Unanswered("the producer was left before the answer came"))
            self._fail(self._failure or Closed("the producer was left before this was sent"))

    async def send(
        self,
        key: str | bytes | None,
        value: Any,
        *,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
    ) -> "asyncio.Future[Position]":
        """Queue a record; return a future of its position, which need not be awaited.

        value: bytes are kept unchanged, None is a tombstone, which deletes its key, and anything
        else is sent as JSON. Without `partition`, records with the same key go to the same
        partition, and records without a key to each partition in turn. Waits while too many bytes
        are queued. Raises the error that kept an earlier record from being appended.
        """
        if not self._leaders.partitions:
            raise RuntimeError("this producer is not open: use it within `async with`")
        while self._queued_bytes > QUEUED_BYTES_MAX and self._failure is None:
            self._acknowledged.clear()
            await self._acknowledged.wait()
        if self._failure is not None:
            raise self._failure
        raw_key = key.encode() if isinstance(key, str) else key
        raw = value if value is None or isinstance(value, bytes) else orjson.dumps(value)
        named = [(name, text.encode()) for name, text in (headers or {}).items()]
        packed = pack(Record(raw_key, raw, named))
        queue = self._queue(self._partition(raw_key) if partition is None else partition)
        future: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        queue.records.append((packed, future))
        queue.size += len(packed)
        self._queued_bytes += len(packed)
        queue.news.set()
        return future

    async def flush(self) -> None:
        """Wait until all records are acknowledged. Raises the error that prevents it."""
        self._is_flushing = True
        try:
            while self._failure is None and any(
                queue.records or queue.sending for queue in self._queues.values()
            ):
                self._acknowledged.clear()
                await self._acknowledged.wait()
        finally:
            self._is_flushing = False
        if self._failure is not None:
            raise self._failure

    def _partition(self, key: bytes | None) -> int:
        if key is not None:
            return partition_of(key, self._leaders.partitions)
        # A whole batch goes to each partition in turn, as many small batches would be slower.
        self._turn += 1
        return self._turn // self._batch % self._leaders.partitions

    def _queue(self, partition: int) -> _Queue:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _Queue(partition)
            queue.task = asyncio.get_running_loop().create_task(self._run(queue))
        return queue

    async def _run(self, queue: _Queue) -> None:
        """Send the batches of a queue one after another."""
        while self._failure is None:
            await queue.news.wait()
            if not self._is_flushing and len(queue.records) < self._batch:
                await asyncio.sleep(LINGER_S)
            batch = queue.sending = self._taken(queue)
            if not queue.records:
                queue.news.clear()
            try:
                await self._send(queue, batch)
            except ClientError as error:
                _refuse(batch, error)
                self._fail(error)
            finally:
                queue.sending = []
                self._acknowledged.set()

    def _taken(self, queue: _Queue) -> _Batch:
        batch: _Batch = []
        size = 0
        while queue.records and len(batch) < self._batch:
            size += len(queue.records[0][0])
            if batch and size > self._leaders.batch_bytes:
                break
            batch.append(queue.records.popleft())
        return batch

    async def _send(self, queue: _Queue, batch: _Batch) -> None:
        body = b"".join([packed for packed, _ in batch])
        try:
            base = await self._append(queue, body)
        except RequestFailed as error:
            if not _is_forgotten(error):
                raise
            # The leader forgot the idle producer. All earlier batches are acknowledged and this one
            # was not appended, so beginning again at 0 cannot append a record twice.
            queue.sequence = 0
            base = await self._append(queue, body)
        queue.sequence += 1
        queue.size -= len(body)
        self._queued_bytes -= len(body)
        for offset, (_, future) in enumerate(batch, base):
            if not future.done():
                future.set_result(Position(queue.partition, offset))

    async def _append(self, queue: _Queue, body: bytes) -> int:
        """Append a batch; return the offset of its first record."""
        number = f"{self._id}; epoch={self._epoch}; sequence={queue.sequence}"
        _, content = await self._leaders.ask(
            "POST", queue.partition, body, MSGPACK | {"Docstore-Producer": number},
            query=f"?acks={self._acks}", timeout_s=self._timeout_s,
        )  # fmt: skip
        return int(orjson.loads(content)["base"])

    def _fail(self, error: ClientError) -> None:
        """Stop sending: no batch may be appended after a missing one."""
        self._failure = error
        for queue in self._queues.values():
            _refuse(queue.records, error)


def _refuse(batch: "Iterable[tuple[bytes, asyncio.Future[Position]]]", error: ClientError) -> None:
    """Fail the futures of records that are not known to be appended."""
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
            future.exception()  # Otherwise the caller gets the error from the next call.


def _is_forgotten(error: RequestFailed) -> bool:
    """Say whether a partition has forgotten the producer, and so has not appended the batch."""
    code = error.problem.get("errorCode")
    return code == "unknown-producer" and error.outcome == "not_applied"


def is_fenced(error: ClientError) -> bool:
    """Say whether a newer producer with the same id has fenced this one."""
    return isinstance(error, RequestFailed) and error.problem.get("errorCode") == "producer-fenced"
