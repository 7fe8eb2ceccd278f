"""Errors that each client reports, and its recovery when a leader is killed."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer

from docstore.client.local import LocalCluster
from tests.docstore.kafka.clients.http import created, deleted_before, posted, read
from tests.docstore.kafka.clients.tools import TOOLS, KafkaProducer, Message
from tests.docstore.kafka.clients.writer import ROUND
from tests.docstore.watching import page_of, start_all, until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
"""aiokafka leaves its connection open when the node refuses its producer."""
MIB = 1 << 20
REFUSED_S = 5.0


def test_an_oversize_record_is_refused_by_each_client(
    group: LocalCluster, bootstrap: str, client: str
) -> None:
    topic, tool = created(group), TOOLS[client](bootstrap)
    with pytest.raises(Exception, match=r"(?i)(too|size).?large"):
        tool.produce(topic, [Message(None, bytes(MIB + 2000))], "none", is_idempotent=False)
    assert read(group, topic) == []


def test_a_read_of_deleted_records_starts_at_the_first_present_one(
    group: LocalCluster, bootstrap: str, client: str
) -> None:
    topic, tool = created(group), TOOLS[client](bootstrap)
    posted(group, topic, [{"value": number} for number in range(10)])
    deleted_before(group, topic, 4)
    assert [each.offset for each in tool.consume(topic)] == list(range(4, 10))


def _confluent(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "t", "log_level": 2}
    confluent_kafka.Producer(settings).init_transactions(REFUSED_S)


def _aiokafka(bootstrap: str) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
        try:
            async with asyncio.timeout(REFUSED_S):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(start())


def _kafka_python(bootstrap: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","), transactional_id="t", max_block_ms=5_000
    )
    try:
        producer.init_transactions()
    finally:
        producer.close()


@pytest.mark.parametrize("begin", [_confluent, _aiokafka, _kafka_python])
def test_transactions_are_refused_at_once(bootstrap: str, begin: Callable[[str], None]) -> None:
    with pytest.raises(Exception, match=r"(?i)Transactional.?Id.?Authorization.?Failed"):
        begin(bootstrap)


@pytest.mark.thorough
def test_each_record_is_stored_once_in_order_when_a_leader_is_killed(
    group: LocalCluster, bootstrap: str, client: str, tmp_path: Path
) -> None:
    topic, rounds_file = created(group), tmp_path / "rounds"
    page = f"{group.urls[0]}/core/streams/{topic}/partitions/0"
    module = "tests.docstore.kafka.clients.writer"
    with rounds_file.open("wb") as rounds, (tmp_path / "log").open("wb") as log:
        words = [sys.executable, "-W", "ignore", "-m", module, client, bootstrap, topic]
        writer = subprocess.Popen(words, stdout=rounds, stderr=log)

    def wait(more: int) -> None:
        wanted = len(rounds_file.read_bytes().split()) + more
        until(lambda: len(rounds_file.read_bytes().split()) >= wanted, 30.0)

    try:
        wait(1)
        group.kill(group.node(page_of(page)["leader"]))
        wait(2)
        start_all(group)
        wait(1)
        writer.send_signal(signal.SIGTERM)
        assert writer.wait(30) == 0
    finally:
        writer.kill()
        writer.wait()
        start_all(group)
    found = [int(each.value or b"") for each in read(group, topic)]
    assert found == list(range(len(rounds_file.read_bytes().split()) * ROUND))
