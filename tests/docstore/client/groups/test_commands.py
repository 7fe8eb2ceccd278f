"""The commands on roles and groups, beside processes that take part."""

import asyncio
import json
import signal
import sys
from contextlib import aclosing
from typing import Any

from docstore.client import Client, LocalCluster
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
        await reading.wait()
        page = await shown(group, "group", "describe", name)
        assert page["members"] == [], "it has not left"
        assert page["offsets"][0]["offset"] in (first + 4, first + 5), "it has not committed"
    _, out, _ = await docstore(group, "group", "describe", name)
    assert f"{name}/0" in out
    assert f"/core/groups/{name}" in str(await shown(group, "group", "list"))
    assert (await shown(group, "group", "reset", name, name, "--to", "2"))["offset"] == 2
    assert (await docstore(group, "group", "delete", name))[0] == 0
    code, _, errors = await docstore(group, "group", "describe", name)
    assert code == 1
    assert "404" in errors


async def test_what_is_produced_is_sent_when_the_command_is_stopped(
    client: Client, group: LocalCluster, name: str
) -> None:
    """It waits for no more input then, and what it has read is in no pipe any more."""
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


async def test_a_group_does_not_read_one_partition_or_once(group: LocalCluster) -> None:
    code, _, errors = await docstore(group, "consume", "t", "--group", "g", "--once")
    assert code == 2
    assert "reads all partitions without end" in errors.replace("\n", " ")
