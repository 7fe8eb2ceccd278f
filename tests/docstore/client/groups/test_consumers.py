"""Consumer groups on three real nodes: shared partitions, commits, and resumed reads."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator

import pytest

from docstore.client import Client, Differs, LocalCluster, RequestFailed
from docstore.client.consumer import ReadRecord
from docstore.client.groups import ConsumerGroup, PartitionCallback
from docstore.client.membership import GroupEnded
from tests.docstore.client.groups.conftest import until, until_async
from tests.docstore.watching import page_of
from tests.docstore.watching import until as blocking_until

PARTITIONS = 4


@pytest.fixture
async def topic(client: Client, name: str) -> str:
    """Create a topic with four partitions and a hundred records; return its name."""
    await client.json("POST", "/core/streams", {"name": name, "partitions": PARTITIONS})
    await produce(client, name, 0, 100)
    return name


async def produce(client: Client, topic: str, first: int, until: int) -> None:
    async with client.producer(topic) as producer:
        for number in range(first, until):
            await producer.send(f"k{number}", number)


async def read(group: ConsumerGroup, seen: list[int], count: int = 0) -> None:
    """Read until `seen` has `count` records, or for ever."""
    async for record in group:
        seen.append(record.value)
        if len(seen) == count:
            return


async def offsets(client: Client, name: str) -> int:
    page = await client.json("GET", f"/core/groups/{name}/offsets")
    return sum(max(0, each["offset"]) for each in page["offsets"])


async def test_a_process_continues_after_the_records_of_the_one_before(
    client: Client, topic: str
) -> None:
    seen: list[int] = []
    async with client.group(topic, [topic]) as group:
        await read(group, seen, 100)
    assert sorted(seen) == list(range(100))
    assert await offsets(client, topic) == 100
    await produce(client, topic, 100, 120)
    later: list[int] = []
    async with client.group(topic, [topic]) as group:
        await read(group, later, 20)
    assert sorted(later) == list(range(100, 120))


async def test_two_processes_share_the_partitions_without_duplicates(
    client: Client, topic: str
) -> None:
    seen: list[int] = []
    async with client.group(topic, [topic]) as one, client.group(topic, [topic]) as other:
        reading = [asyncio.ensure_future(read(each, seen)) for each in (one, other)]
        await until(lambda: len(set(seen)) == 100)
        await until(lambda: [len(each.partitions) for each in (one, other)] == [2, 2])
        await produce(client, topic, 100, 200)
        await until(lambda: len(set(seen)) == 200)
        for each in reading:
            each.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    assert [number for number, times in Counter(seen).items() if times > 1] == []


async def test_n14_a_commit_with_an_older_token_is_fenced(client: Client, topic: str) -> None:
    seen: list[int] = []
    async with client.group(topic, [topic]) as group:
        await read(group, seen, 100)
    page = await client.json("GET", f"/core/groups/{topic}/offsets")
    old = page["offsets"][0]
    async with client.group(topic, [topic]) as group:
        await until(lambda: len(group.partitions) == PARTITIONS)
        path = f"/core/groups/{topic}/offsets/{topic}/0"
        await until_async(lambda: claimed(client, path, old["token"]))
        stale = {name: old[name] for name in ("topic", "partition", "token")} | {"offset": 7_000}
        with pytest.raises(RequestFailed) as refused:
            await client.json("POST", f"/core/groups/{topic}/offsets", {"offsets": [stale]})
        assert refused.value.status == 409
        assert refused.value.problem["offsets"][0]["code"] == "fenced"
    assert await offsets(client, topic) == 100


async def claimed(client: Client, path: str, token: int) -> bool:
    return bool((await client.json("GET", path))["token"] > token)


async def test_records_since_the_last_commit_are_reread_after_a_crash(
    client: Client, group: LocalCluster, topic: str
) -> None:
    seen: list[int] = []
    lost = Client(group.urls)
    async with lost:
        first = lost.group(topic, [topic], session_s=1.0, commit_s=60.0)
        await first.__aenter__()
        await read(first, seen, 40)
        await first.commit()
        await read(first, seen, 70)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if any(each in repr(task) for each in ("Member", "ConsumerGroup")):
                task.cancel()  # As in a crash, the client sends nothing more.
        again: list[int] = []
        async with client.group(topic, [topic], session_s=1.0) as second:
            await until_async(lambda: read_some(second, again))
    assert set(seen) | set(again) == set(range(100))
    assert len(set(seen) & set(again)) == 31, "those since the commit, and the one in hand"


async def read_some(group: ConsumerGroup, seen: list[int]) -> bool:
    await read(group, seen, 61)
    return True


async def test_an_operator_resets_offsets_only_without_members(client: Client, topic: str) -> None:
    path = f"/core/groups/{topic}/offsets/{topic}/0"
    reset = {"kind": "ResetRequest", "offset": 3}
    async with client.group(topic, [topic]):
        await until_async(lambda: is_member(client, topic))
        with pytest.raises(RequestFailed) as refused:
            await client.json("PATCH", path, reset)
        assert (refused.value.status, refused.value.code) == (409, "group-not-empty")
        with pytest.raises(RequestFailed) as refused:
            await client.json("DELETE", f"/core/groups/{topic}")
        assert refused.value.code == "group-not-empty"
    assert (await client.json("PATCH", path, reset))["offset"] == 3
    await client.json("DELETE", f"/core/groups/{topic}")
    with pytest.raises(RequestFailed) as refused:
        await client.json("GET", path)
    assert refused.value.status == 404


async def is_member(client: Client, name: str) -> bool:
    return bool((await client.json("GET", f"/core/groups/{name}"))["live"])


async def test_a_group_reads_a_recreated_topic_from_its_first_record(
    client: Client, topic: str
) -> None:
    async with client.group(topic, [topic]) as group:
        await read(group, [], 100)
    assert await offsets(client, topic) == 100
    await again(client, topic, 1_000, 1_150)
    seen: list[int] = []
    async with client.group(topic, [topic], since="end") as group:
        async with asyncio.timeout(20):
            await read(group, seen, 150)
    assert sorted(seen) == list(range(1_000, 1_150))
    assert await offsets(client, topic) == 150


@pytest.mark.parametrize("since", ["end", "end-0"])
async def test_a_group_that_started_at_the_end_continues_from_there(
    client: Client, topic: str, since: str
) -> None:
    async with client.group(topic, [topic], since=since):
        await until_async(lambda: has_begun(client, topic))
    assert await offsets(client, topic) == 100
    await produce(client, topic, 100, 150)
    seen: list[int] = []
    async with client.group(topic, [topic], since=since) as group:
        async with asyncio.timeout(20):
            await read(group, seen, 50)
    assert sorted(seen) == list(range(100, 150))


async def has_begun(client: Client, name: str) -> bool:
    page = await client.json("GET", f"/core/groups/{name}/offsets")
    return all(each["offset"] >= 0 for each in page["offsets"])


async def test_a_reading_group_continues_in_a_recreated_topic(client: Client, topic: str) -> None:
    seen: list[int] = []
    async with client.group(topic, [topic]) as group:
        await read(group, seen, 100)
        reading = asyncio.ensure_future(read(group, seen))
        await until(lambda: all(not each.records.qsize() for each in group._readings.values()))
        await again(client, topic, 1_000, 1_150)
        await until(lambda: len(seen) == 250 or reading.done())
        reading.cancel()
        [ended] = await asyncio.gather(reading, return_exceptions=True)
    if isinstance(ended, RequestFailed):  # The reader met the moment without a topic.
        assert ended.code in ("no-such-topic", "no-such-partition")
        async with client.group(topic, [topic]) as group, asyncio.timeout(20):
            await read(group, seen, 250)
    assert sorted(seen[100:]) == list(range(1_000, 1_150))
    assert await offsets(client, topic) == 150


async def test_a_reader_of_a_recreated_topic_gets_topic_recreated(
    client: Client, topic: str
) -> None:
    reading = client.consume(topic, partition=0, since="beginning")
    assert (await anext(reading)).offset == 0
    await again(client, topic, 1_000, 1_150)
    with pytest.raises(RequestFailed) as refused:
        await asyncio.wait_for(rest_of(reading), 20)
    assert (refused.value.status, refused.value.code) == (410, "topic-recreated")


async def rest_of(reading: AsyncGenerator[ReadRecord, None]) -> None:
    async for record in reading:
        assert record.value < 1_000, "a record of the recreated topic"


async def again(client: Client, topic: str, first: int, until: int) -> None:
    """Delete and recreate a topic, and produce into it."""
    await client.json("DELETE", f"/core/streams/{topic}")
    await client.json("POST", "/core/streams", {"name": topic, "partitions": PARTITIONS})
    await produce(client, topic, first, until)


@pytest.mark.parametrize("offset", [-2, 99_999])
async def test_a_reset_beyond_the_end_of_the_partition_is_refused(
    client: Client, topic: str, offset: int
) -> None:
    await client.json("POST", "/core/groups", {"name": topic, "topics": [topic]})
    path = f"/core/groups/{topic}/offsets/{topic}/0"
    with pytest.raises(RequestFailed) as refused:
        await client.json("PATCH", path, {"kind": "ResetRequest", "offset": offset})
    assert refused.value.status == (400 if offset < -1 else 416)
    if offset > 0:
        assert refused.value.code == "offset-out-of-range"
        found = await client.json("GET", f"/core/streams/{topic}/partitions/0")
        assert f"0 to {found['hw']}; got {offset}" in str(refused.value)
    assert await offsets(client, topic) == 0


async def test_a_group_of_an_unknown_topic_is_refused(client: Client) -> None:
    with pytest.raises(RequestFailed) as refused:
        async with client.group("unknown", ["no-such-topic"]):
            raise AssertionError("the block must not run")
    assert refused.value.status == 404


async def test_a_group_with_a_deleted_topic_ends_with_an_error(client: Client, topic: str) -> None:
    """Once, a read to the end waited for the deleted topic for ever."""
    gone = f"{topic}-gone"
    await client.json("POST", "/core/streams", {"name": gone})
    await client.json("POST", "/core/groups", {"name": topic, "topics": [gone, topic]})
    await client.json("DELETE", f"/core/streams/{gone}")
    async with asyncio.timeout(20), client.group(topic, [gone, topic]) as group:
        with pytest.raises(RequestFailed, match=f"there is no topic {gone}"):
            async for _ in group.records(until_end=True):
                pass


async def test_a_group_with_other_settings_is_not_joined(client: Client, topic: str) -> None:
    await client.json("POST", "/core/groups", {"name": topic, "topics": [topic]})
    with pytest.raises(Differs, match=rf"topics is \['{topic}'\], asked for was \['other'\]"):
        await client.group(topic, ["other"]).__aenter__()
    with pytest.raises(Differs, match="sessionMs is 6000, asked for was 500"):
        await client.group(topic, [topic], session_s=0.5).__aenter__()
    assert (await client.json("GET", f"/core/groups/{topic}"))["members"] == []


async def test_leaving_waits_for_the_record_of_another_task_and_commits_it(
    client: Client, topic: str
) -> None:
    has_one, gate = asyncio.Event(), asyncio.Event()

    async def work(group: ConsumerGroup) -> None:
        async for _ in group:
            has_one.set()
            await gate.wait()

    async def part() -> None:
        async with client.group(topic, [topic]) as group:
            working.append(asyncio.create_task(work(group)))
            await has_one.wait()

    working: list[asyncio.Task[None]] = []
    parting = asyncio.create_task(part())
    await asyncio.wait_for(has_one.wait(), 10.0)
    page = await client.json("GET", f"/core/groups/{topic}")
    assert len(page["live"]) == 1
    assert await offsets(client, topic) == 0
    gate.set()
    await asyncio.wait_for(parting, 10.0)
    assert await offsets(client, topic) == 1
    await asyncio.gather(*working, return_exceptions=True)


@pytest.mark.parametrize("kind", [KeyError, asyncio.CancelledError])
async def test_an_error_in_the_block_leaves_without_a_commit_of_the_record_in_hand(
    client: Client, topic: str, kind: type[BaseException]
) -> None:
    seen: list[int] = []

    async def part() -> None:
        async with asyncio.timeout(10.0), client.group(topic, [topic], session_s=60.0) as group:
            async for record in group:
                seen.append(record.value)
                if len(seen) == 3:
                    raise kind

    with pytest.raises(kind):
        await part()
    assert await offsets(client, topic) == 2
    assert (await client.json("GET", f"/core/groups/{topic}"))["members"] == []


async def test_a_record_that_takes_too_long_goes_to_another_member(
    client: Client, topic: str
) -> None:
    events: list[tuple[str, str, int]] = []

    def tell(event: str) -> PartitionCallback:
        return lambda topic, partition: events.append((event, topic, partition))

    late = client.group(
        topic, [topic], max_poll_s=0.5, on_acquired=tell("acquired"), on_revoked=tell("revoked")
    )
    found: list[ReadRecord] = []

    async def part() -> None:
        async with late:
            async for record in late:
                assert ("acquired", topic, record.partition) in events
                async with asyncio.timeout(20.0), client.group(topic, [topic]) as other:
                    async for again in other:
                        if again.value == record.value:
                            found.append(record)
                            break

    with pytest.raises(GroupEnded, match="longer than max_poll_s"):
        await part()
    assert ("revoked", topic, found[0].partition) in events


async def test_records_read_ahead_under_a_lost_tenure_are_dropped(
    client: Client, group: LocalCluster, topic: str
) -> None:
    """Once, a paused process handed out records that others had processed meanwhile."""
    events: list[tuple[str, int]] = []
    gate = asyncio.Event()

    async def acquired(_: str, partition: int) -> None:
        events.append(("acquired", partition))
        await gate.wait()

    gate.set()
    async with client.group(
        topic, [topic], session_s=1.0, commit_s=60.0, on_acquired=acquired,
        on_fenced=lambda _, partition: events.append(("fenced", partition)),
    ) as member:  # fmt: skip
        seen: set[int] = set()
        records = aiter(member)
        while len(seen) < PARTITIONS:
            seen.add((await anext(records)).partition)
        gate.clear()
        page = f"{group.urls[0]}/core/groups/{topic}"
        blocking_until(
            lambda: page_of(page).get("members") == []
        )  # It blocks the loop, so no heartbeat is sent.
        await until(lambda: len(member.partitions) == PARTITIONS)
        following = asyncio.ensure_future(anext(records))
        await until(lambda: len(events) > PARTITIONS)
        done, _ = await asyncio.wait({following}, timeout=0.1)
        assert not done, "no callback of a new tenure has returned"
        gate.set()
        assert (await following).value in range(100)
        await until(lambda: len(events) == 3 * PARTITIONS)
    again = [each for each in events[PARTITIONS:] if each[0] == "acquired"]
    assert all(events.index(("fenced", each)) < events.index(("acquired", each), PARTITIONS)
               for _, each in again)  # fmt: skip


async def test_a_lapsed_tenure_is_reported_as_fenced(
    client: Client, group: LocalCluster, topic: str
) -> None:
    fenced: list[int] = []
    async with client.group(
        topic, [topic], session_s=1.0, commit_s=0.1,
        on_fenced=lambda _, partition: fenced.append(partition),
    ) as member:  # fmt: skip
        await anext(aiter(member))
        page = f"{group.urls[0]}/core/groups/{topic}"
        blocking_until(lambda: page_of(page).get("members") == [])
        async with client.group(topic, [topic], session_s=1.0) as other:
            await until(lambda: len(set(fenced)) == PARTITIONS)
            await until(lambda: len(other.partitions) == PARTITIONS // 2)
    assert sorted(fenced) == list(range(PARTITIONS))


async def test_an_error_of_a_callback_does_not_end_the_membership(
    client: Client, topic: str
) -> None:
    committed: list[int] = []

    async def revoked(topic: str, partition: int) -> None:
        committed.append(await offsets(client, topic))
        raise KeyError("a mistake of the application")

    seen: list[int] = []
    async with client.group(topic, [topic], on_revoked=revoked) as group:
        await read(group, seen, 10)
    assert committed == [10] * PARTITIONS
    assert await offsets(client, topic) == 10


@pytest.mark.parametrize("given", [{"commit_s": 0.0}, {"max_poll_s": -1.0}])
def test_an_interval_is_above_0(given: dict[str, float]) -> None:
    name, seconds = next(iter(given.items()))
    with pytest.raises(ValueError, match=f"`{name}` must be above 0 seconds; got {seconds}"):
        Client(["http://127.0.0.1:1"]).group("readers", ["clicks"], **given)
