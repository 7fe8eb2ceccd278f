"""Several nodes as brokers: leaders, nodes without a listener, and nodes that stop."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import aiohttp
import pytest
from kio.schema.errors import ErrorCode

from docstore.client.local import LocalCluster, claim_ports
from tests.docstore.http.streams.asking import created
from tests.docstore.kafka.test_records import (
    FETCH,
    LATEST,
    METADATA,
    PRODUCE,
    batch,
    offsets,
    outcomes,
    partitions,
    records,
    sent,
    wanted,
)
from tests.docstore.kafka.wire import NOW_S, Wire, connected, topics

WITHOUT = "n3"
"""The node without a listener."""


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """Yield node id -> port for Kafka clients, for the nodes with one."""
    with ExitStack() as stack:
        claims = [stack.enter_context(claim_ports()) for _ in range(2)]
        yield {f"n{1 + nth}": each.getsockname()[1] - 1 for nth, each in enumerate(claims)}


@pytest.fixture(scope="module")
def group(ports: dict[str, int]) -> Iterator[LocalCluster]:
    cluster = LocalCluster(3)
    for node in cluster.nodes:
        if node.name in ports:
            node.flags += ("--kafka-listen", f"127.0.0.1:{ports[node.name]}")
    with cluster:
        yield cluster


@pytest.fixture
async def wires(group: LocalCluster, ports: dict[str, int]) -> AsyncIterator[dict[str, Wire]]:
    """Yield node id -> a connection to the node."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(connected(port)) for name, port in ports.items()
        }


async def leaders(http: aiohttp.ClientSession, topic: str) -> list[str]:
    async with http.get(f"/core/streams/{topic}") as answer:
        return [each["leader"] for each in (await answer.json())["partitions"]]


async def seen(wire: Wire, topic: str) -> Any:
    """Return the metadata of a topic once its partitions have leaders."""
    async with asyncio.timeout(NOW_S):
        while True:
            found = await wire.ask(METADATA, 1, topics=topics(topic))
            if all(each.error_code == ErrorCode.none for each in found.topics[0].partitions):
                return found


async def test_each_node_names_the_same_brokers_and_replaces_one_without_a_listener(
    http: aiohttp.ClientSession, wires: dict[str, Wire], ports: dict[str, int]
) -> None:
    topic = (await created(http, partitions=3)).rpartition("/")[2]
    found = {name: await seen(wire, topic) for name, wire in wires.items()}
    led = await leaders(http, topic)
    assert sorted(led) == ["n1", "n2", "n3"]
    numbers = {each.port: each.node_id for each in found["n1"].brokers}
    assert numbers == {each.port: each.node_id for each in found["n2"].brokers}
    assert numbers.keys() == set(ports.values())
    for name, page in found.items():
        expected = [numbers[ports[name if leader == WITHOUT else leader]] for leader in led]
        assert [each.leader_id for each in page.topics[0].partitions] == expected


async def test_records_of_a_node_without_a_listener_go_through_another(
    http: aiohttp.ClientSession, wires: dict[str, Wire]
) -> None:
    topic = (await created(http, partitions=3)).rpartition("/")[2]
    await seen(wires["n1"], topic)
    led = await leaders(http, topic)
    here, there = led.index(WITHOUT), led.index("n2")
    asked = sent(topic, *[batch(b"a")] * 3)
    data = asked["topic_data"][0].partition_data
    asked["topic_data"][0].partition_data = [data[here], data[there]]
    async with asyncio.timeout(NOW_S):  # Until n1 knows the leaders, it forwards all records.
        while True:
            found = outcomes(await wires["n1"].ask(PRODUCE, 7, **asked))
            assert found[0][0] == ErrorCode.none
            if found[1][0] == ErrorCode.not_leader_or_follower:
                break
    base = found[0][1]
    waiting = wanted(topic, *[base + 1] * 3, wait_s=60)
    waiting["topics"][0].partitions = [waiting["topics"][0].partitions[here]]
    wires["n2"].send(FETCH, 11, **waiting)
    asked["topic_data"][0].partition_data = [data[here]]
    assert outcomes(await wires["n1"].ask(PRODUCE, 7, **asked)) == [(0, base + 1)]
    [part] = partitions((await wires["n2"].answer(FETCH, 11))[1])
    assert records(part.records) == [(base + 1, b"a")]
    if here == 0:
        assert await offsets(wires["n1"], 4, topic, LATEST) == [(0, -1, base + 2)]


async def test_a_node_reads_a_topic_before_it_refuses_a_record_without_a_key(
    http: aiohttp.ClientSession, wires: dict[str, Wire]
) -> None:
    for _ in range(4):  # A node may learn of the change before its request.
        path = await created(http, partitions=3, cleanup="compact")
        topic = path.rpartition("/")[2]
        await seen(wires["n1"], topic)

        async def is_refused(wire: Wire, topic: str = topic) -> bool:
            found = await wire.ask(PRODUCE, 7, **sent(topic, *[batch(b"a")] * 3))
            return any(code == ErrorCode.invalid_record for code, _ in outcomes(found))

        assert [await is_refused(wire) for wire in wires.values()] == [True, True]
        async with http.patch(path, json={"cleanup": "delete"}) as answer:
            assert answer.status == 200
        assert [await is_refused(wire) for wire in wires.values()] == [False, False]


@pytest.mark.thorough
async def test_a_node_that_stops_answers_and_hands_its_partitions_over(
    http: aiohttp.ClientSession, wires: dict[str, Wire], group: LocalCluster
) -> None:
    topic = (await created(http, partitions=1, replicationFactor=3)).rpartition("/")[2]
    await seen(wires["n1"], topic)
    async with http.patch(
        f"/core/streams/{topic}/partitions/0", json={"kind": "MoveLeaderRequest", "to": "n2"}
    ) as answer:
        assert answer.status == 202
    async with asyncio.timeout(NOW_S):
        while True:
            [(code, base)] = outcomes(await wires["n2"].ask(PRODUCE, 7, **sent(topic, batch(b"a"))))
            if code == ErrorCode.none and (await leaders(http, topic)) == ["n2"]:
                break
    waiting = wanted(topic, base + 1, wait_s=120)
    wires["n2"].send(FETCH, 11, **waiting)
    node = group.node("n2")
    assert node.process is not None
    began = time.monotonic()
    node.process.send_signal(signal.SIGTERM)
    # It answers without records or with an error, or closes the connection; it is never silent.
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        await wires["n2"].frame()
    assert await wires["n2"].is_closed()
    assert await asyncio.to_thread(node.process.wait, 10) == 0
    assert time.monotonic() - began < 10
    node.process = None
    found = outcomes(await wires["n1"].ask(PRODUCE, 7, **sent(topic, batch(b"b"))))
    assert found == [(ErrorCode.none, base + 1)]
    assert "Traceback" not in node.last_words()
    group.start(node)
    await asyncio.to_thread(group.wait_ready)
