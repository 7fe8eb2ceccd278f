"""Real nodes: founded, killed, wiped, cut off from their majority, on a disk that fails."""

import asyncio
import base64
import json
import shutil
import signal
import sqlite3
import urllib.error
import urllib.request
from pathlib import Path

import aiohttp
import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from docstore.client.local import LocalNode
from tests.docstore.watching import disk_fault, metrics, page_of, resident_bytes, start_all, until

POLL_S = 0.05


@pytest.fixture
def cluster(group: LocalCluster) -> LocalCluster:
    """Return the three nodes once all serve again."""
    start_all(group)
    return group


@pytest.fixture
async def notes(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    """A factory of the test's own."""
    path = "/" + request.node.name.replace("_", "-")
    async with Client(cluster.urls) as store:
        await store.declare(path)
    return path


async def test_a_killed_owner_is_replaced_and_comes_back(cluster: LocalCluster, notes: str) -> None:
    async with Client(cluster.urls) as store:
        links = [f"{notes}/{number}" for number in range(30)]
        for link in links:
            await store.put(link, {"text": link})
        owner = await asyncio.to_thread(cluster.owner_of, links[0])
        await asyncio.to_thread(cluster.kill, owner)
        others = [node for node in cluster.nodes if node is not owner]
        async with Client([node.url for node in others]) as survivors:
            for link in links:
                assert (await survivors.put(link, {"text": "again"})).version == 1
        cluster.start(owner)
        await asyncio.to_thread(cluster.wait_ready)
        async with Client([owner.url]) as returned:
            for link in links:
                document = await returned.get(link)
                assert (document.version, document.value["text"]) == (1, "again")


@pytest.mark.parametrize("damage", ["a row", pytest.param("a bit", marks=pytest.mark.thorough)])
async def test_damage_that_no_client_reads_is_found_and_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setenv("DOCSTORE_REPAIR_INTERVAL_S", "1")
    with LocalCluster(3, tmp_path) as group:
        async with Client(group.urls) as store:
            await store.declare("/notes")
            for number in range(20):
                await store.put(f"/notes/{number}", {"text": "precious"})
        owner = await asyncio.to_thread(group.owner_of, "/notes/7")
        victim = next(node for node in group.nodes if node is not owner)

        def digests() -> object:
            found = page_of(f"{owner.url}/core/management/digests")
            return found.get(victim.name) == found.get(owner.name) is not None

        await asyncio.to_thread(until, digests)
        with sqlite3.connect(victim.data / "docstore.db") as disk:
            if damage == "a bit":
                disk.execute("UPDATE history SET state = 'precioux' WHERE link = '/notes/7'")
            else:
                disk.execute("DELETE FROM current WHERE link = '/notes/7'")
        disk.close()
        found = "corrupt" if damage == "a bit" else "differed"
        asked = victim if damage == "a bit" else owner
        counter = f"docstore_repair_{found}_total"
        await asyncio.to_thread(until, lambda: metrics(asked).get(counter, 0) > 0, 30.0)

        def whole() -> bool:
            with sqlite3.connect(victim.data / "docstore.db") as disk:
                query = "SELECT count(*) FROM history JOIN current USING (link)"
                states = "SELECT count(*) FROM history WHERE state = 'precioux'"
                joined = disk.execute(query + " WHERE link = '/notes/7'").fetchone()[0]
                return bool(joined) and not disk.execute(states).fetchone()[0] and bool(digests())

        await asyncio.to_thread(until, whole, 30.0)


def owned(node: LocalNode) -> dict[str, int]:
    """Return how many slots each node owns, as this one sees it."""
    shares = page_of(f"{node.url}/core/node-selectors/default")["shares"]
    assert isinstance(shares, dict)
    return {name: share["owned"] for name, share in shares.items()}


async def test_more_copies_than_there_are_replicas_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCSTORE_REPLICATION_FACTOR", "2")
    found = {}
    with LocalCluster(3, tmp_path) as group:
        async with aiohttp.ClientSession(group.urls[0]) as session:
            for wanted in ("1", "2", "all", "3"):
                said = {"Docstore-Quorum": wanted}
                url, body = "/core/examples", {"name": "x"}
                async with session.post(url, json=body, headers=said) as response:
                    copies = response.headers.get("Docstore-Replicas")
                    found[wanted] = (response.status, copies)
    assert found == {"1": (400, None), "2": (201, "2"), "all": (201, "2"), "3": (400, None)}


async def test_a_node_has_metrics_of_its_memory_and_tasks(cluster: LocalCluster) -> None:
    node = cluster.nodes[0]
    assert node.process is not None
    seen = await asyncio.to_thread(metrics, node)
    resident = resident_bytes(node.process.pid)
    assert seen["process_resident_memory_bytes"] == pytest.approx(resident, rel=0.2)
    assert seen["docstore_tasks"] > 0


async def test_a_node_that_returns_is_given_its_slots_back(cluster: LocalCluster) -> None:
    first, second, _ = cluster.nodes
    await asyncio.to_thread(until, lambda: min(owned(first).values()) > 0)
    before = owned(first)
    await asyncio.to_thread(cluster.kill, second)
    await asyncio.to_thread(until, lambda: owned(first)[second.name] == 0)
    cluster.start(second)
    await asyncio.to_thread(cluster.wait_ready)
    await asyncio.to_thread(until, lambda: owned(first) == before, 30.0)


async def test_a_rolling_restart_fails_no_request(cluster: LocalCluster, notes: str) -> None:
    async with Client(cluster.urls) as store:
        links = [f"{notes}/{number}" for number in range(20)]
        for link in links:
            await store.put(link, {"text": "first"})
        written = dict.fromkeys(links, 0)
        stop = asyncio.Event()

        async def write(part: list[str]) -> None:
            while not stop.is_set():
                for link in part:
                    document = await store.put(link, {"text": "again"})
                    assert document.version == written[link] + 1
                    written[link] = document.version

        writers = [asyncio.create_task(write(links[number::4])) for number in range(4)]
        for node in cluster.nodes:
            _signal([node], signal.SIGTERM)
            assert node.process is not None
            assert await asyncio.to_thread(node.process.wait, 20) == 0
            node.process = None
            cluster.start(node)
            await asyncio.to_thread(cluster.wait_ready)
        stop.set()
        await asyncio.gather(*writers)
        assert min(written.values()) > 3


async def test_large_documents_that_come_at_once_stop_no_node(
    cluster: LocalCluster, notes: str
) -> None:
    rows = [{"id": number, "name": f"n{number}", "tags": ["a", "b"]} for number in range(20_000)]
    body = json.dumps({"rows": rows}, separators=(",", ":")).encode()
    async with aiohttp.ClientSession() as session:

        async def put(number: int) -> int:
            url = f"{cluster.urls[0]}{notes}/{number}"
            headers = {"Content-Type": "application/json", "Docstore-Timeout-Ms": "60000"}
            async with session.put(url, data=body, headers=headers) as response:
                return response.status

        assert await asyncio.gather(*(put(number) for number in range(40))) == [201] * 40


async def test_a_node_with_a_wiped_disk_reports_an_unknown_disk(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path) as cluster:
        async with Client(cluster.urls) as store:
            await store.declare("/notes")
            await store.put("/notes/a", {"text": "kept"})
            wiped = cluster.nodes[2]
            await asyncio.to_thread(cluster.kill, wiped)
            shutil.rmtree(wiped.data)
            cluster.start(wiped)

            def says_so() -> bool:
                try:
                    return "unknown disk" in str(page_of(f"{wiped.url}/health/ready").get("detail"))
                except urllib.error.URLError:
                    return False

            await asyncio.to_thread(until, says_so)
            async with Client([cluster.nodes[0].url]) as other:
                assert (await other.get("/notes/a")).value["text"] == "kept"
                assert (await other.put("/notes/a", {"text": "new"})).version == 1


async def test_a_node_without_its_majority_refuses_at_once(
    cluster: LocalCluster, notes: str
) -> None:
    left, *others = cluster.nodes
    async with Client([left.url]) as store:
        await store.put(f"{notes}/a", {"text": "kept"})
    for node in others:
        await asyncio.to_thread(cluster.kill, node)

    def refuses() -> bool:
        answer = page_of(f"{left.url}{notes}/a")
        return answer.get("status") == 503 and answer.get("outcome") == "not_applied"

    await asyncio.to_thread(until, refuses)
    for node in others:
        cluster.start(node)
    await asyncio.to_thread(cluster.wait_ready)
    async with Client([left.url]) as store:
        assert (await store.get(f"{notes}/a")).value["text"] == "kept"


async def test_a_paused_majority_leaves_the_fate_of_a_write_unknown(
    cluster: LocalCluster, notes: str
) -> None:
    async with Client(cluster.urls) as store:
        await store.put(f"{notes}/a", {"text": "kept"})
    owner = await asyncio.to_thread(cluster.owner_of, f"{notes}/a")
    others = [node for node in cluster.nodes if node is not owner]
    _signal(others, signal.SIGSTOP)
    try:
        async with Client([owner.url]) as one:
            with pytest.raises(RequestFailed) as failed:
                await one.put(f"{notes}/a", {"text": "perhaps"})
    finally:
        _signal(others, signal.SIGCONT)
    assert (failed.value.status, failed.value.outcome) == (504, "unknown")


async def test_nodes_with_a_shared_key_meet_and_show_a_dead_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file = tmp_path / "keys"
    key_file.write_text(base64.b64encode(bytes(range(32))).decode() + "\n")
    monkeypatch.setenv("DOCSTORE_GOSSIP_KEY_FILE", str(key_file))
    with LocalCluster(3, tmp_path) as group:
        owner, asked = group.nodes[2], group.nodes[0]

        def members() -> dict[str, dict[str, object]]:
            found = page_of(f"{asked.url}/core/node-groups/default")["members"]
            assert isinstance(found, list)
            return {member["id"]: member for member in found}

        await asyncio.to_thread(until, lambda: len(members()) == 3)
        assert all(member["status"] == "ALIVE" for member in members().values())
        await asyncio.to_thread(group.kill, owner)
        await asyncio.to_thread(until, lambda: members()[owner.name]["status"] == "DEAD")
        why = members()[owner.name]["why"]
        assert isinstance(why, list)
        assert why[-1]["status"] == "DEAD"
        assert {"by", "cause", "secondsAgo", "incarnation"} <= why[-1].keys()


def _signal(nodes: list[LocalNode], number: int) -> None:
    for node in nodes:
        assert node.process is not None
        node.process.send_signal(number)


needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="a disk that fails or lags is made with strace"
)


