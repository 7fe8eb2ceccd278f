"""Real nodes: they join, leave, and take each other's places, while others write."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from docstore.client.local import LocalNode
from tests.docstore.watching import metrics, page_of, until

GROUP = "/core/node-groups/default"
MEMBER = {"id": "n9", "storeId": "0123456789abcdef" * 2, "address": "http://127.0.0.1:9"}
OF_A_GROUP = (
    "/notes/a", "/notes/a/explain", "/core/factories", "/core/changes", "/core/spark/plan",
    "/core/management/digests", "/core/management/synch?id=n1-1",
    "/core/node-selectors/default", GROUP,
)  # fmt: skip
"""Pages that a node without a group cannot serve."""
SLOTS = 128
"""Fewer than by default, since each is moved by itself: a move takes half of the time."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three nodes that serve."""
    with LocalCluster(3, tmp_path, ("--slots", str(SLOTS))) as group:
        yield group


def configuration(node: LocalNode) -> dict[str, Any]:
    """Return the configuration as a node knows it; empty while it knows none."""
    found: Any = page_of(f"{node.url}{GROUP}").get("configuration", {})
    return dict(found)


def members(node: LocalNode) -> dict[str, str]:
    """Return member -> role, once the group is at rest; empty before."""
    now = configuration(node)
    if now.get("stage") != "stable":
        return {}
    return {each["id"]: each["role"] for each in now["members"]}


class Writers:
    """Clients that each write one document again and again, and note the acknowledged writes."""

    def __init__(self, urls: list[str], count: int = 3) -> None:
        self.acknowledged: dict[str, int] = {}
        self.refused: list[str] = []
        self._stop = asyncio.Event()
        self._tasks = [asyncio.create_task(self._write(urls, n)) for n in range(count)]

    async def _write(self, urls: list[str], number: int) -> None:
        turn = 0
        async with Client(urls) as store:
            while not self._stop.is_set():
                link = f"/notes/{number}-{turn % 40}"
                turn += 1
                try:
                    document = await store.put(link, {"turn": turn})
                except RequestFailed as error:
                    self.refused.append(str(error))
                else:
                    self.acknowledged[link] = document.version

    async def stop(self) -> None:
        """Let the last request finish."""
        self._stop.set()
        await asyncio.gather(*self._tasks)

    async def check(self, urls: list[str]) -> None:
        """Read all acknowledged writes through these nodes."""
        assert len(self.acknowledged) > 30
        async with Client(urls) as store:
            for link, version in self.acknowledged.items():
                assert (await store.get(link)).version >= version


async def declared(cluster: LocalCluster) -> None:
    async with Client(cluster.urls) as store:
        await store.declare("/notes")


async def test_a_node_joins_under_writes_and_holds_its_share(cluster: LocalCluster) -> None:
    await declared(cluster)
    writers = Writers(cluster.urls)
    newcomer = cluster.add()
    await asyncio.to_thread(until, lambda: members(newcomer).get("n4") == "voter", 30.0)
    await asyncio.to_thread(cluster.wait_ready)
    await writers.stop()
    assert writers.refused == []
    await writers.check([newcomer.url])
    held = page_of(f"{newcomer.url}/core/management")["slots"]
    assert held == {"held": SLOTS, "owned": held["owned"], "faulty": 0}  # type: ignore[index]
    # Its disk knows the group: it comes back without asking a member.
    await asyncio.to_thread(cluster.kill, newcomer)
    newcomer.flags = ()
    cluster.start(newcomer)
    await asyncio.to_thread(cluster.wait_ready)
    await writers.check([newcomer.url])


async def test_a_dead_member_is_removed_and_a_new_one_takes_its_place(
    cluster: LocalCluster,
) -> None:
    await declared(cluster)
    writers = Writers([node.url for node in cluster.nodes[:2]])
    lost = cluster.nodes[2]
    await asyncio.to_thread(cluster.kill, lost)
    newcomer = cluster.add("--replaces", "n3")
    wanted = {"n1": "voter", "n2": "voter", "n4": "voter"}
    await asyncio.to_thread(until, lambda: members(newcomer) == wanted, 30.0)
    await writers.stop()
    assert writers.refused == []
    await writers.check([newcomer.url])
    # The replaced member comes back, learns that, and takes no part.
    cluster.start(lost)
    await asyncio.to_thread(until, lambda: "n3" not in members(lost) and members(lost), 15.0)

    def says_so() -> bool:
        ready = page_of(f"{lost.url}/health/ready")
        return ready.get("status") == 503 and "not a member" in str(ready["detail"])

    await asyncio.to_thread(until, says_so)
    await asyncio.to_thread(cluster.kill, cluster.nodes[0])
    await writers.check([newcomer.url])


