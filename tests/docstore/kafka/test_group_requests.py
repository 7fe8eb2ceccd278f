"""Groups over Kafka's protocol at one node, request by request; HTTP shows the same."""

from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from kio.schema.errors import ErrorCode

from docstore.kafka.assignments import assignment_of, partitions_in
from docstore.services.group_document import PARTITIONS_MAX
from tests.docstore.http.streams.asking import created
from tests.docstore.kafka.wire import Fields, Wire

JOIN, HEARTBEAT, LEAVE, SYNC, FIND = 11, 12, 13, 14, 10
COMMIT, FETCH, DESCRIBE, LIST, DELETE = 8, 9, 15, 16, 42
S = timedelta(seconds=6)


@pytest.fixture
async def topic(http: aiohttp.ClientSession) -> str:
    """Create a topic with two partitions; return its name, which is also the group's."""
    return (await created(http, partitions=2)).rpartition("/")[2]


class Member:
    """A member of a group."""

    def __init__(self, wire: Wire, group: str, version: int = 5) -> None:
        self.wire, self.group, self.version = wire, group, version
        self.id, self.generation, self.is_leader = "", -1, False

    async def join(self, **more: Any) -> ErrorCode:
        asked = {
            "group_id": self.group, "session_timeout": S, "rebalance_timeout": S,
            "member_id": self.id, "group_instance_id": None, "protocol_type": "consumer",
            "protocols": [Fields(name="range", metadata=b"topics")], "reason": None, **more,
        }  # fmt: skip
        found = await self.wire.ask(JOIN, self.version, **asked)
        self.id, self.generation = found.member_id, found.generation_id
        if found.error_code == ErrorCode.member_id_required:
            return await self.join(**more)
        self.is_leader = found.leader == found.member_id
        return ErrorCode(found.error_code)

    async def sync(self, *partitions: str) -> Any:
        """Assign partitions to this member, which is the leader."""
        return await self.sync_with(
            [Fields(member_id=self.id, assignment=assignment_of(partitions))]
        )

    async def sync_with(self, given: list[Fields]) -> Any:
        return await self.wire.ask(
            SYNC, min(self.version, 5), group_id=self.group, generation_id=self.generation,
            member_id=self.id, group_instance_id=None, protocol_type="consumer",
            protocol_name="range", assignments=given,
        )  # fmt: skip

    async def reads(self, *partitions: str) -> None:
        """Join, and assign partitions to this member."""
        assert await self.join() == ErrorCode.none
        assert not (await self.sync(*partitions)).error_code

    async def beat(self) -> ErrorCode:
        found = await self.wire.ask(
            HEARTBEAT, min(self.version, 4), group_id=self.group, member_id=self.id,
            generation_id=self.generation, group_instance_id=None,
        )  # fmt: skip
        return ErrorCode(found.error_code)

    async def leave(self) -> ErrorCode:
        leaving = [Fields(member_id=self.id, group_instance_id=None, reason=None)]
        found = await self.wire.ask(
            LEAVE, min(self.version, 5), group_id=self.group, member_id=self.id, members=leaving
        )
        return ErrorCode(found.members[0].error_code if self.version >= 3 else found.error_code)

    async def commit(self, place: str, offset: int, metadata: str | None = None) -> ErrorCode:
        return await commit(self.wire, self.group, place, offset, metadata, self)


async def commit(
    wire: Wire,
    group: str,
    place: str,
    offset: int,
    metadata: str | None = None,
    member: Member | None = None,
    version: int = 7,
) -> ErrorCode:
    """Commit one offset; without a member, as a consumer that assigns partitions itself."""
    topic, _, number = place.rpartition("/")
    at = Fields(
        partition_index=int(number), committed_offset=offset, committed_leader_epoch=-1,
        committed_metadata=metadata,
    )  # fmt: skip
    found = await wire.ask(
        COMMIT, version, group_id=group, member_id=member.id if member else "",
        generation_id_or_member_epoch=member.generation if member else -1, group_instance_id=None,
        retention_time=timedelta(0), topics=[Fields(name=topic, partitions=[at])],
    )  # fmt: skip
    return ErrorCode(found.topics[0].partitions[0].error_code)


async def offsets(wire: Wire, group: str, *places: str, version: int = 7) -> dict[str, Any]:
    """Return partition -> its entry in the answer to OffsetFetch; without `places`, of all."""
    asked = [
        Fields(name=each.rpartition("/")[0], partition_indexes=[int(each.rpartition("/")[2])])
        for each in places
    ]
    topics = asked or None
    of_group = Fields(group_id=group, topics=topics)
    found = await wire.ask(
        FETCH, version, group_id=group, topics=topics, groups=[of_group], require_stable=True
    )
    if version >= 8:
        [found] = found.groups
    assert version < 2 or not found.error_code
    return {
        f"{topic.name}/{each.partition_index}": each
        for topic in found.topics
        for each in topic.partitions
    }


