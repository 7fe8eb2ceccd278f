"""Partitions while the group changes: replicas go to those that stay, and nothing is lost."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from docstore.client import Client, LocalCluster
from tests.docstore.watching import page_of, until

pytestmark = pytest.mark.thorough
TOPIC = "moved"
PARTITIONS = 6


@pytest.fixture
def group() -> Iterator[LocalCluster]:
    with LocalCluster(3, settings=("--slots", "64")) as nodes:
        yield nodes


def partitions(url: str) -> list[dict[str, Any]]:
    return list(page_of(f"{url}/core/streams/{TOPIC}/partitions").get("partitions", []))


def configuration(url: str) -> dict[str, Any]:
    page = page_of(f"{url}/core/node-groups/default")
    found = page.get("configuration", {"stage": "", "members": []})
    return {"stage": found["stage"], "ids": {each["id"] for each in found["members"]}}


async def test_a_member_is_replaced_under_load_and_its_replicas_are_somewhere_else(
    group: LocalCluster, store: Client
) -> None:
    await store.json(
        "POST", "/core/streams", {"name": TOPIC, "partitions": PARTITIONS, "minInSync": 2}
    )
    sent: list[int] = []
    stop = asyncio.Event()

    async def produce() -> None:
        async with store.producer(TOPIC) as producer:
            while not stop.is_set():
                await (await producer.send(f"k{len(sent) % 20}", len(sent)))
                sent.append(len(sent))

    producing = asyncio.create_task(produce())
    added = group.add()
    await asyncio.to_thread(group.wait_ready)
    leaver, stays = group.nodes[1], group.nodes[0]

    def is_member() -> bool:
        page = configuration(stays.url)
        return added.name in page["ids"] and page["stage"] == "stable"

    await asyncio.to_thread(until, is_member, 60)
    await store.json(
        "PATCH", "/core/node-groups/default", {"kind": "RemoveMemberRequest", "id": leaver.name}
    )

    def is_over() -> bool:
        found = partitions(stays.url)
        return leaver.name not in configuration(stays.url)["ids"] and all(
            leaver.name not in each["replicas"]
            and len(each["replicas"]) == len(each["lrs"]) == 3
            and each["leader"]
            for each in found
        )

    await asyncio.to_thread(until, is_over, 60)
    stop.set()
    await asyncio.wait_for(producing, 30)
    group.kill(leaver)
    read = [each.value async for each in store.consume(TOPIC, follow=False)]
    assert sorted(read) == sent
    assert len(sent) > 100
