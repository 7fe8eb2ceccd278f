"""Timers and effects on real nodes whose owners are killed."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from docstore.maintenance.backup.taking import BackupRequest, take
from docstore.subscriptions.signing import secret_of
from tests.docstore.maintenance.backup.groups import restored_group
from tests.docstore.subscriptions.receiver import receiving
from tests.docstore.watching import metrics, start_all

SERVICES = ",".join(f"timed_services:{name}" for name in ("Carts", "Clocks", "Ledger", "Orders"))
KEY = bytes(range(32))
FLAGS = (
    "--slots", "64", "--service", SERVICES,
    "--callback-hosts", "http://127.0.0.1", "--callback-networks", "127.0.0.0/8",
)  # fmt: skip


def flags_of(directory: Path) -> tuple[str, ...]:
    keys = directory / "callback.keys"
    keys.write_text("YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\n")
    keys.chmod(0o600)
    return (*FLAGS, "--callback-key-file", str(keys))


def cluster_of(size: int, directory: Path) -> LocalCluster:
    return LocalCluster(size, directory, flags_of(directory))


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nodes find the services beside this file, and sign their webhooks."""
    monkeypatch.setenv("ORDERS_SECRET", secret_of(KEY))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


@pytest.fixture
def group(importable: None, tmp_path: Path) -> Iterator[LocalCluster]:
    with cluster_of(3, tmp_path) as cluster:
        yield cluster


async def dues(client: Client, link: str) -> list[int]:
    """Return the due times that took effect, as versions have them, the oldest first."""
    versions = [each["due"] for each in reversed(await client.history(link))]
    return versions[1:]


async def until_due(client: Client, link: str, due_us: int) -> list[int]:
    async with asyncio.timeout(60):
        while (found := await dues(client, link))[-1:] < [due_us]:
            await asyncio.sleep(0.1)
    return found


def complete(born_us: int, period_us: int, found: list[int]) -> list[int]:
    """Return the due times that must have taken effect, up to the last one that did."""
    return list(range(born_us + period_us, found[-1] + 1, period_us))


def test_one_node_fires_and_delivers(importable: None, tmp_path: Path) -> None:
    with cluster_of(1, tmp_path) as cluster:
        asyncio.run(one_node(cluster))
        asyncio.run(atomic_batches(cluster))


async def one_node(cluster: LocalCluster) -> None:
    async with Client(cluster.urls) as client, receiving(KEY) as receiver:
        clock = await client.post("/clocks", {"documentSelfLink": "a", "every": 0.1})
        await client.post("/ledger", {"documentSelfLink": "o"})
        await client.post("/core/streams", {"name": "orders", "partitions": 1})
        await client.post("/orders", {"documentSelfLink": "o", "webhook": receiver.url})
        for _ in range(20):
            await client.patch("/orders/o", {})
        found = await until_due(client, "/clocks/a", clock.value["born"] + 500_000)
        await client.patch("/clocks/a", {})
        entries = await until_recorded(client, "o", 20)
        assert entries == list(range(1, 21))
        await receiver.until(lambda: len(receiver.calls) >= 20)
        assert [each["n"] for each in receiver.calls] == entries
        assert (len(set(receiver.ids)), receiver.forged) == (20, 0)
        assert await records(client) == {"/orders/o": entries}
        await client.post("/orders", {"documentSelfLink": "without-ledger"})
        await client.patch("/orders/without-ledger", {})
        async with asyncio.timeout(20):
            while "/orders/without-ledger" not in await records(client):
                await asyncio.sleep(0.05)
        await client.patch("/orders/o", {"later": "/declared-later/a"})
        async with asyncio.timeout(20):
            while "an effect waits for a factory" not in logged(cluster):
                await asyncio.sleep(0.05)
        await client.post("/core/factories", {"path": "/declared-later"})
        await until_recorded(client, "o", 21)
        assert (await client.get("/declared-later/a")).version == 0
        stopped = await client.get("/clocks/a")
        assert found == complete(clock.value["born"], 100_000, found)
    assert stopped.value["stopped"]
    counted = metrics(cluster.nodes[0])
    assert counted["docstore_service_timers"] == 0
    assert counted["docstore_service_effects_delivered_total"] >= 63
    assert counted["docstore_service_effects_refused_total"] == 1
    assert "an effect is refused and given up" in logged(cluster)


