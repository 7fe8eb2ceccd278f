import aiokafka
import pytest

from tests.kafka.broker import Broker
from tests.kafka.road import Road

TOPIC = "pricing"


@pytest.fixture(scope="module", autouse=True)
def topic(broker: Broker) -> None:
    broker.create_topic(TOPIC, partitions=6)


def member(broker: Broker, name: str) -> aiokafka.AIOKafkaConsumer:
    return aiokafka.AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=broker.bootstrap,
        client_id=name,
        group_id="prices",
        session_timeout_ms=1_200,
        heartbeat_interval_ms=100,
        enable_auto_commit=False,
    )


async def test_consumers_share_partitions_commit_and_learn_of_their_removal(
    broker: Broker,
) -> None:
    host, port = broker.bootstrap.split(":")
    async with Road(host, int(port)) as road:
        broker.advertise(road.port)
        first, second = member(broker, "first"), member(broker, "second")
        await first.start()
        assert len(first.assignment()) == 6
        await first.commit(dict.fromkeys(first.assignment(), 0))

        await second.start()
        assert len(first.assignment()) == len(second.assignment()) == 3
        await second.commit(dict.fromkeys(second.assignment(), 0))
        with pytest.raises(aiokafka.errors.IllegalStateError):
            await first.commit(dict.fromkeys(second.assignment(), 0))
        await first.stop()
        await second.stop()


async def test_each_record_of_a_producer_gets_the_next_offset(broker: Broker) -> None:
    host, port = broker.bootstrap.split(":")
    async with Road(host, int(port)) as road:
        broker.advertise(road.port)
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
        async with producer:
            said = [await producer.send_and_wait(TOPIC, b"", partition=5) for _ in range(3)]
    assert [each.offset for each in said] == [0, 1, 2]
