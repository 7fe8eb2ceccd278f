"""Record batches of clients on a compacted topic: compacted, read, repeated and continued."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import confluent_kafka
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from confluent_kafka import admin

from docstore.client.local import LocalCluster
from tests.docstore.client.test_wrong_clocks import Clocks
from tests.docstore.kafka.clients.http import read
from tests.docstore.kafka.clients.listening import listen
from tests.docstore.kafka.clients.tools import CODECS, PATIENCE_S, TOOLS, Message
from tests.docstore.kafka.test_records import PRODUCE, outcomes, sent
from tests.docstore.kafka.wire import connected
from tests.docstore.watching import page_of, start_all, until

TOPIC = "compacted"
KEYS, TURNS = 20, 10
TWO_DAYS_S = 172_800.0
Written = dict[int, tuple[bytes | None, bytes | None]]
"""Offset -> key and value."""


@pytest.fixture
def nodes() -> Iterator[tuple[LocalCluster, str, Clocks]]:
    """Yield three nodes, their bootstrap servers, and clocks that a test may set."""
    group = LocalCluster(3, settings=("--streams-retention-check-s", "0.2"))
    clocks = Clocks(group)
    with listen(group) as bootstrap, group:
        yield group, bootstrap, clocks


class Writer:
    """An idempotent producer of confluent-kafka, with its own keys."""

    def __init__(self, bootstrap: str, codec: str, written: Written) -> None:
        settings = {"compression.codec": codec, "enable.idempotence": True, "linger.ms": 200}
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **settings})
        self._codec, self._written = codec, written

    def write(self, turn: int, *, deletes: bool = False) -> None:
        """Append a batch with a record of each key, every fourth without a value if `deletes`."""
        for number in range(KEYS):
            value = None if deletes and number % 4 == 0 else b"%d" % turn
            self._produce(f"{self._codec}-{number}", value)
        assert self._producer.flush(PATIENCE_S) == 0

    def end(self, turn: int) -> None:
        """Append a batch with another key, since the newest batch is not compacted."""
        self._produce(f"end-{turn}", b"1")
        assert self._producer.flush(PATIENCE_S) == 0

    def _produce(self, key: str, value: bytes | None) -> None:
        self._producer.produce(TOPIC, value, key.encode(), 0, on_delivery=self._delivered)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        assert error is None, error
        assert message.offset() not in self._written
        self._written[message.offset()] = message.key(), message.value()


def newest(written: Written, *, with_tombstones: bool) -> Written:
    """Return the last record of each key, at its offset."""
    last = {key: offset for offset, (key, _) in sorted(written.items())}
    kept = {offset: written[offset] for offset in last.values()}
    return {offset: each for offset, each in kept.items() if with_tombstones or each[1] is not None}


def contents(found: list[Message]) -> Written:
    return {each.offset: (each.key, each.value) for each in found}


def leader_of(group: LocalCluster) -> str:
    [page] = page_of(f"{group.urls[0]}/core/streams/{TOPIC}/partitions").get("partitions", [{}])
    return str(page.get("leader", ""))


async def repeated(group: LocalCluster, bootstrap: str, sequence: int) -> Any:
    """Send a batch with a sequence number to the leader; return the code and the offset."""
    leader = [node.name for node in group.nodes].index(leader_of(group))
    builder = DefaultRecordBatchBuilder(2, 0, 0, 7, 0, sequence, 1 << 20)
    for number in range(2):
        builder.append(number, time.time_ns() // 1_000_000, b"wire-%d" % number, b"1", [])
    async with connected(int(bootstrap.split(",")[leader].rpartition(":")[2])) as wire:
        [outcome] = outcomes(await wire.ask(PRODUCE, 7, **sent(TOPIC, bytes(builder.build()))))
    return outcome


def create(bootstrap: str) -> None:
    """Create the topic as `compact,delete`, and change it to `compact`."""
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    new = admin.NewTopic(TOPIC, 1, 3, config={"cleanup.policy": "compact,delete"})
    client.create_topics([new])[TOPIC].result(PATIENCE_S)
    its = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, TOPIC)
    assert _cleanup(client, its) == "compact,delete"
    its.add_incremental_config(
        admin.ConfigEntry(
            "cleanup.policy", "compact", incremental_operation=admin.AlterConfigOpType.SET
        )
    )
    client.incremental_alter_configs([its])[its].result(PATIENCE_S)
    assert _cleanup(client, its) == "compact"


def _cleanup(client: admin.AdminClient, its: admin.ConfigResource) -> str:
    return str(client.describe_configs([its])[its].result(PATIENCE_S)["cleanup.policy"].value)


@pytest.mark.thorough
def test_batches_are_compacted_and_their_producers_continue(
    nodes: tuple[LocalCluster, str, Clocks],
) -> None:
    group, bootstrap, clocks = nodes
    create(bootstrap)
    written: Written = {}
    writers = [Writer(bootstrap, codec, written) for codec in CODECS]

    def holds(expected: Written) -> bool:
        return contents(read(group, TOPIC)) == expected

    bases = [asyncio.run(repeated(group, bootstrap, sequence)) for sequence in (0, 2)]
    for code, base in bases:
        assert code == 0
        written |= {base + number: (b"wire-%d" % number, b"1") for number in range(2)}
    for turn in range(TURNS):
        for writer in writers:
            writer.write(turn, deletes=turn == TURNS - 1)
    writers[0].end(TURNS - 1)
    until(partial(holds, newest(written, with_tombstones=True)), 30)
    assert sorted(written) == list(range(len(written)))
    assert TOOLS["confluent"](bootstrap).consume(TOPIC) == read(group, TOPIC)

    for node in group.nodes:  # The new leaders read producer state from the compacted logs.
        group.kill(node)
    start_all(group)
    until(lambda: leader_of(group))
    assert [asyncio.run(repeated(group, bootstrap, sequence)) for sequence in (0, 2)] == bases
    for writer in writers:
        writer.write(TURNS, deletes=True)
    writers[0].end(TURNS)
    until(partial(holds, newest(written, with_tombstones=True)), 30)
    assert len(written) == 6 + KEYS * (TURNS + 1) * len(CODECS)
    assert sorted(written) == list(range(len(written)))
    assert TOOLS["confluent"](bootstrap).consume(TOPIC) == read(group, TOPIC)

    asyncio.run(clocks.jump([TWO_DAYS_S] * 3))
    until(partial(holds, newest(written, with_tombstones=False)), 30)
    assert TOOLS["confluent"](bootstrap).consume(TOPIC) == read(group, TOPIC)
