"""Topics over HTTP: created, changed, deleted, shown, and moved to another leader."""

import asyncio
from contextlib import AsyncExitStack

import msgpack

from docstore.client import LocalCluster
from tests.docstore.http.problem import problem_of
from tests.docstore.http.streams.asking import (
    MSGPACK,
    Session,
    created,
    partitions,
    posted,
    read,
    values,
)


async def test_a_topic_exists_once_its_creation_is_answered(node: Session, topic: str) -> None:
    async with node.get(topic) as response:
        page = await response.json()
        assert response.headers["ETag"]
    assert page["resolution"] == "provisioned"
    assert [each["partition"] for each in page["partitions"]] == [0, 1]
    assert {len(each["replicas"]) for each in page["partitions"]} == {3}
    async with node.get("/core/streams?expand") as response:
        listed = (await response.json())["documents"]
    assert listed[topic]["partitions"] == 2


async def test_a_used_name_is_409(node: Session, topic: str) -> None:
    name = topic.rpartition("/")[2]
    async with node.post("/core/streams", json={"name": name}) as response:
        assert (await problem_of(response, 409))["outcome"] == "not_applied"


async def test_more_replicas_than_members_wait_for_members(node: Session) -> None:
    asked = {"name": "wide", "replicationFactor": 4}
    async with node.post("/core/streams", json=asked) as response:
        assert response.status == 202, await response.text()
        assert (await response.json())["resolution"] == "insufficient-resources"


async def test_a_patch_changes_retention_and_not_the_name(node: Session, topic: str) -> None:
    async with node.patch(topic, json={"retention": {"ms": 60_000}}) as response:
        assert (await response.json())["retention"]["ms"] == 60_000
        tag = response.headers["ETag"]
    async with node.patch(topic, json={"name": "other"}) as response:
        await problem_of(response, 400)
    async with node.patch(topic, json={"partitions": 1}, headers={"If-Match": tag}) as response:
        await problem_of(response, 409)
    async with node.patch(topic, json={}, headers={"If-Match": '"1.900"'}) as response:
        await problem_of(response, 412)


async def test_a_topic_gets_more_partitions(node: Session, topic: str) -> None:
    async with node.patch(topic, json={"partitions": 3}) as response:
        assert response.status == 200, await response.text()
    async with asyncio.timeout(15):
        while (await partitions(node, topic))[-1].get("leader", "") == "":
            await asyncio.sleep(0.05)
    assert (await posted(node, f"{topic}/partitions/2/records", {"value": 1}))["base"] == 0


async def test_a_recreated_topic_has_no_old_records(node: Session, topic: str) -> None:
    await posted(node, f"{topic}/partitions/0/records", {"value": "old"})
    async with node.delete(topic) as response:
        assert response.status == 200, await response.text()
    async with node.get(topic) as response:
        assert (await problem_of(response, 404))["errorCode"] == "no-such-topic"
    async with asyncio.timeout(15):
        while not await _made_again(node, topic):
            await asyncio.sleep(0.05)
    await posted(node, f"{topic}/partitions/0/records", {"value": "new"})
    assert values(await read(node, f"{topic}/partitions/0")) == ["new"]


async def _made_again(node: Session, topic: str) -> bool:
    asked = {"name": topic.rpartition("/")[2], "partitions": 2}
    async with node.post("/core/streams", json=asked) as response:
        assert response.status in (201, 409), await response.text()
        return response.status == 201


# Pages and commands


async def test_f29_the_figures_of_the_page_agree_with_the_nodes(
    group: LocalCluster, node: Session, topic: str
) -> None:
    path = f"{topic}/partitions/0"
    for number in range(3):
        await posted(node, f"{path}/records", {"value": number})
    async with asyncio.timeout(10):
        while (shown := await partitions(node, topic))[0]["followers"] != [
            each | {"leo": 3, "hw": 3, "lag": 0} for each in shown[0]["followers"]
        ]:
            await asyncio.sleep(0.05)
    page = shown[0]
    assert (page["leo"], page["hw"], page["base"]) == (3, 3, 0)
    followers = {each["id"]: each for each in page["followers"]}
    assert {*followers, page["leader"]} == {"n1", "n2", "n3"}
    assert sorted(node for node, _ in page["lrs"]) == ["n1", "n2", "n3"]
    for each in group.nodes:
        async with Session(each.url) as own:
            found = await read(own, path, Docstore_Consistency="stale")
            assert (found["leo"], found["hw"], found["base"]) == (3, 3, 0), each.name


async def test_leadership_moves_to_the_named_replica(node: Session, topic: str) -> None:
    path = f"{topic}/partitions/0"
    await posted(node, f"{path}/records", {"value": 0})
    before = (await partitions(node, topic))[0]["leader"]
    to = next(name for name in ("n1", "n2", "n3") if name != before)
    async with asyncio.timeout(20):
        while (await partitions(node, topic))[0]["leader"] != to:
            command = {"kind": "MoveLeaderRequest", "to": to}
            async with node.patch(path, json=command) as response:
                if response.status not in (
                    202,
                    503,
                ):  # A replica that is behind is not in sync yet.
                    assert (await response.json())["errorCode"] == "not-in-sync"
            await asyncio.sleep(0.05)
    await posted(node, f"{path}/records", {"value": 1})
    assert values(await read(node, path)) == [0, 1]


