"""Positions in a partition by each library: read, commit, seek, and resume as another member."""

from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPlace

from docstore.client.local import LocalCluster
from tests.docstore.kafka.clients.http import created, posted
from tests.docstore.kafka.clients.tools import KafkaConsumer, TopicPartition

COUNT, HALF, WAIT_MS = 20, 10, 10


@pytest.fixture
def topic(group: LocalCluster) -> str:
    """Create a topic with records in one partition; return its name."""
    name = created(group)
    posted(group, name, [{"value": number} for number in range(COUNT)])
    return name


def test_confluent_kafka_resumes_at_its_committed_offset(topic: str, bootstrap: str) -> None:
    settings = {
        "bootstrap.servers": bootstrap, "group.id": f"of-{topic}", "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "fetch.wait.max.ms": WAIT_MS,
    }  # fmt: skip
    place = confluent_kafka.TopicPartition(topic, 0)
    first = confluent_kafka.Consumer(settings)
    first.assign([place])
    assert [each.offset() for each in first.consume(HALF, 10)] == list(range(HALF))
    first.commit(asynchronous=False)
    [found] = first.committed([place])
    assert found.offset == HALF
    first.seek(confluent_kafka.TopicPartition(topic, 0, 3))
    assert first.poll(10).offset() == 3
    assert first.get_watermark_offsets(place) == (0, COUNT)
    first.close()
    second = confluent_kafka.Consumer(settings)
    second.assign([place])
    assert second.poll(10).offset() == HALF
    second.close()


async def test_aiokafka_resumes_at_its_committed_offset(topic: str, bootstrap: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap, "group_id": f"of-{topic}", "enable_auto_commit": False,
        "auto_offset_reset": "earliest", "fetch_max_wait_ms": WAIT_MS,
    }  # fmt: skip
    place = AioPlace(topic, 0)
    async with AIOKafkaConsumer(**settings) as first:
        first.assign([place])
        assert [(await first.getone()).offset for _ in range(HALF)] == list(range(HALF))
        await first.commit({place: (HALF, "half")})
        assert await first.committed(place) == HALF
        first.seek(place, 3)
        assert (await first.getone()).offset == 3
        assert await first.position(place) == 4
        assert await first.beginning_offsets([place]) == {place: 0}
        assert await first.end_offsets([place]) == {place: COUNT}
    async with AIOKafkaConsumer(**settings) as second:
        second.assign([place])
        assert (await second.getone()).offset == HALF


def test_kafka_python_resumes_at_its_committed_offset(topic: str, bootstrap: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap.split(","), "group_id": f"of-{topic}",
        "enable_auto_commit": False, "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": WAIT_MS, "consumer_timeout_ms": 10_000,
    }  # fmt: skip
    place = TopicPartition(topic, 0)
    first = KafkaConsumer(**settings)
    first.assign([place])
    assert [next(first).offset for _ in range(HALF)] == list(range(HALF))
    first.commit()
    assert first.committed(place) == HALF
    first.seek(place, 3)
    assert next(first).offset == 3
    assert first.position(place) == 4
    assert first.beginning_offsets([place]) == {place: 0}
    assert first.end_offsets([place]) == {place: COUNT}
    first.close()
    second = KafkaConsumer(**settings)
    second.assign([place])
    assert next(second).offset == HALF
    second.close()