def logged(cluster: LocalCluster) -> str:
    return (cluster.nodes[0].data / "log.txt").read_text()


async def atomic_batches(cluster: LocalCluster) -> None:
    """Have the effects of a batch delivered if it is applied, and none of a refused one."""
    async with Client(cluster.urls) as client:
        await client.post("/core/streams", {"name": "carts", "partitions": 1})
        for name, wrong in (("a", True), ("b", False)):
            lines = [
                {"op": "POST", "link": f"/carts:/{name}~{n}", "body": {"n": n, "wrong": wrong}}
                for n in range(3)
            ]
            lines[0]["body"] = {"n": 0}
            if wrong:
                with pytest.raises(RequestFailed, match="wrong"):
                    await client.atomic(lines)
            else:
                await client.atomic(lines)
        async with asyncio.timeout(20):
            while len(found := (await records(client, "carts")).get("one", [])) < 3:
                await asyncio.sleep(0.05)
        assert sorted(found) == [0, 1, 2]


async def until_recorded(client: Client, name: str, last: int) -> list[int]:
    async with asyncio.timeout(120):
        while (entries := (await client.get(f"/ledger/{name}")).value["told"])[-1:] < [last]:
            await asyncio.sleep(0.1)
    return list(entries)


async def records(client: Client, topic: str = "orders") -> dict[str, list[int]]:
    """Return key -> the numbers in the records of the topic, in their order."""
    found: dict[str, list[int]] = {}
    async for record in client.consume(topic, since="beginning", follow=False):
        found.setdefault(str(record.key), []).append(record.value["n"])
    return found


def killed(group: LocalCluster, link: str) -> None:
    """Kill the owner of a document; start it again once another node owns it."""
    owner = group.owner_of(link)
    group.kill(owner)


@pytest.mark.thorough
async def test_timers_survive_their_owner(group: LocalCluster) -> None:
    await timers_over_kills(group, documents=40, seconds=8, kills=1)


@pytest.mark.slow
async def test_a_thousand_timers_survive_three_owners(group: LocalCluster) -> None:
    await timers_over_kills(group, documents=1000, seconds=60, kills=3)


async def timers_over_kills(
    group: LocalCluster, *, documents: int, seconds: int, kills: int
) -> None:
    async with Client(group.urls) as client:
        names = [f"c{number}" for number in range(documents)]
        made = [
            await client.post("/clocks", {"documentSelfLink": name, "every": 1}) for name in names
        ]
        for number in range(kills):
            await asyncio.sleep(0)
            await passed(client, "/clocks/c0", made[-1].value["born"], number + 1, seconds, kills)
            killed(group, "/clocks/c0")
            await passed(client, "/clocks/c0", made[-1].value["born"], number + 1.5, seconds, kills)
            start_all(group)
        last_us = made[-1].value["born"] + seconds * 1_000_000
        for document in made:
            link = document.value["documentSelfLink"]
            found = await until_due(client, link, last_us)
            assert found == complete(document.value["born"], 1_000_000, found), link


async def passed(
    client: Client, link: str, since_us: int, part: float, seconds: int, kills: int
) -> None:
    """Return once a part of the run has passed, by the timer of a document."""
    due_us = since_us + int(seconds * 1_000_000 * part / (kills + 1.5))
    async with asyncio.timeout(seconds + 60):
        while (await client.get(link)).value["due"] < due_us:
            await asyncio.sleep(0.1)


@pytest.mark.thorough
async def test_a_restored_group_goes_on_as_of_its_backup(importable: None, tmp_path: Path) -> None:
    backups, (first, second) = tmp_path / "backups", (tmp_path / "first", tmp_path / "second")
    for directory in (first, second):
        directory.mkdir()
    async with receiving(KEY) as receiver:
        receiver.always = 503
        with cluster_of(1, first) as cluster:
            async with Client(cluster.urls) as client:
                clock = await client.post("/clocks", {"documentSelfLink": "c", "every": 0.5})
                await client.post("/ledger", {"documentSelfLink": "a"})
                await client.post("/core/streams", {"name": "orders", "partitions": 1})
                await client.post("/orders", {"documentSelfLink": "a", "webhook": receiver.url})
                await client.patch("/orders/a", {})
                await receiver.until(lambda: receiver.ids)
                await take(client, backups, BackupRequest(), lambda part: None)
        receiver.always = 0
        with restored_group(backups, second, 1, 64, *flags_of(second)) as restored:
            async with Client(restored.urls) as client:
                await receiver.until(lambda: receiver.calls, timeout_s=60)
                assert len(set(receiver.ids)) == 1
                found = await until_due(client, "/clocks/c", clock.value["born"] + 8_000_000)
                assert found == complete(clock.value["born"], 500_000, found)