async def page(http: aiohttp.ClientSession, group: str, below: str = "") -> Any:
    async with http.get(f"/core/groups/{group}{below}") as answer:
        return await answer.json()


@pytest.mark.parametrize("version", [0, 3, 5, 7, 9])
async def test_a_member_joins_syncs_heartbeats_and_leaves_in_each_form(
    wire: Wire, http: aiohttp.ClientSession, topic: str, version: int
) -> None:
    member = Member(wire, topic, version)
    assert await member.join() == ErrorCode.none
    assert (await page(http, topic))["members"] == [], "nothing is decided yet"
    synced = await member.sync(f"{topic}/0", f"{topic}/1")
    assert partitions_in(synced.assignment) == [(topic, 0), (topic, 1)]
    assert await member.beat() == ErrorCode.none
    shown = await page(http, topic)
    assert (shown["state"], shown["kafka"]) == ("Stable", ["consumer", "range", 6_000, 6_000])
    assert [each["member"] for each in shown["partitionList"]] == [member.id] * 2
    assert shown["live"][member.id]["owned"] == [f"{topic}/0", f"{topic}/1"]
    assert await member.leave() == ErrorCode.none
    assert await member.beat() == ErrorCode.unknown_member_id
    assert (await page(http, topic))["state"] == "Empty"


@pytest.mark.parametrize("version", range(1, 9))
async def test_offsets_are_equal_over_http(
    wire: Wire, http: aiohttp.ClientSession, topic: str, version: int
) -> None:
    places = f"{topic}/0", f"{topic}/1"
    assert await offsets(wire, topic, places[1], version=version) != {}
    assert await commit(wire, topic, places[0], 7, "seven", version=max(2, version)) == 0
    # A group whose topics are added later is updated, and a deletion may meet that update.
    assert len((await page(http, topic))["partitionList"]) == len(places)
    shown = await page(http, topic, f"/offsets/{places[0]}")
    assert (shown["offset"], shown["metadata"]) == (7, "seven")
    found = await offsets(wire, topic, *places, version=version)
    assert [found[each].committed_offset for each in places] == [7, -1]
    assert found[places[0]].metadata == "seven"
    if version >= 2:
        assert list(await offsets(wire, topic, version=version)) == [places[0]]


async def test_offsets_of_a_group_of_docstore_are_read_and_set_by_kafka(
    wire: Wire, http: aiohttp.ClientSession, topic: str
) -> None:
    async with http.post("/core/groups", json={"name": topic, "topics": [topic]}) as answer:
        assert answer.status == 201
    asked = {"kind": "ResetRequest", "to": "beginning"}
    async with http.patch(f"/core/groups/{topic}/offsets", json=asked) as answer:
        assert answer.status == 200
    found = await offsets(wire, topic)
    assert {each.committed_offset for each in found.values()} == {0}
    assert await commit(wire, topic, f"{topic}/0", 3) == ErrorCode.none
    listed = (await page(http, topic, "/offsets"))["offsets"]
    assert [each["offset"] for each in listed] == [3, 0]


async def test_a_member_commits_in_its_generation_forwards_and_backwards(
    wire: Wire, topic: str
) -> None:
    member, place = Member(wire, topic), f"{topic}/0"
    await member.reads(place)
    # KafkaJS commits -2 and -1 for the beginning and the end.
    for offset, metadata in ((-2, ""), (5, "a"), (9, "b"), (9, "c"), (-1, ""), (2, "d")):
        assert await member.commit(place, offset, metadata) == ErrorCode.none
        found = (await offsets(wire, topic, place))[place]
        assert (found.committed_offset, found.metadata) == (max(-1, offset), metadata)
    before = member.generation
    await member.reads(place)
    assert member.generation == before + 1
    member.generation = before
    assert await member.commit(place, 11) == ErrorCode.illegal_generation
    assert await commit(wire, topic, place, 11) == ErrorCode.unknown_member_id
    assert (await offsets(wire, topic, place))[place].committed_offset == 2


async def test_a_group_is_reset_and_deleted_only_without_members(
    wire: Wire, http: aiohttp.ClientSession, topic: str
) -> None:
    member, place = Member(wire, topic), f"{topic}/0"
    await member.reads(place)
    await member.commit(place, 5)
    asked = {"kind": "ResetRequest", "to": "beginning"}
    async with http.patch(f"/core/groups/{topic}/offsets", json=asked) as answer:
        assert (answer.status, (await answer.json())["errorCode"]) == (409, "group-not-empty")
    [deleted] = (await wire.ask(DELETE, 2, groups_names=[topic])).results
    assert deleted.error_code == ErrorCode.non_empty_group
    await member.leave()
    async with http.patch(f"/core/groups/{topic}/offsets", json=asked) as answer:
        assert answer.status == 200
    assert (await offsets(wire, topic, place))[place].committed_offset == 0
    [deleted] = (await wire.ask(DELETE, 2, groups_names=[topic])).results
    assert deleted.error_code == ErrorCode.none
    assert (await page(http, topic))["errorCode"] == "no-such-group"
    assert (await offsets(wire, topic, place))[place].committed_offset == -1
    [deleted] = (await wire.ask(DELETE, 2, groups_names=[topic])).results
    assert deleted.error_code == ErrorCode.group_id_not_found


