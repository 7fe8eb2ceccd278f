"""Four clients of Kafka, unmodified, under one set of verbs: produce, consume, list, find a time.

Each verb is a session of its own: a process, or an object that is closed at the end.
"""

import asyncio
import contextlib
import itertools
import json
import subprocess
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPlace
from confluent_kafka.admin import AdminClient

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka import admin as kafka_python
    from kafka.errors import CommitFailedError

__all__ = [
    "TOOLS", "Aio", "CommitFailedError", "Confluent", "KafkaAdminClient", "KafkaConsumer",
    "KafkaProducer", "Kcat", "Message", "TopicPartition", "kafka_python",
]  # fmt: skip
PATIENCE_S = 20.0
REQUEST_BYTES_MAX = 1 << 21
"""Bytes that the clients may put into a request: a record of 1 MiB and its head."""
WAIT_MS = 10
"""Milliseconds that a consumer's request waits at the end of a partition."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Message(NamedTuple):
    """One record as a client shows it. ms: 0 for the time of the client's clock."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    ms: int = 0
    offset: int = -1


class Kcat:
    """The program kcat. It cannot set times."""

    sets_time, sends_null_headers = False, True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self, topic: str, messages: Sequence[Message], codec: str, *, is_idempotent: bool
    ) -> None:
        """Append to partition 0; return once all is committed."""
        is_on = "true" if is_idempotent else "false"
        settings = (f"enable.idempotence={is_on}", f"message.max.bytes={REQUEST_BYTES_MAX}")
        words = ("-P", "-t", topic, "-p0", "-K|", "-D;", "-Z", "-z", codec)
        words += ("-X", settings[0], "-X", settings[1])
        for headers, some in itertools.groupby(messages, lambda each: each.headers):
            named = [name if v is None else f"{name}={v.decode()}" for name, v in headers]
            flags = [word for each in named for word in ("-H", each)]
            lines = [
                (each.value or b"") if each.key is None else each.key + b"|" + (each.value or b"")
                for each in some
            ]
            self._run(*words, *flags, fed=b";".join(lines))

    def consume(self, topic: str, since: int = 0) -> list[Message]:
        """Return what partition 0 has from an offset on."""
        form = "%o %T %K %S %h\n%k%s"
        words = ("-C", "-t", topic, "-p0", "-e", "-q", "-o", str(since), "-f", form)
        words += ("-X", f"fetch.wait.max.ms={WAIT_MS}", "-X", "topic.auto.offset.reset=earliest")
        raw = self._run(*words)
        found = []
        while raw:
            line, _, raw = raw.partition(b"\n")
            offset, ms, key_size, size, headers = line.split(b" ", 4)
            parts = []
            for length in map(int, (key_size, size)):
                parts.append(raw[:length] if length >= 0 else None)
                raw = raw[max(0, length) :]
            found.append(Message(parts[0], parts[1], _headers(headers), int(ms), int(offset)))
        return found

    def partitions(self, topic: str) -> int:
        """Return the number of partitions that the client is shown."""
        [found] = json.loads(self._run("-L", "-J", "-t", topic))["topics"]
        return len(found["partitions"])

    def offset_at(self, topic: str, ms: int) -> int:
        """Return the first offset of a time; -1 if all records are older."""
        said = self._run("-Q", "-t", f"{topic}:0:{ms}").decode()
        return int(said.split()[-1])

    def _run(self, *words: str, fed: bytes = b"") -> bytes:
        command = ["kcat", "-b", self._bootstrap, *words]
        ended = subprocess.run(
            command, input=fed, capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout


def _headers(printed: bytes) -> tuple[tuple[str, bytes | None], ...]:
    pairs = (each.partition(b"=") for each in printed.split(b",") if each)
    return tuple((name.decode(), None if v == b"NULL" else v) for name, _, v in pairs)


class Confluent:
    """confluent-kafka, which is librdkafka."""

    sets_time = sends_null_headers = True

    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "message.max.bytes": REQUEST_BYTES_MAX}

    def produce(
        self, topic: str, messages: Sequence[Message], codec: str, *, is_idempotent: bool
    ) -> None:
        """Append to partition 0; return once all is committed."""
        settings = {"compression.codec": codec, "enable.idempotence": is_idempotent}
        producer = confluent_kafka.Producer({**self._settings, **settings})
        failed: list[object] = []
        for each in messages:
            producer.produce(
                topic, each.value, each.key, 0, timestamp=each.ms, headers=list(each.headers),
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )  # fmt: skip
        assert producer.flush(PATIENCE_S) == 0
        assert not failed, failed

    def consume(self, topic: str, since: int = 0) -> list[Message]:
        """Return what partition 0 has from an offset on."""
        consumer = self._consumer()
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, since)])
        found: list[Message] = []
        while True:
            [got] = consumer.consume(1, PATIENCE_S)
            if (error := got.error()) is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                consumer.close()
                return found
            headers, (_, ms) = got.headers() or (), got.timestamp()
            found.append(Message(got.key(), got.value(), tuple(headers), ms, got.offset()))

    def partitions(self, topic: str) -> int:
        """Return the number of partitions that the client is shown."""
        found = AdminClient(self._settings).list_topics(topic, PATIENCE_S)
        return len(found.topics[topic].partitions)

    def offset_at(self, topic: str, ms: int) -> int:
        """Return the first offset of a time; -1 if all records are older."""
        consumer = self._consumer()
        place = confluent_kafka.TopicPartition(topic, 0, ms)
        [found] = consumer.offsets_for_times([place], PATIENCE_S)
        consumer.close()
        return int(found.offset)

    def _consumer(self) -> confluent_kafka.Consumer:
        settings = {"group.id": "none", "enable.auto.commit": False, "enable.partition.eof": True}
        settings |= {"fetch.wait.max.ms": WAIT_MS, "auto.offset.reset": "earliest"}
        return confluent_kafka.Consumer({**self._settings, **settings})