@pytest.mark.thorough
async def test_a_new_disk_takes_the_place_of_the_lost_one(cluster: LocalCluster) -> None:
    await declared(cluster)
    writers = Writers(cluster.urls[1:])
    wiped = cluster.nodes[0]
    await asyncio.to_thread(cluster.kill, wiped)
    shutil.rmtree(wiped.data)
    cluster.start(wiped)
    await asyncio.to_thread(
        until,
        lambda: "unknown disk" in str(page_of(f"{wiped.url}/health/ready").get("detail")),
        15.0,
    )
    me = page_of(f"{wiped.url}/core/management")
    request = {
        "kind": "ReplaceMemberRequest",
        "id": "n1",
        "member": {"id": "n1", "storeId": me["storeId"], "address": wiped.url},
    }
    async with Client(cluster.urls[1:]) as store:
        await store.json("PATCH", GROUP, request)
    await asyncio.to_thread(until, lambda: members(wiped).get("n1") == "voter", 30.0)
    await asyncio.to_thread(cluster.wait_ready)
    await writers.stop()
    assert writers.refused == []
    await writers.check([wiped.url])
    # It counts: with another one gone there is still a majority.
    await asyncio.to_thread(cluster.kill, cluster.nodes[2])
    await writers.check([wiped.url])


async def test_a_group_shrinks_and_an_observer_only_takes_requests(cluster: LocalCluster) -> None:
    await declared(cluster)
    observer = cluster.add("--observer")
    await asyncio.to_thread(until, lambda: members(observer).get("n4") == "observer", 30.0)
    await asyncio.to_thread(cluster.wait_ready)
    assert page_of(f"{observer.url}/core/management")["slots"] == {
        "held": 0,
        "owned": 0,
        "faulty": 0,
    }
    async with Client([observer.url]) as store:
        assert (await store.put("/notes/through-it", {"a": 1})).version == 0
        # Three hold documents: to go below needs force, and majorities are counted without it.
        with pytest.raises(RequestFailed, match="fewer than 3 need force") as refused:
            await store.json("PATCH", GROUP, {"kind": "RemoveMemberRequest", "id": "n3"})
        assert refused.value.code == "too-few-members"
        with pytest.raises(RequestFailed, match="400 `id` must be the id of the leaving member"):
            await store.json("PATCH", GROUP, {"kind": "RemoveMemberRequest"})
        forced = {"kind": "RemoveMemberRequest", "id": "n3", "force": True}
        await store.json("PATCH", GROUP, forced)
        await asyncio.to_thread(until, lambda: sorted(members(observer)) == ["n1", "n2", "n4"])
        assert (await store.get("/notes/through-it")).value["a"] == 1
        assert configuration(observer)["quorum"] == 2


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"kind": "RemoveMemberRequest", "id": "n7"}, 404),
        ({"kind": "RemoveMemberRequest", "id": "n1"}, 409),
        ({"kind": "RemoveMemberRequest", "id": 7}, 400),
        ({"kind": "CancelChangeRequest"}, 409),
        ({"kind": "AddMemberRequest"}, 400),
        ({"kind": "AddMemberRequest", "member": MEMBER | {"address": "ftp://x"}}, 400),
        ({"kind": "AddMemberRequest", "member": MEMBER | {"address": "http://0.0.0.0:9"}}, 400),
        ({"kind": "AddMemberRequest", "member": MEMBER | {"id": "n!"}}, 400),
        ({"kind": "AddMemberRequest", "member": MEMBER | {"id": "n1"}}, 409),
        ({"kind": "ReplaceMemberRequest", "id": "n8", "member": MEMBER}, 404),
        ({"kind": "JoinPeerRequest"}, 400),
        ({"kind": "JoinPeerRequest", "memberGroupReference": "http://nowhere"}, 400),
        ({"kind": "JoinPeerRequest", "memberGroupReference": "http://a b:1/?x"}, 400),
        ({"kind": "JoinPeerRequest", "memberGroupReference": "http://127.0.0.1:9"}, 409),
        ({"kind": "JoinPeerRequest", "memberGroupReference": "http://u:p@127.0.0.1:9"}, 400),
    ],
)
async def test_changes_that_make_no_sense_are_refused(
    cluster_once: LocalCluster, asked: dict[str, Any], status: int
) -> None:
    async with Client(cluster_once.urls[:1]) as store:
        with pytest.raises(RequestFailed) as refused:
            await store.json("PATCH", GROUP, asked)
    assert refused.value.status == status


WRONG_MEMBERS: list[tuple[dict[str, Any], str]] = [
    ({"storeId": "short"}, "member.storeId"),
    ({"storeId": "0123456789ABCDEF" * 2}, "member.storeId"),
    ({"storeId": "0123456789abcdef" * 2 + "0"}, "member.storeId"),
    ({"storeId": None}, "member.storeId"),
    ({"colour": "red"}, "member.colour"),
    ({"votes": True}, "member.votes"),
    ({"zone": "z" * 129}, "member.zone"),
    ({"zone": "a\nb"}, "member.zone"),
    ({"zone": 7}, "member.zone"),
    ({"observer": "yes"}, "member.observer"),
    ({"id": ""}, "member.id"),
    ({"id": "n" * 65}, "member.id"),
    ({"address": "http://127.0.0.1:0"}, "member.address"),
    ({"address": f"http://{'h' * 254}:80"}, "member.address"),
    ({"address": "http://a\x01b:80"}, "member.address"),
    ({"address": "127.0.0.1:9"}, "member.address"),
    ({"address": "http://127.0.0.1:9/path"}, "member.address"),
]