async def test_a_node_shows_the_partitions_that_it_leads_and_follows(
    group: LocalCluster, topic: str
) -> None:
    led = followed = 0
    for url in group.urls:
        async with Session(url) as other, asyncio.timeout(10):
            # Topics of other tests may be deleted meanwhile: read both again until they agree.
            while True:
                async with other.get("/core/management") as response:
                    page = (await response.json())["partitions"]
                async with other.get("/metrics") as response:
                    lines = (await response.text()).splitlines()
                if f"docstore_partitions_led {page['led']}" in lines:
                    break
                await asyncio.sleep(0.05)
        led, followed = led + page["led"], followed + page["followed"]
        assert page["held"] >= page["led"]
        assert any(line.startswith("docstore_streams_leads_opened_total ") for line in lines)
    assert led >= 2
    assert followed >= 4


async def test_records_are_deleted_up_to_an_offset_through_any_node(
    node: Session, topic: str, group: LocalCluster
) -> None:
    path = f"{topic}/partitions/0"
    await posted(node, path + "/records", {"records": [{"value": each} for each in range(10)]})
    for url in group.urls:
        before = 3 + group.urls.index(url)
        asked = {"kind": "DeleteRecordsRequest", "before": before}
        async with Session(url) as other, other.patch(path, json=asked) as response:
            assert response.status == 200, await response.text()
            assert (await response.json())["base"] == before
    assert values(await read(node, path, "?from=beginning")) == list(range(5, 10))
    async with node.get(f"{path}/records?from=4") as response:
        assert (await problem_of(response, 410))["next"] == 5


async def test_a_deletion_of_uncommitted_records_is_refused(node: Session, topic: str) -> None:
    path = f"{topic}/partitions/1"
    await posted(node, path + "/records", {"value": 1})
    asked = {"kind": "DeleteRecordsRequest", "before": 2}
    async with node.patch(path, json=asked) as response:
        assert (await problem_of(response, 416))["hw"] == 1
    for before in (-2, "1", 1.0, True, None):
        asked = {"kind": "DeleteRecordsRequest", "before": before}
        async with node.patch(path, json=asked) as response:
            assert (await problem_of(response, 400))["outcome"] == "not_applied"
    assert values(await read(node, path)) == [1]


async def test_a_compacted_topic_keeps_the_newest_record_of_each_key(
    node: Session, group: LocalCluster
) -> None:
    topic = await created(node, cleanup="compact")
    path = f"{topic}/partitions/0"
    for number in range(20):
        record = {"key": f"k{number % 2}", "value": number}
        await posted(node, f"{path}/records", record)
    await posted(node, f"{path}/records", {"key": "end", "value": "end"})
    for url in group.urls:
        async with Session(url) as other, asyncio.timeout(20):
            found = await read(other, path, "?from=beginning", Docstore_Consistency="stale")
            while len(found["records"]) > 3:
                await asyncio.sleep(0.1)
                found = await read(other, path, "?from=beginning", Docstore_Consistency="stale")
            offsets = [record["offset"] for record in found["records"]]
            assert (offsets, found["next"]) == ([18, 19, 20], 21)
    async with node.get(f"{path}/records/3") as response:
        assert (await problem_of(response, 404))["errorCode"] == "no-such-record"


async def test_a_record_without_a_key_is_refused_by_a_compacted_topic(
    node: Session,
) -> None:
    topic = await created(node, cleanup="compact,delete")
    packed = msgpack.packb([b"k", b"1", None, None]) + msgpack.packb([None, b"1", None, None])
    for body in (
        {"json": {"value": 1}},
        {"json": {"records": [{"key": "k", "value": 1}, {"value": 2}]}},
        {"data": packed, "headers": MSGPACK},
    ):
        async with node.post(f"{topic}/records", **body) as response:  # type: ignore[arg-type]
            assert (await problem_of(response, 400))["errorCode"] == "record-needs-a-key"
    assert values(await read(node, f"{topic}/partitions/0")) == []
    async with node.patch(topic, json={"cleanup": "shrink"}) as response:
        await problem_of(response, 400)
    async with node.patch(topic, json={"cleanup": "delete"}) as response:
        assert (await response.json())["cleanup"] == "delete"
    await posted(node, f"{topic}/records", {"value": 1})


async def test_a_node_reads_a_topic_before_it_refuses_a_record_without_a_key(
    group: LocalCluster, node: Session
) -> None:
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(Session(url)) for url in group.urls]
        for _ in range(4):  # A node may learn of the change before its request.
            topic = await created(node, cleanup="compact")
            for each in nodes:
                await posted(each, f"{topic}/records", {"key": "k", "value": 1})
            async with node.patch(topic, json={"cleanup": "delete"}) as response:
                assert response.status == 200
            for number, each in enumerate(nodes):
                query = "" if number % 2 else "?acks=leader"  # Both ways of `fast_path.py`.
                await posted(each, f"{topic}/records{query}", {"value": 1})
