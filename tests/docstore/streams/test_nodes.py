"""Streams on three real nodes that are killed and stopped, as producers and consumers see it.

The tests share the nodes: each leaves all of them running.
"""

import asyncio
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from docstore.client.local import LocalNode
from docstore.client.producer import is_fenced
from tests.docstore.watching import page_of, until


async def create(store: Client, name: str, **members: Any) -> str:
    """Create a topic; return its path."""
    await store.json("POST", "/core/streams", {"name": name, **members})
    return f"/core/streams/{name}"


def docstore(*arguments: str, feed: str = "") -> list[str]:
    """Run a command; return the lines that it printed."""
    ended = subprocess.run(
        [sys.executable, "-m", "docstore", *arguments],
        input=feed, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def partition_at(node: LocalNode, path: str) -> dict[str, Any]:
    """Return the first partition's figures as a node shows them; nothing when it does not."""
    found = page_of(f"{node.url}{path}/partitions").get("partitions", [{}])
    return dict(found[0])


async def leader_of(group: LocalCluster, store: Client, path: str, number: int = 0) -> LocalNode:
    """Return the node that leads a partition, once there is one."""
    async with asyncio.timeout(15):
        while True:
            page = await store.json("GET", f"{path}/partitions")
            leader = page["partitions"][number]["leader"]
            if leader:
                return group.node(leader)
            await asyncio.sleep(0.05)


def is_level(group: LocalCluster, path: str, end: int) -> bool:
    """Say whether the leader and all followers of the first partition are at this end."""
    page = partition_at(group.nodes[0], path)
    followers = page.get("followers", [])
    level = [page.get("leo"), page.get("hw"), *(each["leo"] for each in followers)]
    return len(followers) == 2 and len(page["lrs"]) == 3 and set(level) == {end}


async def consumed(store: Client, topic: str) -> list[Any]:
    """Return all committed records, as (key, value)."""
    return [(each.key, each.value) async for each in store.consume(topic, follow=False)]


async def test_f03_one_replica_commits_at_once(group: LocalCluster, store: Client) -> None:
    path = await create(store, "f03", replicationFactor=1)
    async with store.producer("f03") as producer:
        sent = [await producer.send(None, number) for number in range(2)]
    assert [each.result().offset for each in sent] == [0, 1]
    page = await asyncio.to_thread(partition_at, group.nodes[0], path)
    assert (page["leo"], page["hw"], page["followers"]) == (2, 2, [])


async def test_f17_a_record_is_printed_once_though_its_leader_was_killed(
    group: LocalCluster, store: Client
) -> None:
    path = await create(store, "f17")
    url = ",".join(group.urls)
    await asyncio.to_thread(docstore, "produce", "f17", "--url", url, feed="the only one\n")
    leader = await leader_of(group, store, path)
    await asyncio.to_thread(group.kill, leader)
    lines = await asyncio.to_thread(docstore, "consume", "f17", "--once", "--url", url)
    assert lines == ["the only one"]
    group.start(leader)
    await asyncio.to_thread(group.wait_ready)
    await asyncio.to_thread(until, lambda: is_level(group, path, 1))


async def test_the_client_and_produce_append_tombstones(group: LocalCluster, store: Client) -> None:
    await create(store, "deleted")
    url = ",".join(group.urls)
    async with store.producer("deleted") as producer:
        for value in (1, None):
            await producer.send("a", value)
    for feed, *options in (
        ("null\n",),
        ("b c\n07\n", "--tombstones"),
        ('{"id": "d"}\n', "--tombstones", "--key-field", "id"),
    ):
        produce = ("produce", "deleted", *options, "--url", url)
        await asyncio.to_thread(docstore, *produce, feed=feed)
    lines = await asyncio.to_thread(
        docstore, "consume", "deleted", "--once", "--json", "--url", url
    )
    shown = [json.loads(line) for line in lines]
    deleted = {"tombstone": True}
    assert [
        (each["key"], {name: each[name] for name in ("value", "tombstone") if name in each})
        for each in shown
    ] == [
        ("a", {"value": 1}), ("a", deleted), (None, {"value": None}), ("b c", deleted),
        ("07", deleted), ("d", deleted),
    ]  # fmt: skip


async def test_f18_the_logs_of_followers_are_those_of_their_leaders_to_the_byte(
    group: LocalCluster, store: Client
) -> None:
    path = await create(store, "f18", partitions=10, replicationFactor=2)
    file = "".join(f'{{"flight": "LH{number}"}}\n' for number in range(2_000))
    produce = ("produce", "f18", "--key-field", "flight", "--batch", "20")
    await asyncio.to_thread(docstore, *produce, "--url", ",".join(group.urls), feed=file)
    pages = (await store.json("GET", f"{path}/partitions"))["partitions"]
    assert sum(page["hw"] for page in pages) == 2_000
    for number, page in enumerate(pages):
        log = f"{path}/partitions/{number}/records"
        nodes = {name: group.node(name) for name in page["replicas"]}
        leader = nodes.pop(page["leader"])
        whole = log_hash(leader, log, page["hw"])
        assert whole
        for follower in nodes.values():
            await asyncio.to_thread(until, partial(has_log, follower, log, page["hw"], whole))


def has_log(follower: LocalNode, log: str, end: int, whole: str) -> bool:
    """Say whether a follower has learned that all is committed; its log must be this one then."""
    found = log_hash(follower, log, end)
    assert found in ("", whole)
    return found == whole


def log_hash(node: LocalNode, log: str, end: int) -> str:
    """Return the hash of the batches at a node's own replica, "" if it shows none up to `end`."""
    headers = {
        "Accept": "application/vnd.docstore.batches", "Docstore-Consistency": "stale",
    }  # fmt: skip
    with urlopen(Request(f"{node.url}{log}?maxBytes={8 << 20}", headers=headers)) as answer:
        content, following = answer.read(), int(answer.headers["Docstore-Next"])
    return hashlib.sha256(content).hexdigest() if following == end else ""


async def test_nothing_is_lost_or_twice_while_leaders_are_killed(
    group: LocalCluster, store: Client
) -> None:
    path = await create(store, "once", partitions=3)

    async def kill_leaders() -> None:
        for number in range(2):
            leader = await leader_of(group, store, path, number)
            await asyncio.to_thread(group.kill, leader)
            group.start(leader)
            await asyncio.to_thread(group.wait_ready)

    killing = asyncio.create_task(kill_leaders())
    number = 0
    async with store.producer("once", id="loader", batch=20) as producer:
        while not killing.done() or number < 500:
            sent = await producer.send(f"k{number % 7}", number)
            number += 1
            if number % 20 == 0:
                await sent
    await killing
    found = await consumed(store, "once")
    assert sorted(value for _, value in found) == list(range(number))
    for key in {key for key, _ in found}:
        of_key = [value for each, value in found if each == key]
        assert of_key == sorted(of_key), key


async def test_deleted_records_stay_deleted_when_the_leader_is_killed(
    group: LocalCluster, store: Client
) -> None:
    path = await create(store, "shorter")
    url = ",".join(group.urls)
    lines = "".join(f"{number}\n" for number in range(9))
    await asyncio.to_thread(docstore, "produce", "shorter", "--url", url, feed=lines)
    command = ("partition", "delete-records", "shorter", "0", "--url", url)
    said = await asyncio.to_thread(docstore, *command, "--before", "4")
    assert said == ["shorter/0 begins at 4"]
    leader = await leader_of(group, store, path)
    await asyncio.to_thread(group.kill, leader)
    found = await consumed(store, "shorter")
    assert [value for _, value in found] == list(range(4, 9))
    group.start(leader)
    await asyncio.to_thread(group.wait_ready)
    said = await asyncio.to_thread(docstore, *command, "--all", "--json")
    assert json.loads("".join(said))["base"] == 9
    assert await consumed(store, "shorter") == []


async def test_a_node_that_stops_gives_its_partitions_away_first(
    group: LocalCluster, store: Client
) -> None:
    path = await create(store, "drained")
    leader = await leader_of(group, store, path)
    epoch = (await store.json("POST", "/core/producers", {"id": "drain"}))["epoch"]
    others = [node.url for node in group.nodes if node is not leader]
    assert leader.process is not None
    leader.process.send_signal(signal.SIGTERM)
    number = 0
    async with Client(others) as survivors:
        while leader.process.poll() is None:
            # Each is answered as it is asked, once: nothing is refused, and nothing unknown.
            # Numbered: on a busy machine a node may be replaced before it has given all away.
            headers = {
                "Content-Type": "application/json",
                "Docstore-Producer": f"drain; epoch={epoch}; sequence={number}",
            }
            body = json.dumps({"value": number}).encode()
            answer = await survivors.once(
                others[0], "POST", f"{path}/partitions/0/records", body, headers, timeout_s=20
            )
            assert answer[0] == 200
            number += 1
    assert leader.process.returncode == 0
    leader.process = None
    group.start(leader)
    await asyncio.to_thread(group.wait_ready)
    assert [value for _, value in await consumed(store, "drained")] == list(range(number))


async def test_a_producer_fences_the_earlier_one_with_its_id(store: Client) -> None:
    await create(store, "fenced")

    async def overtaken() -> None:
        async with store.producer("fenced", id="one") as older:
            await (await older.send("a", 1))
            async with store.producer("fenced", id="one") as newer:
                await newer.send("a", 2)
            await older.send("a", 3)

    with pytest.raises(RequestFailed) as failure:
        await overtaken()
    assert is_fenced(failure.value)
    assert await consumed(store, "fenced") == [("a", 1), ("a", 2)]


async def test_a_consumer_reads_later_records_and_may_read_one_partition(store: Client) -> None:
    await create(store, "later", partitions=2)
    async with store.producer("later") as producer:
        await producer.send(b"\xff", b"\xfe", headers={"by": "me"}, partition=1)
        await producer.flush()
        reading = store.consume("later", partition=1)
        first = await anext(reading)
        await producer.send(None, {"n": 1}, partition=1)
        async with asyncio.timeout(10):
            second = await anext(reading)
    assert (first.offset, first.key, first.value) == (0, b"\xff", b"\xfe")
    assert first.headers == {"by": "me"}
    assert (second.offset, second.value) == (1, {"n": 1})


async def test_f25_all_partitions_share_one_connection_for_each_direction(
    group: LocalCluster, store: Client
) -> None:
    path = await create(store, "f25", partitions=6)
    async with store.producer("f25") as producer:
        for number in range(60):
            await producer.send(f"k{number}", number)
    async with asyncio.timeout(10):
        # Two that dial each other at the same moment have one connection too many for a while.
        while await asyncio.to_thread(connections, group.nodes) != [2, 2, 2]:
            await asyncio.sleep(0.05)
    cut = group.nodes[1]
    await asyncio.to_thread(group.kill, cut)
    async with store.producer("f25") as producer:
        for number in range(60, 120):
            await producer.send(f"k{number}", number)
    group.start(cut)
    await asyncio.to_thread(group.wait_ready)

    def all_in_step() -> bool:
        pages = page_of(f"{group.urls[0]}{path}/partitions").get("partitions", [])
        return len(pages) == 6 and all(
            len(page["lrs"]) == 3 and all(each["lag"] == 0 for each in page["followers"])
            for page in pages
        )

    await asyncio.to_thread(until, all_in_step)
    await asyncio.to_thread(until, lambda: connections(group.nodes) == [2, 2, 2])


def connections(nodes: Sequence[LocalNode]) -> list[int]:
    """Return how many connections of other nodes each node holds, by the kernel's count."""
    ports = [int(node.url.rpartition(":")[2]) + 1 for node in nodes]
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    established = [int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "01"]
    return [established.count(port) for port in ports]


@pytest.mark.thorough
async def test_a_partition_whose_live_set_is_up_is_written_while_the_group_has_no_majority(
    group: LocalCluster, store: Client
) -> None:
    path = await create(store, "lasting", replicationFactor=1)
    leader = await leader_of(group, store, path)
    others = [node for node in group.nodes if node is not leader]
    records = f"{path}/partitions/0/records"
    async with Client([leader.url]) as client:
        await client.json("POST", records, {"value": 0})
        for node in others:
            group.kill(node)
        # What a node has read of a topic counts for five seconds. A produce needs no retry after.
        loop = asyncio.get_running_loop()
        count, until_s = 1, loop.time() + 8.0
        try:
            while loop.time() < until_s:
                await client.json("POST", f"{path}/records", {"key": "k", "value": count})
                count += 1
                await asyncio.sleep(0.05)
        finally:
            for node in others:
                group.start(node)
            group.wait_ready()
        page = await client.json("GET", f"{records}?from=beginning", Accept="application/json")
    assert [each["value"] for each in page["records"]] == list(range(count))


@pytest.mark.thorough
async def test_two_of_five_nodes_take_records_of_a_topic_that_neither_ever_read() -> None:
    with LocalCluster(5) as nodes:
        async with Client([nodes.nodes[0].url]) as store:
            path = await create(store, "unread", replicationFactor=2, minInSync=2)
            await leader_of(nodes, store, path)
            replicas = partition_at(nodes.nodes[0], path)["replicas"]
            if "n1" in replicas:  # This node has read the topic.
                others = [node.name for node in nodes.nodes if node.name not in replicas]
                move = {"kind": "MoveRequest", "replicas": others[:2]}
                await store.json("PATCH", f"{path}/partitions/0", move)
                replicas = others[:2]
            until(lambda: in_sync(nodes.nodes[0], path) == sorted(replicas))
            leader = await leader_of(nodes, store, path)
        left = [node for node in nodes.nodes if node.name in replicas]
        for node in nodes.nodes:
            if node not in left:
                nodes.kill(node)
        until(lambda: "majority" in page_of(f"{leader.url}{path}").get("detail", ""))
        records = f"{path}/partitions/0/records"
        for number in range(30):
            async with Client([left[number % 2].url], timeout_s=5) as client:
                await client.json("POST", records, {"value": number})
        for node in left:
            async with Client([node.url]) as client:
                page = await client.json(
                    "GET", f"{records}?from=beginning", Accept="application/json"
                )
            assert [each["value"] for each in page["records"]] == list(range(30))


def in_sync(node: LocalNode, path: str) -> list[str]:
    """Return the live set of the first partition, as a node shows it."""
    return sorted(name for name, _ in partition_at(node, path).get("lrs", []))
