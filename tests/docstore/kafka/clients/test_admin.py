"""Administration by each library: topics, settings, deleted records, groups."""

from typing import Any

import confluent_kafka
import pytest
from aiokafka import TopicPartition as AioPlace
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from confluent_kafka import admin as confluent

from docstore.client.local import LocalCluster
from tests.docstore.kafka.clients.http import created, posted, read
from tests.docstore.kafka.clients.tools import (
    KafkaAdminClient,
    KafkaConsumer,
    TopicPartition,
    kafka_python,
)
from tests.docstore.watching import page_of, until

KEPT_MS = "3600000"


def stored(group: LocalCluster, topic: str) -> dict[str, Any]:
    """Return the document of a topic."""
    return page_of(f"{group.urls[0]}/core/streams/{topic}")


def is_gone(group: LocalCluster, topic: str) -> bool:
    return stored(group, topic)["statusCode"] == 404


def with_records(group: LocalCluster) -> str:
    """Create a topic of one partition with ten records; return its name."""
    topic = created(group)
    posted(group, topic, [{"value": number} for number in range(10)])
    return topic


def test_confluent_kafka_administers_topics(group: LocalCluster, bootstrap: str) -> None:
    client, topic = confluent.AdminClient({"bootstrap.servers": bootstrap}), "by-confluent"
    new = confluent.NewTopic(topic, 2, 3, config={"retention.ms": KEPT_MS})
    client.create_topics([new])[topic].result(10)
    assert stored(group, topic)["retention"]["ms"] == int(KEPT_MS)
    client.create_partitions([confluent.NewPartitions(topic, 5)])[topic].result(10)
    until(lambda: len(client.list_topics(topic).topics[topic].partitions) == 5)
    its = confluent.ConfigResource(confluent.ConfigResource.Type.TOPIC, topic)
    its.add_incremental_config(
        confluent.ConfigEntry(
            "min.insync.replicas", "1", incremental_operation=confluent.AlterConfigOpType.SET
        )
    )
    client.incremental_alter_configs([its])[its].result(10)
    shown = client.describe_configs([its])[its].result(10)
    assert (shown["min.insync.replicas"].value, shown["retention.ms"].value) == ("1", KEPT_MS)
    assert stored(group, topic)["minInSync"] == 1
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
        client.create_topics([new])[topic].result(10)
    client.delete_topics([topic])[topic].result(10)
    until(lambda: is_gone(group, topic))


def test_confluent_kafka_administers_records_and_groups(
    group: LocalCluster, bootstrap: str
) -> None:
    client, topic = confluent.AdminClient({"bootstrap.servers": bootstrap}), with_records(group)
    before = confluent_kafka.TopicPartition(topic, 0, 4)
    [deleted] = client.delete_records([before]).values()
    assert deleted.result(10).low_watermark == 4
    assert read(group, topic, since=4)[0].offset == 4
    name = f"of-{topic}"
    wanted = confluent_kafka.ConsumerGroupTopicPartitions(name, [before])
    [altered] = client.alter_consumer_group_offsets([wanted]).values()
    assert altered.result(10).topic_partitions[0].error is None
    asked = confluent_kafka.ConsumerGroupTopicPartitions(name)
    [found] = client.list_consumer_group_offsets([asked]).values()
    assert [(each.topic, each.offset) for each in found.result(10).topic_partitions] == [(topic, 4)]
    listed = client.list_consumer_groups().result(10)
    assert name in [each.group_id for each in listed.valid]
    [described] = client.describe_consumer_groups([name]).values()
    assert described.result(10).members == []
    client.delete_consumer_groups([name])[name].result(10)
    listed = client.list_consumer_groups().result(10)
    assert name not in [each.group_id for each in listed.valid]


async def test_aiokafka_administers_topics(group: LocalCluster, bootstrap: str) -> None:
    client, topic = AIOKafkaAdminClient(bootstrap_servers=bootstrap), "by-aiokafka"
    await client.start()
    made = await client.create_topics(
        [NewTopic(topic, 2, 3, topic_configs={"retention.ms": KEPT_MS})]
    )
    assert [error for _, error, *_ in made.topic_errors] == [0]
    assert stored(group, topic)["retention"]["ms"] == int(KEPT_MS)
    await client.create_partitions({topic: NewPartitions(5)})
    [described] = await client.describe_topics([topic])
    assert len(described["partitions"]) == 5
    its = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"min.insync.replicas": "1"})
    await client.alter_configs([its])
    [answer] = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    values = {each[0]: each[1] for each in answer.resources[0][4]}
    assert values["min.insync.replicas"] == "1"
    posted(group, topic, [{"value": number} for number in range(10)])
    place = AioPlace(topic, 0)
    assert await client.delete_records({place: RecordsToDelete(before_offset=4)}) == {place: 4}
    assert [each["cluster_id"] for each in [await client.describe_cluster()]] != [""]
    await client.delete_topics([topic])
    until(lambda: is_gone(group, topic))
    await client.close()


def test_kafka_python_administers_topics_and_groups(group: LocalCluster, bootstrap: str) -> None:
    client, topic = KafkaAdminClient(bootstrap_servers=bootstrap.split(",")), "by-kafka-python"
    new = kafka_python.NewTopic(topic, 2, 3, topic_configs={"retention.ms": KEPT_MS})
    client.create_topics([new])
    assert stored(group, topic)["retention"]["ms"] == int(KEPT_MS)
    client.create_partitions({topic: kafka_python.NewPartitions(5)})
    assert len(client.describe_topics([topic])[0]["partitions"]) == 5
    kind = kafka_python.ConfigResourceType.TOPIC
    its = kafka_python.ConfigResource(kind, topic, configs={"min.insync.replicas": "1"})
    client.alter_configs([its])
    assert stored(group, topic)["minInSync"] == 1
    assert "min.insync.replicas" in str(client.describe_configs([its]))
    posted(group, topic, [{"value": number} for number in range(10)])
    place, name = TopicPartition(topic, 0), "of-kafka-python"
    client.delete_records({place: 4})
    assert read(group, topic, since=4)[0].offset == 4
    client.reset_group_offsets(name, {place: kafka_python.OffsetSpec.EARLIEST})
    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), group_id=name)
    assert consumer.committed(place) == 4
    consumer.close()
    assert name in [each["group_id"] for each in client.list_groups()]
    assert client.delete_groups([name]) == {name: "OK"}
    assert name not in [each["group_id"] for each in client.list_groups()]
    client.delete_topics([topic])
    until(lambda: is_gone(group, topic))
    client.close()