async def test_groups_are_listed_and_described(
    wire: Wire, http: aiohttp.ClientSession, topic: str
) -> None:
    member = Member(wire, topic)
    await member.reads(f"{topic}/1")
    listed = (await wire.ask(LIST, 4, states_filter=["Stable"])).groups
    assert (topic, "consumer") in [(each.group_id, each.protocol_type) for each in listed]
    empty = (await wire.ask(LIST, 4, states_filter=["Empty"])).groups
    assert topic not in [each.group_id for each in empty]
    described, absent = (
        await wire.ask(DESCRIBE, 5, groups=[topic, "absent"], include_authorized_operations=False)
    ).groups
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert absent.group_state == "Dead"
    [shown] = described.members
    assert (shown.member_id, shown.client_id, shown.member_metadata) == (
        member.id, "wire", b"topics",
    )  # fmt: skip
    assert partitions_in(shown.member_assignment) == [(topic, 1)]


async def test_a_member_of_docstore_and_a_kafka_client_exclude_each_other(
    wire: Wire, http: aiohttp.ClientSession, topic: str
) -> None:
    member = Member(wire, topic)
    await member.reads(f"{topic}/0")
    async with http.post(f"/core/groups/{topic}/members", json={"member": "own"}) as answer:
        assert (answer.status, (await answer.json())["errorCode"]) == (409, "inconsistent-protocol")
    async with http.delete(f"/core/groups/{topic}/members/{member.id}?force=true") as answer:
        assert answer.status == 200
    async with http.post(f"/core/groups/{topic}/members", json={"member": "own"}) as answer:
        assert answer.status == 201
    assert await Member(wire, topic).join() == ErrorCode.inconsistent_group_protocol
    [shown] = (
        await wire.ask(DESCRIBE, 5, groups=[topic], include_authorized_operations=False)
    ).groups
    assert (shown.protocol_type, shown.members[0].member_id) == ("docstore", "own")


@pytest.mark.parametrize("version", range(5))
async def test_the_coordinator_is_found(wire: Wire, port: int, version: int) -> None:
    found = await wire.ask(FIND, version, key="g", key_type=0, coordinator_keys=["g"])
    [found] = found.coordinators if version >= 4 else [found]
    assert (found.error_code, found.host, found.port) == (ErrorCode.none, "127.0.0.1", port)
    if version:
        other = await wire.ask(FIND, version, key="t", key_type=1, coordinator_keys=["t"])
        [other] = other.coordinators if version >= 4 else [other]
        assert other.error_code == ErrorCode.transactional_id_authorization_failed


@pytest.mark.parametrize("name", ["", "a/b", "a%2fb", "x" * 3_000])
async def test_an_invalid_name_of_a_group_is_refused(wire: Wire, name: str) -> None:
    assert await Member(wire, name).join() == ErrorCode.invalid_group_id
    assert await commit(wire, name, "t/0", 1) == ErrorCode.invalid_group_id


async def test_an_invalid_commit_is_refused_by_code(wire: Wire, topic: str) -> None:
    for place, offset, metadata, code in (
        ("absent/0", 1, None, ErrorCode.unknown_topic_or_partition),
        (f"{topic}/2", 1, None, ErrorCode.unknown_topic_or_partition),
        (f"{topic}/0", 1, "x" * 4_097, ErrorCode.offset_metadata_too_large),
    ):
        assert await commit(wire, topic, place, offset, metadata) == code
    at = Fields(partition_index=0, committed_offset=1, committed_leader_epoch=-1,
                committed_metadata=None)  # fmt: skip
    found = await wire.ask(
        COMMIT, 7, group_id=topic, member_id="", generation_id_or_member_epoch=-1,
        group_instance_id=None,
        topics=[Fields(name=topic, partitions=[at] * (PARTITIONS_MAX + 1))],
    )  # fmt: skip
    assert found.topics[0].partitions[0].error_code == ErrorCode.invalid_request


def test_an_assignment_of_another_kind_shows_no_partitions() -> None:
    assert partitions_in(b"") == partitions_in(b"\0\0\x7f\xff\xff\xff") == []
    places = ["t/0", "t/2", "u/1"]
    assert partitions_in(assignment_of(places)) == [("t", 0), ("t", 2), ("u", 1)]