@pytest.mark.thorough
async def test_all_survives_the_death_of_all_nodes(group: LocalCluster) -> None:
    async with Client(group.urls) as client, receiving(KEY) as receiver:
        receiver.always = 503
        await client.post("/core/streams", {"name": "orders", "partitions": 2})
        clock = await client.post("/clocks", {"documentSelfLink": "c", "every": 0.5})
        for name in ("a", "b"):
            await client.post("/ledger", {"documentSelfLink": name})
            await client.post("/orders", {"documentSelfLink": name, "webhook": receiver.url})
        for _ in range(6):
            await client.patch("/orders/a", {})
        await client.patch("/orders/b", {})
        await client.delete("/orders/b")
        await receiver.until(lambda: len(set(receiver.ids)) == 2)
        for node in group.nodes:
            group.kill(node)
        await asyncio.to_thread(start_all, group)
        receiver.always = 0
        assert await until_recorded(client, "a", 6) == [1, 2, 3, 4, 5, 6]
        assert await until_recorded(client, "b", 2) == [1, 2], "a deletion has an effect, too"
        await receiver.until(lambda: len(receiver.calls) >= 8, timeout_s=60)
        assert await records(client) == {"/orders/a": [1, 2, 3, 4, 5, 6], "/orders/b": [1, 2]}
        found = await until_due(client, "/clocks/c", clock.value["born"] + 10_000_000)
        assert found == complete(clock.value["born"], 500_000, found)


@pytest.mark.thorough
async def test_effects_survive_their_owner(group: LocalCluster) -> None:
    await effects_over_kills(group, updates=400, documents=8, kills=1)


@pytest.mark.slow
async def test_five_thousand_effects_survive_owners(group: LocalCluster) -> None:
    await effects_over_kills(group, updates=5_000, documents=50, kills=3)


async def effects_over_kills(
    group: LocalCluster, *, updates: int, documents: int, kills: int
) -> None:
    names, each = [f"o{number}" for number in range(documents)], updates // documents
    async with Client(group.urls) as client, receiving() as receiver:
        await client.post("/core/streams", {"name": "orders", "partitions": 4})
        for name in names:
            await client.post("/ledger", {"documentSelfLink": name})
            await client.post("/orders", {"documentSelfLink": name, "webhook": receiver.url})
        done: Counter[str] = Counter()
        writing = asyncio.gather(*(write(client, name, each, done) for name in names))
        for number in range(kills):
            async with asyncio.timeout(300):
                while not writing.done() and done.total() < updates * (number + 1) / (kills + 1):
                    await asyncio.sleep(0.05)
            killed(group, f"/orders/{names[number]}")
            await asyncio.to_thread(start_all, group)
        await writing
        wanted = list(range(1, each + 1))
        for name in names:
            assert await until_recorded(client, name, each) == wanted, "once, and in order"
        assert await records(client) == {f"/orders/{name}": wanted for name in names}
        await receiver.until(lambda: len(set(receiver.ids)) >= updates, timeout_s=60)
    assert len(set(receiver.ids)) == updates
    assert Counter(each["n"] for each in unique(receiver.calls, receiver.ids)) == Counter(
        dict.fromkeys(wanted, documents)
    )


async def write(client: Client, name: str, updates: int, done: Counter[str]) -> None:
    for _ in range(updates):
        await client.patch(f"/orders/{name}", {})
        done[name] += 1


def unique(calls: list[Any], ids: list[str]) -> list[Any]:
    """Return the calls without those that repeat another one."""
    return list(dict(zip(ids, calls, strict=True)).values())
