"""One member of a group, in a process that a test can kill.

    python -m tests.docstore.kafka.clients.member CLIENT BOOTSTRAP TOPIC GROUP

It prints PARTITION OFFSET VALUE of each record, then commits. It ignores a commit that a
rebalance refuses. SIGTERM: it leaves.
"""

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any

import confluent_kafka
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from tests.docstore.kafka.clients.tools import CommitFailedError, KafkaConsumer

SESSION_MS, BEAT_MS = 2_000, 300


class Stopped(Exception):
    """The process got SIGTERM."""


def show(partition: int, offset: int, value: bytes) -> None:
    """Print a record, whole and at once."""
    os.write(1, b"%d %d %s\n" % (partition, offset, value))


def kcat(bootstrap: str, topic: str, group: str) -> None:
    """Become kcat, which commits every 100 ms."""
    settings = {
        "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": BEAT_MS,
        "auto.commit.interval.ms": 100, "auto.offset.reset": "earliest",
    }  # fmt: skip
    words = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    command = ["kcat", "-b", bootstrap, "-G", group, "-u", "-q", "-f", "%p %o %s\n", *words, topic]
    os.execvp("kcat", command)


def confluent(bootstrap: str, topic: str, group: str) -> None:
    """Read with confluent-kafka."""
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": BEAT_MS,
    })  # fmt: skip
    consumer.subscribe([topic])
    try:
        while True:
            found = consumer.poll(1.0)
            if found is not None and found.error() is None:
                show(found.partition(), found.offset(), found.value())
                with contextlib.suppress(confluent_kafka.KafkaException):
                    consumer.commit(found, asynchronous=False)
    finally:
        consumer.close()


def kafka_python(bootstrap: str, topic: str, group: str) -> None:
    """Read with kafka-python."""
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap.split(","), group_id=group, enable_auto_commit=False,
        auto_offset_reset="earliest", session_timeout_ms=SESSION_MS, heartbeat_interval_ms=BEAT_MS,
    )  # fmt: skip
    try:
        while True:
            shown(consumer.poll(1000))
            with contextlib.suppress(CommitFailedError):
                consumer.commit()
    finally:
        consumer.close()


def shown(found: dict[Any, list[Any]]) -> None:
    """Print the records of a poll."""
    for records in found.values():
        for each in records:
            show(each.partition, each.offset, each.value)


async def aiokafka(bootstrap: str, topic: str, group: str) -> None:
    """Read with aiokafka."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False,
        auto_offset_reset="earliest", session_timeout_ms=SESSION_MS, heartbeat_interval_ms=BEAT_MS,
    )  # fmt: skip
    loop, me = asyncio.get_running_loop(), asyncio.current_task()
    assert me is not None
    loop.add_signal_handler(signal.SIGTERM, me.cancel)
    async with consumer:
        while True:
            shown(await consumer.getmany(timeout_ms=1000))
            with contextlib.suppress(KafkaError):
                await consumer.commit()


def _stopped(*_: object) -> None:
    raise Stopped


def main(client: str, *words: str) -> None:
    """Be a member until SIGTERM."""
    if client == "aiokafka":
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(aiokafka(*words))
        return
    signal.signal(signal.SIGTERM, _stopped)
    with contextlib.suppress(Stopped):
        {"kcat": kcat, "confluent": confluent, "kafka-python": kafka_python}[client](*words)


if __name__ == "__main__":
    main(*sys.argv[1:])
