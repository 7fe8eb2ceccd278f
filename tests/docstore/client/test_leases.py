"""Leases of a real client at real nodes: held by proofs, lost for ever, and fenced after that."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from docstore.client import Client, Differs, LocalCluster, Lost, RequestFailed
from docstore.client.boot_clock import boot_clock
from docstore.ownership.proof import RATE_ERROR

NOWHERE = "http://127.0.0.1:9"
clock = boot_clock()


@pytest.fixture
async def client(group: LocalCluster) -> AsyncIterator[Client]:
    async with Client(group.urls) as client:
        await client.declare("/notes")
        yield client


@pytest.fixture
async def watcher(group: LocalCluster) -> AsyncIterator[Client]:
    """Yield another client."""
    async with Client(group.urls[1:]) as client:
        yield client


async def ended(watcher: Client, link: str) -> float:
    """Wait until a lease has ended; return the clock at that moment."""
    while True:
        page = await watcher.get(link)
        if page.value["state"] == "ended":
            return clock()
        await watcher.request("GET", link, headers={"If-None-Match": page.etag, "Prefer": "wait=5"})


async def test_leases_live_while_held_and_end_when_released(
    client: Client, watcher: Client
) -> None:
    """Many leases of one client share their requests; one that another client made is adopted."""
    ttl_s = 1.5
    leases = [client.lease(ttl_s=ttl_s, holder="a test") for _ in range(40)]
    await watcher.json("POST", "/core/leases", {"ttlMs": 1_500, "documentSelfLink": "adopted"})
    adopted = client.lease(name="adopted")
    await asyncio.gather(adopted.adopt(), *(lease.grant() for lease in leases))
    leases.append(adopted)
    await client.put("/notes/mine", {"a": 1}, lease=adopted)
    until = clock() + ttl_s * 1.5
    while clock() < until or not all(lease.held() for lease in leases):
        assert not any(lease.lost.is_set() for lease in leases)
        await asyncio.sleep(0.05)
    assert (await watcher.get("/notes/mine")).value["documentLeaseLink"] == adopted.link
    assert (await watcher.get(adopted.link)).version == 1  # Only the attachment is a version.
    await asyncio.gather(*(lease.release() for lease in leases))
    assert not any(lease.held() for lease in leases)
    assert all(lease.lost.is_set() for lease in leases)
    assert (await watcher.get(adopted.link)).value["why"] == "revoked"


async def test_a_lease_ended_by_an_operator_is_lost(client: Client, watcher: Client) -> None:
    async with client.lease(ttl_s=0.5) as lease:
        await watcher.json("DELETE", lease.link)
        async with asyncio.timeout(5):
            await lease.lost.wait()
        assert not lease.held()


async def test_a_write_under_an_ended_lease_is_refused(client: Client) -> None:
    lease = client.lease(ttl_s=5.0)
    await lease.grant()
    await lease.release()
    with pytest.raises(RequestFailed) as failure:
        await client.put("/notes/never", {}, lease=lease)
    assert (failure.value.status, failure.value.problem["errorCode"]) == (410, "lease-ended")


async def test_l10_a_disconnected_holder_stops_before_its_lease_ends(
    group: LocalCluster, watcher: Client
) -> None:
    ttl_s = 0.9
    async with Client(group.urls) as client:
        lease = client.lease(ttl_s=ttl_s)
        await lease.grant()
        ending = asyncio.ensure_future(ended(watcher, lease.link))
        client.urls[:] = [NOWHERE]
        until = lease.left_s() + clock()
        async with asyncio.timeout(5):
            while lease.held():
                await asyncio.sleep(0.005)
        stopped_at, ended_at = clock(), await ending
    last_ok = until - ttl_s * 2 / 3
    assert until < stopped_at < ended_at
    assert ended_at >= last_ok + ttl_s / (1 + RATE_ERROR)
    assert ended_at <= last_ok + ttl_s * 2 + 1.0


HOLDER = """
import asyncio, json, sys
from docstore.client import Client
from docstore.client.boot_clock import boot_clock

clock = boot_clock()

async def main():
    async with Client(sys.argv[1].split(",")) as client:
        lease = client.lease(ttl_s=float(sys.argv[2]), name=sys.argv[3])
        await lease.grant()
        leader = await client.put("/notes/leader", {"by": lease.id}, lease=lease, if_match="")
        print(json.dumps({"token": leader.version}), flush=True)
        while not lease.lost.is_set():
            print(json.dumps({"at": clock(), "held": lease.held()}), flush=True)
            await asyncio.sleep(0.01)
        print(json.dumps({"lost": True, "held": lease.held()}), flush=True)
        fence = f"notes/leader:{leader.version}"
        try:
            await client.put("/notes/guarded", {"by": "the past"}, fence=fence)
        except Exception as error:
            print(json.dumps({"refused": error.problem["errorCode"]}), flush=True)