@needs_strace
def test_a_failed_fsync_ends_the_process_with_74(tmp_path: Path) -> None:
    with LocalCluster(1, tmp_path) as group:
        [node] = group.nodes
        assert node.process is not None
        with disk_fault(node, "error=EIO"):
            body = json.dumps({"path": "/notes"}).encode()
            request = urllib.request.Request(
                f"{node.url}/core/factories", body, {"Content-Type": "application/json"}
            )
            with pytest.raises(OSError, match=r".*"):
                urllib.request.urlopen(request, timeout=15)
            assert node.process.wait(15) == 74
        node.process = None
        # Before it ended it logged its last steps, that request among them.
        log = (node.data / "log.txt").read_text()
        steps = [line for line in log.splitlines() if '"event": "trace"' in line]
        assert 1 <= len(steps) <= 50
        assert any("Requested" in line and "link=/core/factories/" in line for line in steps)
        assert log.rindex('"event": "trace"') < log.index("the disk failed; this process ends")


@needs_strace
async def test_an_owner_whose_disk_lags_behind_the_others_hides_nothing(
    cluster: LocalCluster, notes: str
) -> None:
    async with Client(cluster.urls) as store:
        await store.put(f"{notes}/0", {"text": "first"})
        owner = await asyncio.to_thread(cluster.owner_of, f"{notes}/0")
        with disk_fault(owner, "delay_enter=150000"):
            for number in range(1, 8):
                await store.put(f"{notes}/0", {"text": "next"})
                await store.put(f"{notes}/{number}", {"text": "new"})
                listed = await store.json("GET", f"{notes}?$count")
                assert listed["documentCount"] == len(listed["documentLinks"]) == number + 1
                past = await store.json("GET", f"{notes}/0?documentVersion={number}")
                assert past["text"] == "next"


