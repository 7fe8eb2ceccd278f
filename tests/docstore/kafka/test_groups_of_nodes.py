"""Groups of Kafka clients on three nodes: coordinators that move, are killed, or have no port."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from kio.schema.errors import ErrorCode

from docstore.client.local import LocalCluster, LocalNode, claim_ports
from docstore.kafka.assignments import assignment_of, partitions_in
from tests.docstore.http.streams.asking import created
from tests.docstore.kafka.test_group_requests import FIND, Member, commit, offsets, page
from tests.docstore.kafka.wire import Fields, Wire, connected

NOW_S = 30.0


class Nodes:
    """Start three nodes; the last one may have no port for Kafka clients."""

    def __init__(self, claims: ExitStack, with_ports: int) -> None:
        self.cluster = LocalCluster(3)
        self.ports: dict[str, int] = {}
        for node in self.cluster.nodes[:with_ports]:
            port = claims.enter_context(claim_ports()).getsockname()[1] - 1
            self.ports[node.name] = port
            node.flags = (*node.flags, "--kafka-listen", f"127.0.0.1:{port}")

    def group_of(self, node: LocalNode, but: str = "") -> str:
        """Return a name of a group that a node coordinates."""
        names = (f"g{number}" for number in range(1_000) if f"g{number}" != but)
        return next(name for name in names if self.cluster.owner_of(f"/core/groups/{name}") is node)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with ExitStack() as claims:
        made = Nodes(claims, with_ports=2)
        with made.cluster:
            yield made


@pytest.fixture
async def http(nodes: Nodes) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(nodes.cluster.urls[0]) as session:
        yield session


async def coordinator(wire: Wire, group: str) -> int:
    """Return the port of a group's coordinator, 0 if there is none now."""
    found = await wire.ask(FIND, 1, key=group, key_type=0)
    return found.port if not found.error_code else 0


async def test_another_node_sends_members_to_the_coordinator(
    nodes: Nodes, http: aiohttp.ClientSession
) -> None:
    first, second, _ = nodes.cluster.nodes
    group = nodes.group_of(first)
    async with connected(nodes.ports[second.name]) as wire:
        assert await Member(wire, group).join() == ErrorCode.not_coordinator
        assert await commit(wire, group, "t/0", 1) == ErrorCode.not_coordinator
        assert await coordinator(wire, group) == nodes.ports[first.name]
    topic = (await created(http)).rpartition("/")[2]
    async with connected(nodes.ports[first.name]) as wire:
        await Member(wire, group).reads(f"{topic}/0")
    assert (await page(http, group))["state"] == "Stable"


async def test_the_group_of_a_node_without_a_port_is_served_by_the_others(
    nodes: Nodes, http: aiohttp.ClientSession
) -> None:
    topic, place = (await created(http)).rpartition("/")[2], ""
    group, place = nodes.group_of(nodes.cluster.nodes[2]), f"{topic}/0"
    for port in nodes.ports.values():
        async with connected(port) as wire:
            assert await coordinator(wire, group) == port
            member = Member(wire, group)
            await member.reads(place)
            assert await member.beat() == ErrorCode.none
            assert await member.commit(place, 4) == ErrorCode.none
            assert (await offsets(wire, group, place))[place].committed_offset == 4
            assert await member.leave() == ErrorCode.none


@asynccontextmanager
async def at_coordinator(nodes: Nodes, group: str) -> AsyncIterator[Wire]:
    """Connect to the coordinator of a group once it is known."""
    async with asyncio.timeout(NOW_S):
        while True:
            for node in nodes.cluster.nodes:
                if node.process is None:
                    continue
                async with connected(nodes.ports[node.name]) as wire:
                    port = await coordinator(wire, group)
                if port == nodes.ports[node.name]:
                    async with connected(port) as wire:
                        yield wire
                    return


@pytest.mark.thorough
async def test_members_continue_when_the_coordinator_is_killed() -> None:
    with ExitStack() as claims:
        nodes = Nodes(claims, with_ports=3)
        with nodes.cluster as cluster:
            await _kill_the_coordinator(nodes, cluster)


async def _kill_the_coordinator(nodes: Nodes, cluster: LocalCluster) -> None:
    first, second, _ = cluster.nodes
    async with aiohttp.ClientSession(second.url) as http:
        topic = (await created(http, partitions=2, replicationFactor=3)).rpartition("/")[2]
        group, places = nodes.group_of(first), (f"{topic}/0", f"{topic}/1")
        async with (
            connected(nodes.ports[first.name]) as one,
            connected(nodes.ports[first.name]) as other,
        ):
            leader, follower = await _two_members(one, other, group, places)
            assert await leader.commit(places[0], 5) == ErrorCode.none
            generation = leader.generation
        cluster.kill(first)
        async with at_coordinator(nodes, group) as wire:
            leader.wire = follower.wire = wire
            async with asyncio.timeout(NOW_S):
                while (code := await leader.beat()) != ErrorCode.none:
                    assert code == ErrorCode.coordinator_load_in_progress
            assert await follower.beat() == ErrorCode.none, "no member had to join again"
            assert await leader.commit(places[0], 7) == ErrorCode.none
            assert await follower.leave() == ErrorCode.none
            assert await leader.beat() == ErrorCode.rebalance_in_progress
            await leader.reads(*places)
            assert leader.generation > generation
            assert await follower.commit(places[1], 9) == ErrorCode.unknown_member_id
            found = await offsets(wire, group, *places)
            assert [found[each].committed_offset for each in places] == [7, -1]
            shown = (await page(http, group, "/offsets"))["offsets"]
            assert [each["offset"] for each in shown] == [7, -1]
            shared = await asyncio.to_thread(_described, group, second.url)
            assert [each["offset"] for each in shared["offsets"]] == [7, -1]
            assert [each[0] for each in shared["members"]] == [leader.id]


def _described(group: str, url: str) -> Any:
    """Return the description of a group by the command line."""
    command = ("-m", "docstore", "group", "describe", group, "--json", "--url", url)
    return json.loads(subprocess.check_output([sys.executable, *command]))


async def _two_members(
    one: Wire, other: Wire, group: str, places: tuple[str, str]
) -> tuple[Member, Member]:
    """Return the members of a group, each with a partition."""
    members = Member(one, group, 3), Member(other, group, 3)
    codes = await asyncio.gather(*(each.join() for each in members))
    assert codes == [ErrorCode.none] * 2
    assert members[0].generation == members[1].generation
    leader = next(each for each in members if each.is_leader)
    follower = next(each for each in members if not each.is_leader)
    given = [
        Fields(member_id=each.id, assignment=assignment_of([place]))
        for each, place in zip((leader, follower), places, strict=True)
    ]
    synced = await asyncio.gather(leader.sync_with(given), follower.sync_with([]))
    assert [len(partitions_in(each.assignment)) for each in synced] == [1, 1]
    return leader, follower