asyncio.run(main())
"""


async def test_l11_l13_a_paused_holder_does_not_hold_and_is_fenced(
    group: LocalCluster, client: Client, watcher: Client
) -> None:
    ttl_s = 0.6
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, ",".join(group.urls), str(ttl_s), "paused",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    lines = _lines(process)
    try:
        token = (await anext(lines))["token"]
        while not (await anext(lines))["held"]:
            pass
        process.send_signal(signal.SIGSTOP)
        await ended(watcher, "/core/leases/paused")
        async with asyncio.timeout(10):
            while not await _is_gone(watcher, "/notes/leader"):
                await asyncio.sleep(0.02)
        async with client.lease(ttl_s=5.0) as lease:
            leader = await client.put("/notes/leader", {"by": lease.id}, lease=lease)
            assert leader.version > token
            fence = f"notes/leader:{leader.version}"
            guarded = await client.put("/notes/guarded", {"by": "now"}, fence=fence)
            woken_at = clock()
            process.send_signal(signal.SIGCONT)
            seen = [line async for line in lines]
            after = [line for line in seen if line.get("at", 0) > woken_at]
            assert not any(line["held"] for line in after)
            assert seen[-2:] == [{"lost": True, "held": False}, {"refused": "fenced"}]
            assert (await watcher.get("/notes/guarded")).etag == guarded.etag
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _lines(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        yield json.loads(line)


async def _is_gone(watcher: Client, link: str) -> bool:
    try:
        await watcher.get(link)
    except RequestFailed as error:
        return error.status == 404
    return False


async def test_a_factory_with_other_members_than_requested_differs(
    client: Client,
) -> None:
    weak = ["REPLICATION", "PERSISTENCE"]
    asked: dict[str, Any] = {"options": weak, "retention": {"versions": 3}, "indexes": ["$.a"]}
    schema = {"type": "object", "required": ["n"]}
    await client.declare("/some/weak", **asked)
    await client.declare("/some/weak", **asked | {"options": weak[::-1]})
    await client.declare("/some/weak", kind="some:weak")
    for other, difference in (
        ({"options": [*weak, "OWNER_SELECTION"]}, "options is .*, asked for was .*OWNER_SELECTION"),
        ({"schema": schema}, "schema is None, asked for was .*required"),
        ({"put_creates": False}, "putCreates is True, asked for was False"),
        ({"kind": "other"}, "kind is 'some:weak', asked for was 'other'"),
    ):
        with pytest.raises(Differs, match=difference):
            await client.declare("/some/weak", **other)


async def test_a_lease_with_other_settings_than_requested_is_refused(
    client: Client, watcher: Client
) -> None:
    async with client.lease(name="named", ttl_s=9.0):
        with pytest.raises(RequestFailed, match="ttlMs is 9000, asked for was 8000") as refused:
            await watcher.lease(name="named", ttl_s=8.0).grant()
        assert (refused.value.status, refused.value.code) == (409, "already-exists")


@pytest.mark.parametrize("raised", [Lost, KeyError])
async def test_a_lost_lock_is_reported_at_the_end_of_its_block(
    client: Client, raised: type[Exception]
) -> None:
    async def work() -> None:
        async with client.lock("gone", ttl_s=1.0) as held:
            await client.json("DELETE", held.lease.link)
            await held.lost()
            if raised is KeyError:
                raise KeyError

    with pytest.raises(raised) as error:
        await work()
    assert "was lost" in str(error.value) or "was lost" in error.value.__notes__[0]


async def test_use_outside_of_its_block_is_an_error(client: Client) -> None:
    closed = Client(client.urls)
    for use in (
        closed.get("/notes/a"),
        closed.election("e").campaign(),
        client.election("e").campaign(),
        client.producer("flights").send("k", 1),
        closed.role("r").__aenter__(),
    ):
        with pytest.raises(RuntimeError, match="within `async with"):
            await use


async def test_an_empty_position_is_an_error(client: Client) -> None:
    with pytest.raises(ValueError, match="`since` must be"):
        await anext(client.election("e").observe(since=""))
    with pytest.raises(ValueError, match="`since` must be"):
        await client.subscribe("/notes", "http://127.0.0.1:1", since="")
    with pytest.raises(RequestFailed, match="since must be"):
        await anext(client.changes("/notes", since=""))


async def test_an_empty_event_id_is_refused(client: Client) -> None:
    empty = {"Accept": "text/event-stream", "Last-Event-ID": ""}
    with pytest.raises(RequestFailed, match="Last-Event-ID must be"):
        await client.request("GET", "/core/changes?prefix=/results", headers=empty)