async def test_a_resynchronisation_can_be_slowed_paused_and_cancelled(
    cluster: LocalCluster, notes: str
) -> None:
    async with Client(cluster.urls) as store:
        await store.put(f"{notes}/a", {"text": "a"})
        slowly = {"kind": "SynchronizeRequest", "slotsPerSecond": 200}
        run = await store.json("PATCH", "/core/management", slowly)

        async def control(action: str) -> dict[str, object]:
            change = {"kind": "SynchronizeControlRequest", "id": run["id"], "action": action}
            return dict(await store.json("PATCH", "/core/management", change))

        def state() -> dict[str, object]:
            # Any node can be asked, not only the one on which it runs.
            return page_of(f"{cluster.urls[2]}/core/management/synch?id={run['id']}")

        def synchronised() -> int:
            return dict(state()["slots"])["synchronised"]  # type: ignore[call-overload, no-any-return]

        await asyncio.to_thread(until, lambda: synchronised() > 0)
        assert (await control("pause"))["state"] == "PAUSED"
        await asyncio.to_thread(until, lambda: state()["state"] == "PAUSED")
        paused_at = synchronised()
        assert 0 < paused_at < 1024
        again = await store.json("PATCH", "/core/management", slowly)
        assert again["id"] == run["id"]  # It is joined, not begun anew.
        assert (await control("resume"))["state"] == "RUNNING"
        await asyncio.to_thread(until, lambda: synchronised() > paused_at + 32)
        assert (await control("cancel"))["state"] == "CANCELLED"
        await asyncio.to_thread(until, lambda: bool(state()["finishedTimeMicros"]))
        assert synchronised() < 1024
        at_once = {"kind": "SynchronizeRequest"}
        _, _, body = await store.request(
            "PATCH", "/core/management", json.dumps(at_once).encode(),
            {"Content-Type": "application/json", "Prefer": "wait=30"},
        )  # fmt: skip
        done = json.loads(body)
        assert (done["state"], done["slots"]["synchronised"]) == ("FINISHED", 1024)
