"""The commands for roles and groups, while processes are members."""

import asyncio
import json
import signal
import sys
from contextlib import aclosing
from typing import Any

import aiohttp
import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from tests.docstore.client.groups.conftest import until
from tests.fork_server import SERVER


async def docstore(group: LocalCluster, *arguments: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, its output and its errors."""
    ended = await asyncio.to_thread(SERVER.run, *arguments, "--url", group.urls[0])
    return ended.returncode, ended.stdout, ended.stderr


async def shown(group: LocalCluster, *arguments: str) -> Any:
    code, out, errors = await docstore(group, *arguments, "--json")
    assert code == 0, errors
    return json.loads(out)


async def test_roles_are_listed_and_described(
    client: Client, group: LocalCluster, name: str
) -> None:
    async with client.role(name, roles=3) as role:
        await until(lambda: role.leads(2))
        listed = await shown(group, "role", "list")
        assert f"/core/roles/{name}" in [each["documentSelfLink"] for each in listed]
        _, out, _ = await docstore(group, "role", "list")
        assert name in out
        page = await shown(group, "role", "describe", name)
        assert [each["token"] for each in page["partitionList"]] == [role.token(0)] * 3
        code, out, _ = await docstore(group, "role", "describe", name)
        assert code == 0
        assert "Stable, generation 1, 1 members" in out
        assert f"{role.member.id}: heard" in out
        url = ["--url", group.urls[0]]
        watching = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "docstore", "role", "watch", name, *url,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
    assert watching.stdout is not None
    async with asyncio.timeout(20):
        line = b""
        while b" Stable " not in line and b" Empty " not in line:
            line = await watching.stdout.readline()
    watching.kill()
    await watching.wait()


async def test_a_group_is_read_described_reset_and_deleted(
    client: Client, group: LocalCluster, name: str
) -> None:
    await client.json("POST", "/core/streams", {"name": name})
    for first, stop in ((0, signal.SIGTERM), (5, signal.SIGINT)):
        async with client.producer(name) as producer:
            for number in range(first, first + 5):
                await producer.send(None, number)
        reading = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "docstore", "consume", name, "--group", name,
            "--url", group.urls[0], stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert reading.stdout is not None
        async with asyncio.timeout(20):
            while await reading.stdout.readline() != b"%d\n" % (first + 4):
                continue
        reading.send_signal(stop)
        async with asyncio.timeout(60):
            assert await reading.wait() == (128 + stop if stop == signal.SIGTERM else 0)
        page = await shown(group, "group", "describe", name)
        assert page["members"] == [], "it has not left"
        assert page["offsets"][0]["offset"] in (first + 4, first + 5), "it has not committed"
    _, out, _ = await docstore(group, "group", "describe", name)
    assert f"{name}/0" in out
    assert f"/core/groups/{name}" in str(await shown(group, "group", "list"))
    assert "lag" in out
    reset = ("group", "reset", name, name, "--to", "2")
    moved = {"topic": name, "partition": 0, "before": 10, "offset": 2}
    page = await shown(group, *reset, "--dry-run")
    assert (page["dryRun"], page["offsets"]) == (True, [moved])
    assert (await shown(group, *reset))["offsets"] == [moved | {"status": 200}]
    assert "8 records" in (await docstore(group, "group", "describe", name))[1]
    code, out, errors = await docstore(group, "consume", name, "--group", name, "--until-end")
    assert (code, out.split()) == (0, [str(number) for number in range(2, 10)]), errors
    assert "lag 0 records" in (await docstore(group, "group", "describe", name))[1]
    assert (await docstore(group, "group", "delete", name))[0] == 0
    code, _, errors = await docstore(group, "group", "describe", name)
    assert code == 1
    assert "404" in errors


async def test_a_stopped_produce_command_sends_its_records(
    client: Client, group: LocalCluster, name: str
) -> None:
    """The command waits for no more input, and sends the records that it has read."""
    await client.json("POST", "/core/streams", {"name": name})
    for number, stop in enumerate((signal.SIGINT, signal.SIGTERM)):
        producing = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "docstore", "produce", name, "--url", group.urls[0],
            stdin=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert producing.stdin is not None
        producing.stdin.write(b"%d\n" % number)
        async with asyncio.timeout(20), aclosing(client.consume(name, since=str(number))) as read:
            assert (await anext(read)).value == number
        producing.send_signal(stop)
        assert await asyncio.wait_for(producing.wait(), 20) == 128 + stop


async def test_a_group_does_not_read_one_partition(group: LocalCluster) -> None:
    code, _, errors = await docstore(group, "consume", "t", "--group", "g", "-p", "0")
    assert code == 2
    assert "reads all partitions" in errors.replace("\n", " ")


async def metrics(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        return await answer.text()


async def test_offsets_of_all_partitions_are_reset(
    client: Client, group: LocalCluster, name: str
) -> None:
    topics = [name, f"{name}-more"]
    for url in group.urls:
        await metrics(url)  # A new group must be shown although figures are cached.
    for topic in topics:
        await client.json("POST", "/core/streams", {"name": topic, "partitions": 2})
        async with client.producer(topic) as producer:
            for number in range(10):
                await producer.send(None, number, partition=number % 2)
    await client.json("POST", "/core/groups", {"name": name, "topics": topics})
    path = f"/core/groups/{name}/offsets"

    async def reset(to: str, **more: Any) -> list[int]:
        body = {"kind": "ResetRequest", "to": to, **more}
        return [each["offset"] for each in (await client.json("PATCH", path, body))["offsets"]]

    async def lags() -> list[int]:
        return [each["lag"] for each in (await client.json("GET", path))["offsets"]]

    assert await lags() == [5] * 4, "nothing is read"
    assert await reset("end") == [5] * 4
    assert await lags() == [0] * 4
    assert await reset("-2") == [3] * 4
    assert await reset("-9", topic=name) == [0] * 2, "the first record bounds a shift"
    assert await lags() == [5, 5, 2, 2]
    samples = " ".join([await metrics(each) for each in group.urls])
    assert f'docstore_group_lag_records{{group="{name}",topic="{name}"}} 10' in samples
    assert f'docstore_group_lag_records{{group="{name}",topic="{name}-more"}} 4' in samples
    assert await reset("+99", topic=name, partition=1) == [5]
    assert await reset("end-4") == [1] * 4
    assert await reset("@0") == [0] * 4
    assert await reset("2999-01-01T00:00:00Z") == [5] * 4
    assert await reset("beginning", dryRun=True) == [0] * 4
    assert await lags() == [0] * 4, "a dry run changes nothing"
    assert await reset("none") == [-1] * 4
    for to, more, status in (
        ("6", {}, 416), ("yesterday", {}, 400), ("end", {"topic": "other"}, 404),
        ("end", {"partition": 0}, 400), ("end", {"topic": name, "partition": 2}, 404),
        ("end", {"dryRun": 1}, 400),
    ):  # fmt: skip
        with pytest.raises(RequestFailed) as refused:
            await reset(to, **more)
        assert refused.value.status == status, (to, more)
    assert await lags() == [5] * 4, "no offset is set where one is out of range"
    async with client.group(name, topics):
        with pytest.raises(RequestFailed, match="no members"):
            await reset("end", dryRun=True)


async def test_a_topic_is_altered_and_its_lead_moves(
    client: Client, group: LocalCluster, name: str
) -> None:
    await client.json("POST", "/core/streams", {"name": name})
    altered = ("topic", "alter", name, "--partitions", "2", "--retention", "1h")
    page = await shown(group, *altered)
    assert (page["partitions"], page["retention"]["ms"]) == (2, 3_600_000)
    assert (await docstore(group, "topic", "alter", name))[0] == 2, "nothing to change"

    async def led() -> str:
        [first, *_] = await shown(group, "partition", "list", name)
        return str(first["leader"])

    async with asyncio.timeout(30):
        while (leader := await led()) not in ("n1", "n2", "n3"):
            await asyncio.sleep(0.05)
    other = next(each for each in ("n1", "n2", "n3") if each != leader)
    code, out, errors = await docstore(group, "partition", "lead", name, "0", other)
    assert (code, other in out) == (0, True), errors
    async with asyncio.timeout(30):
        while await led() != other:
            await asyncio.sleep(0.05)
    assert (await docstore(group, "partition", "elect", name, "0"))[0] == 0
    code, _, errors = await docstore(group, "partition", "move", name, "0", "n9")
    assert (code, "got n9" in errors) == (1, True), errors