class Aio:
    """aiokafka."""

    sets_time = sends_null_headers = True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self, topic: str, messages: Sequence[Message], codec: str, *, is_idempotent: bool
    ) -> None:
        """Append to partition 0; return once all is committed."""
        asyncio.run(self._produce(topic, messages, codec, is_idempotent=is_idempotent))

    async def _produce(
        self, topic: str, messages: Sequence[Message], codec: str, *, is_idempotent: bool
    ) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, acks="all", max_request_size=REQUEST_BYTES_MAX,
            compression_type=None if codec == "none" else codec, enable_idempotence=is_idempotent,
        ) as producer:  # fmt: skip
            sent = [
                await producer.send(
                    topic, each.value, each.key, 0, each.ms or None, list(each.headers)
                )
                for each in messages
            ]
            await asyncio.wait_for(asyncio.gather(*sent), PATIENCE_S)

    def consume(self, topic: str, since: int = 0) -> list[Message]:
        """Return what partition 0 has from an offset on."""
        return asyncio.run(self._consume(AioPlace(topic, 0), since))

    async def _consume(self, place: AioPlace, since: int) -> list[Message]:
        found: list[Any] = []
        async with self._consumer() as consumer:
            consumer.assign([place])
            consumer.seek(place, since)
            end = (await consumer.end_offsets([place]))[place]
            async with asyncio.timeout(PATIENCE_S):
                while await consumer.position(place) < end:
                    found += (await consumer.getmany(timeout_ms=1000)).get(place, ())
        return [_message(each) for each in found]

    def partitions(self, topic: str) -> int:
        """Return the number of partitions that the client is shown."""
        return asyncio.run(self._partitions(topic))

    async def _partitions(self, topic: str) -> int:
        async with AIOKafkaProducer(bootstrap_servers=self._bootstrap) as producer:
            return len(await producer.partitions_for(topic))

    def offset_at(self, topic: str, ms: int) -> int:
        """Return the first offset of a time; -1 if all records are older."""
        return asyncio.run(self._offset_at(AioPlace(topic, 0), ms))

    async def _offset_at(self, place: AioPlace, ms: int) -> int:
        async with self._consumer() as consumer:
            found = (await consumer.offsets_for_times({place: ms}))[place]
        return -1 if found is None else int(found.offset)

    def _consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, fetch_max_wait_ms=WAIT_MS,
            auto_offset_reset="earliest",
        )  # fmt: skip


class KafkaPython:
    """kafka-python. It rejects null headers."""

    sets_time, sends_null_headers = True, False

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap.split(",")

    def produce(
        self, topic: str, messages: Sequence[Message], codec: str, *, is_idempotent: bool
    ) -> None:
        """Append to partition 0; return once all is committed."""
        with contextlib.closing(
            KafkaProducer(
                bootstrap_servers=self._bootstrap, acks="all", max_request_size=REQUEST_BYTES_MAX,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=is_idempotent,
            )
        ) as producer:  # fmt: skip
            sent = [
                producer.send(topic, each.value, each.key, list(each.headers), 0, each.ms or None)
                for each in messages
            ]
            for each in sent:
                each.get(PATIENCE_S)

    def consume(self, topic: str, since: int = 0) -> list[Message]:
        """Return what partition 0 has from an offset on."""
        place, found = TopicPartition(topic, 0), list[Any]()
        consumer = self._consumer()
        consumer.assign([place])
        consumer.seek(place, since)
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            found += consumer.poll(1000).get(place, ())
        consumer.close()
        return [_message(each) for each in found]

    def partitions(self, topic: str) -> int:
        """Return the number of partitions that the client is shown."""
        consumer = self._consumer()
        found = consumer.partitions_for_topic(topic)
        consumer.close()
        return len(found or ())

    def offset_at(self, topic: str, ms: int) -> int:
        """Return the first offset of a time; -1 if all records are older."""
        place = TopicPartition(topic, 0)
        consumer = self._consumer()
        found = consumer.offsets_for_times({place: ms})[place]
        consumer.close()
        return -1 if found is None else int(found.offset)

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap, fetch_max_wait_ms=WAIT_MS,
            auto_offset_reset="earliest",
        )  # fmt: skip


def _message(found: Any) -> Message:
    """Return a record of aiokafka or kafka-python."""
    headers = tuple((name, value) for name, value in found.headers)
    return Message(found.key, found.value, headers, found.timestamp, found.offset)


Tool = Kcat | Confluent | Aio | KafkaPython
TOOLS: dict[str, type[Tool]] = {
    "kcat": Kcat, "confluent": Confluent, "aiokafka": Aio, "kafka-python": KafkaPython
}  # fmt: skip
