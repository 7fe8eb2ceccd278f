"""Produce and InitProducerId: a RecordBatch of each partition goes into its log as it came.

    acks=all (-1): answered once committed    acks=1: once stored by the leader    acks=0: never

All batches of a request are checked before the first is submitted, and submitted together. A
producer with an id numbers its records, by which a retry is recognised, also by a later leader.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from docstore.errors import DocstoreError, TooLarge, Unavailable
from docstore.http.backend import Backend
from docstore.http.large_bodies import LARGE_BYTES, LargeBodies
from docstore.kafka.brokers import Brokers
from docstore.kafka.configs import AHEAD_MS_MAX, HEAD_BYTES_MAX
from docstore.kafka.dispatch import Api, Call, Later, Result
from docstore.kafka.errors import ErrorCode, code_of, code_of_error
from docstore.kafka.record_batches import (
    BatchRefused,
    ClientBatch,
    NeedsKeys,
    checked,
    is_compressed,
)
from docstore.kafka.schemas import Fields
from docstore.model.streams_batch import KAFKA
from docstore.runtime.streams_backend import StreamBackend, topic_with
from docstore.streams.effects import Problem
from docstore.streams.replica_set import STREAMS, partition_link
from docstore.streams.requests import ProduceRequest
from docstore.streams.topic import Topic
from docstore.wire.streams_messages import Produced

PRODUCE, INIT_PRODUCER_ID = 0, 22
ACKS = {-1: "committed", 0: "leader", 1: "leader"}
TIMEOUT_S_MAX = 60.0

Outcome = Produced | Problem


@dataclass(slots=True)
class _Part:
    """One partition of a request. code: why it is refused."""

    topic: str
    index: int
    raw: bytes
    code: ErrorCode = ErrorCode.none
    detail: str = ""
    batch: ClientBatch | None = None

    def refuse(self, code: ErrorCode, detail: str) -> None:
        self.code, self.detail = code, detail


class ProducePages:
    """Answers the requests of producers."""

    def __init__(self, backend: Backend, brokers: Brokers) -> None:
        self._backend = backend
        self._brokers = brokers
        self._large = LargeBodies()

    def apis(self) -> Sequence[Api]:
        """Return the API keys that these handlers serve, with their versions."""
        return (
            Api(PRODUCE, 3, 9, self.produce),
            Api(INIT_PRODUCER_ID, 0, 4, self.init_producer_id),
        )

    async def init_producer_id(self, call: Call) -> Fields:
        """Answer InitProducerId: an id that no other producer has, under epoch 0."""
        if call.request.transactional_id is not None:
            code = ErrorCode.transactional_id_authorization_failed
            return Fields(error_code=code, producer_id=-1, producer_epoch=-1)
        return Fields(error_code=ErrorCode.none, producer_id=secrets.randbits(63), producer_epoch=0)

    async def produce(self, call: Call) -> Result:
        """Answer Produce once all outcomes are there; return after the batches are submitted.

        Raises Unavailable for a refusal of records without acks: the client is disconnected, since
        it would go on sending them to this node.
        """
        request = call.request
        parts = [
            _Part(topic.name, each.index, each.records or b"")
            for topic in request.topic_data
            for each in topic.partition_data
        ]
        patience_s = min(max(request.timeout, 0.001), TIMEOUT_S_MAX)
        streams = self._backend.inside().stream_backend
        for part in parts:
            await self._check(call, part, streams, patience_s)
        acks = ACKS.get(request.acks, "")
        submitted = [
            streams.produce(
                partition_link(part.topic, part.index), _request(acks, part.batch), patience_s
            )
            for part in parts
            if part.batch is not None and not part.code
        ]
        if request.acks == 0:
            if why := next((part.detail for part in parts if part.code), ""):
                raise Unavailable(f"records without acks are refused: {why}")
            return None
        outcomes: asyncio.Future[list[Outcome]] = asyncio.gather(*submitted)
        return Later(outcomes, lambda found: _answer(parts, found))

    async def _check(
        self, call: Call, part: _Part, streams: StreamBackend, patience_s: float
    ) -> None:
        """Set the reason for which a part is refused, or its batch."""
        if call.request.acks not in ACKS:
            part.refuse(ErrorCode.invalid_required_acks, "acks must be -1, 0 or 1")
        elif call.request.transactional_id is not None:
            code = ErrorCode.transactional_id_authorization_failed
            part.refuse(code, "there are no transactions")
        elif not call.may("POST", f"{STREAMS}/{part.topic}/records"):
            part.refuse(ErrorCode.topic_authorization_failed, f"no grant for {part.topic}")
        elif why := self._brokers.elsewhere(partition_link(part.topic, part.index)):
            part.refuse(ErrorCode.not_leader_or_follower, why)
        else:
            try:
                part.batch = await self._batch(streams, part, patience_s)
            except BatchRefused as error:
                part.refuse(error.code, str(error))
            except DocstoreError as error:
                part.refuse(code_of_error(error), str(error))

    async def _batch(self, streams: StreamBackend, part: _Part, patience_s: float) -> ClientBatch:
        """Return the batch of a part. Raises BatchRefused, DocstoreError."""
        topic = await topic_with(streams, part.topic, part.index, patience_s)
        try:
            return await self._checked(part.raw, topic, patience_s)
        except NeedsKeys:  # The topic may not be compacted any more.
            topic = await streams.topic_or_last(part.topic, part.index, patience_s)
            return await self._checked(part.raw, topic, patience_s)

    async def _checked(self, raw: bytes, topic: Topic, patience_s: float) -> ClientBatch:
        """Return a batch that readers can read. Raises BatchRefused, TooLarge, Unavailable."""
        most = topic.batch_bytes_max + HEAD_BYTES_MAX
        if len(raw) > most:
            raise TooLarge(f"a batch must have at most {most} bytes; got {len(raw)}")
        check = partial(checked, raw, needs_keys=topic.compacts)
        if len(raw) <= LARGE_BYTES and not is_compressed(raw):
            batch = check()
        else:
            batch, _ = await self._large.read(len(raw), patience_s, check)
        if batch.last_ms > time.time_ns() // 1_000_000 + AHEAD_MS_MAX:
            detail = f"the time of a record must be at most {AHEAD_MS_MAX} ms ahead"
            raise BatchRefused(ErrorCode.invalid_timestamp, detail)
        return batch


def _request(acks: str, batch: ClientBatch) -> ProduceRequest:
    producer: tuple[str, int, int] | tuple[()] = ()
    if batch.producer is not None:
        number, epoch, sequence = batch.producer
        producer = f"kafka:{number}", epoch, sequence
    return ProduceRequest(acks, producer, KAFKA, batch.records, batch.raw)


def _answer(parts: Sequence[_Part], outcomes: Sequence[Outcome]) -> Fields:
    """Return the answer: each part with its refusal, or with the next of the outcomes."""
    following = iter(outcomes)
    topics: dict[str, list[Fields]] = {}
    for part in parts:
        base = -1
        if not part.code and part.batch is not None:
            outcome = next(following)
            if isinstance(outcome, Problem):
                part.refuse(code_of(outcome), outcome.detail)
            else:
                base = outcome.base
        # Without the log's start, Java's producers retry the same batch for ever.
        start = 0 if part.code == ErrorCode.unknown_producer_id else -1
        topics.setdefault(part.topic, []).append(
            Fields(
                index=part.index, error_code=part.code, base_offset=base, log_append_time=None,
                log_start_offset=start, record_errors=(), error_message=part.detail or None,
            )
        )  # fmt: skip
    return Fields(
        responses=[Fields(name=name, partition_responses=each) for name, each in topics.items()]
    )