async def test_a_member_is_understood_to_the_last_before_a_change_is_begun(
    cluster_once: LocalCluster,
) -> None:
    before = configuration(cluster_once.nodes[0])
    async with Client(cluster_once.urls[:1]) as store:
        for wrong, named in WRONG_MEMBERS:
            for request in (
                {"kind": "AddMemberRequest"},
                {"kind": "ReplaceMemberRequest", "id": "n3"},
            ):
                asked = request | {"member": MEMBER | wrong}
                with pytest.raises(RequestFailed) as refused:
                    await store.json("PATCH", GROUP, asked)
                assert (refused.value.status, refused.value.code) == (400, "malformed"), wrong
                assert named in str(refused.value), wrong
    assert configuration(cluster_once.nodes[0]) == before


def test_a_group_that_names_no_zones_is_not_warned_of_them(cluster_once: LocalCluster) -> None:
    page = page_of(f"{cluster_once.nodes[0].url}{GROUP}")
    assert page["kind"] == "NodeGroupState"
    assert "warnings" not in page


@pytest.fixture(scope="module")
def cluster_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes for tests that change nothing."""
    with LocalCluster(3, tmp_path_factory.mktemp("once")) as group:
        yield group


async def test_one_change_at_a_time_and_it_can_be_undone(cluster: LocalCluster) -> None:
    async with Client(cluster.urls) as store:
        # A member that never comes: the change waits for it, for ever.
        await store.json("PATCH", GROUP, {"kind": "AddMemberRequest", "member": MEMBER})
        for url in cluster.urls:  # Every node finds the leader.
            async with Client([url]) as one:
                with pytest.raises(RequestFailed, match="one change at a time") as second:
                    await one.json("PATCH", GROUP, {"kind": "AddMemberRequest", "member": MEMBER})
            assert (second.value.status, second.value.code) == (409, "change-in-flight")
        now = configuration(cluster.nodes[0])
        assert (now["stage"], now["change"]["members"]) == ("learning", ["n1", "n2", "n3", "n9"])
        await store.json("PATCH", GROUP, {"kind": "CancelChangeRequest"})
        await asyncio.to_thread(
            until, lambda: sorted(members(cluster.nodes[0])) == ["n1", "n2", "n3"]
        )
        await store.declare("/notes")
        assert (await store.put("/notes/a", {"a": 1})).version == 0


@pytest.mark.thorough
async def test_a_standby_node_joins_when_an_operator_adds_it(cluster: LocalCluster) -> None:
    waiting = cluster.prepare()
    waiting.flags = ("--standby",)
    cluster.start(waiting)
    await asyncio.to_thread(
        until, lambda: "waiting" in str(page_of(f"{waiting.url}/health/ready").get("detail")), 15.0
    )
    refused = {path: page_of(waiting.url + path).get("status") for path in OF_A_GROUP}
    assert refused == dict.fromkeys(OF_A_GROUP, 503)
    assert "waiting" in page_of(f"{waiting.url}/core/management")["reason"]
    assert metrics(waiting)["process_open_fds"] > 0
    async with Client([waiting.url]) as store:
        url = cluster.nodes[0].url
        await store.json("PATCH", GROUP, {"kind": "JoinPeerRequest", "memberGroupReference": url})
    await asyncio.to_thread(until, lambda: members(waiting).get("n4") == "voter", 30.0)


@pytest.mark.thorough
@pytest.mark.parametrize("lives", [1, 2])
async def test_a_disk_put_back_from_an_older_copy_ends_the_node(
    cluster: LocalCluster, tmp_path: Path, lives: int
) -> None:
    node = cluster.nodes[0]
    await asyncio.to_thread(cluster.kill, node)
    shutil.copytree(node.data, tmp_path / "backup")
    for _ in range(lives):
        cluster.start(node)
        await asyncio.to_thread(cluster.wait_ready)
        await asyncio.to_thread(cluster.kill, node)
    shutil.rmtree(node.data)
    shutil.copytree(tmp_path / "backup", node.data)
    cluster.start(node)
    assert node.process is not None
    assert await asyncio.to_thread(node.process.wait, 15) == 74
    assert "an older copy" in (node.data / "log.txt").read_text()
    node.process = None
    cluster.start(node)  # It is not taken for a healthy disk by the next start either.
    assert node.process is not None
    assert await asyncio.to_thread(node.process.wait, 15) == 74
    node.process = None
