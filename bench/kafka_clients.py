"""Clients of Kafka, unmodified: the producer and the consumer of confluent-kafka, in threads."""

import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

LINGER_MS = 10
POLLED_RECORDS = 200
WAIT_S = 1.0
ANSWER_LIMIT_S = 60.0


@dataclass
class Given:
    """Answers to a producer: number of committed records, and of errors."""

    things: int = 0
    errors: int = 0

    def take(self, error: KafkaError | None, message: Message) -> None:
        """Count the answer to one record."""
        self.things += error is None
        self.errors += error is not None


def produce(servers: str, topic: str, value: bytes, seconds: float) -> tuple[Given, float]:
    """Append records for some seconds, with the order kept and retries recognised.

    Returns what was answered, and how long it took.
    """
    given = Given()
    producer = Producer(
        {
            "bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 1_000_000,
        }
    )  # fmt: skip
    producer.list_topics(topic, timeout=ANSWER_LIMIT_S)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(POLLED_RECORDS):
            try:
                producer.produce(topic, value, on_delivery=given.take)
            except BufferError:
                producer.poll(WAIT_S)
        producer.poll(0)
    given.errors += producer.flush(ANSWER_LIMIT_S)
    return given, time.perf_counter() - began


def consume(servers: str, topic: str, partitions: int, records: int) -> tuple[int, float]:
    """Read `records` records from the beginning; return how many came, and the seconds."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, began = 0, time.perf_counter()
    while found < records and time.perf_counter() - began < ANSWER_LIMIT_S:
        found += sum(each.error() is None for each in consumer.consume(10_000, WAIT_S))
    took_s = time.perf_counter() - began
    consumer.close()
    return found, took_s
