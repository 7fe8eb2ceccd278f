"""Roles on three real nodes: their leaders, their fences, and the loss of a process."""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from docstore.client import Client, Differs, LocalCluster, RequestFailed
from docstore.client.leading import NotLeading
from docstore.client.membership import GroupEnded
from docstore.client.roles import Role
from docstore.ownership.by_induction import Acquired, Fenced, Revoked
from tests.docstore.client.groups.conftest import until


def led(role: Role) -> list[int]:
    return [each for each in range(role.roles) if role.leads(each)]


async def test_n01_one_process_leads_all_roles(client: Client, name: str) -> None:
    async with client.role(name, roles=10, partitions=4) as role:
        await until(lambda: led(role) == list(range(10)))
        assert role.leads_key("EURUSD")
        assert role.roles_of(1) == [1, 5, 9]
        assert role.fence(5) == f"roles/{name}/5:{role.token(5)}"
    assert led(role) == []
    with pytest.raises(NotLeading):
        role.fence(5)


async def test_n02_three_processes_share_six_partitions(client: Client, name: str) -> None:
    async with AsyncExitStack() as stack:
        several = [await stack.enter_async_context(client.role(name, roles=6)) for _ in range(3)]
        await until(lambda: [len(led(each)) for each in several] == [2, 2, 2])
        page = await client.json("GET", f"/core/roles/{name}")
        assert page["state"] == "Stable"
        assert len(page["live"]) == 3
        found = await client.json("GET", f"/core/roles/{name}?role=4")
        [holder] = [each for each in several if each.leads(4)]
        assert (found["member"], found["token"]) == (holder.member.id, holder.token(4))


async def test_a_process_that_leaves_is_succeeded_at_once_and_fenced(
    client: Client, name: str
) -> None:
    made = await client.post("/core/examples", {"name": "new"})
    link = made.value["documentSelfLink"]
    async with client.role(name) as first:
        old = await first.led(0)
        await client.put(link, {"name": "by the first"}, fence=old)
        async with client.role(name) as other:
            await first.leave()
            await until(lambda: other.leads(0), 2.0)
            assert other.token(0) > int(old.rpartition(":")[2])
            await client.put(link, {"name": "by the second"}, fence=other.fence(0))
            with pytest.raises(RequestFailed) as refused:
                await client.put(link, {"name": "late"}, fence=old)
    assert (refused.value.status, refused.value.problem["errorCode"]) == (409, "fenced")
    assert (await client.get(link)).value["name"] == "by the second"


async def test_n09_a_partition_moves_once_the_callback_has_returned(
    client: Client, name: str
) -> None:
    seen: list[str] = []
    gate = asyncio.Event()

    async def revoked(event: object) -> None:
        assert isinstance(event, Revoked)
        assert not first.leads_partition(event.partition)
        seen.append("begun")
        await gate.wait()
        assert event.protected(first.now())
        seen.append("done")

    first = client.role(name, roles=2, on_revoked=revoked)
    async with first:
        await until(lambda: led(first) == [0, 1])
        async with client.role(name, roles=2) as second:
            await until(lambda: seen == ["begun"])
            assert led(second) == []
            gate.set()
            await until(lambda: len(led(second)) == 1)
            assert seen == ["begun", "done"]


async def test_events_are_ordered_and_the_next_request_acknowledges(
    client: Client, name: str
) -> None:
    async with client.role(name, roles=2) as first:
        events = first.events()
        assert isinstance(await anext(events), Acquired)
        assert isinstance(await anext(events), Acquired)
        async with client.role(name, roles=2) as second:
            assert isinstance(await anext(events), Revoked)
            assert led(second) == []
            following = asyncio.ensure_future(anext(events))
            await until(lambda: len(led(second)) == 1)
        assert isinstance(await following, Acquired)


async def test_n07_a_crashed_process_is_succeeded_within_its_session(
    client: Client, group: LocalCluster, name: str
) -> None:
    async with client.role(name, session_s=1.0) as second:
        lost = Client(group.urls)
        await lost.__aenter__()
        first = lost.role(name, session_s=1.0)
        await until(lambda: second.leads(0))
        await first.__aenter__()
        await until(lambda: first.member.generation >= 0)
        await second.leave()
        await until(lambda: first.leads(0))
        token = first.token(0)
        async with client.role(name, session_s=1.0) as third:
            await until(lambda: third.member.generation >= 0)
            for task in list(first._driver.tasks):
                task.cancel()
            crashed = time.monotonic()
            await until(lambda: third.leads(0))
            assert time.monotonic() - crashed < 1.5 + 1.0, "a loaded machine may take longer"
            assert not first.leads(0)
            assert third.token(0) > token
        await lost.__aexit__(None, None, None)


async def test_n15_a_process_without_answers_stops_leading_and_is_fenced(
    group: LocalCluster, name: str
) -> None:
    fenced: list[Fenced] = []
    async with Client(group.urls) as client:
        role = client.role(name, session_s=1.0, on_fenced=fenced.append)
        async with role:
            await until(lambda: role.leads(0))
            urls, client.urls = client.urls, ["http://127.0.0.1:1"]
            await until(lambda: not role.leads(0), 2.0)
            await until(lambda: bool(fenced))
            client.urls = urls
            await until(lambda: role.leads(0))
    assert fenced[0].why == "silent"


async def test_a_move_between_nonexclusive_leaders_leaves_no_gap(client: Client, name: str) -> None:
    async with client.role(name, roles=2, mode="nonExclusive", session_s=2.0) as first:
        await until(lambda: led(first) == [0, 1])
        gaps = 0
        async with client.role(name, roles=2, mode="nonExclusive", session_s=2.0) as second:
            async with asyncio.timeout(10):
                while len(led(second)) != 1 or len(led(first)) != 1:
                    gaps += {*led(first), *led(second)} != {0, 1}
                    await asyncio.sleep(0.002)
        assert gaps == 0


async def test_steps_run_only_while_the_role_is_led(client: Client, name: str) -> None:
    steps: list[bool] = []
    async with client.role(name) as role:
        working = asyncio.ensure_future(role.while_leading(0, lambda: steps.append(role.leads(0))))
        await until(lambda: len(steps) > 10)
    await working
    assert all(steps)


async def test_an_existing_role_keeps_the_settings_that_are_not_requested(
    client: Client, name: str
) -> None:
    await client.json("POST", "/core/roles", {"name": name, "partitions": 3, "sessionMs": 2_000})
    async with client.role(name, roles=6) as role:
        await until(lambda: led(role) == list(range(6)))
        assert role.roles_of(0) == [0, 3]
        settings = role.member.settings
        assert settings is not None
        assert settings.session_ms == 2_000


@pytest.mark.parametrize(
    ("asked", "difference"),
    [
        ({"mode": "exclusive"}, "mode is 'nonExclusive', asked for was 'exclusive'"),
        ({}, "mode is 'nonExclusive', asked for was 'exclusive'"),
        ({"mode": "nonExclusive", "partitions": 1}, "partitions is 3, asked for was 1"),
        ({"mode": "nonExclusive", "session_s": 6.0}, "sessionMs is 2000, asked for was 6000"),
    ],
)
async def test_a_role_with_other_settings_than_requested_is_not_joined(
    client: Client, name: str, asked: dict[str, Any], difference: str
) -> None:
    made = {"name": name, "partitions": 3, "mode": "nonExclusive", "sessionMs": 2_000}
    await client.json("POST", "/core/roles", made)
    role = client.role(name, roles=3, **asked)
    with pytest.raises(Differs, match=difference):
        await role.__aenter__()
    assert (await client.json("GET", f"/core/roles/{name}"))["members"] == []


async def test_a_role_recreated_with_another_mode_is_not_rejoined(
    client: Client, group: LocalCluster, name: str
) -> None:
    path = f"/core/roles/{name}"
    async with Client(group.urls) as alone:
        role = await alone.role(name, session_s=1.0).__aenter__()
        urls, alone.urls = alone.urls, ["http://127.0.0.1:1"]
        await client.json("DELETE", f"{path}/members/{role.member.id}")
        await client.json("DELETE", path)
        await client.json(
            "POST", "/core/roles", {"name": name, "partitions": 1, "mode": "nonExclusive"}
        )
        alone.urls = urls
        with pytest.raises(GroupEnded, match="mode is 'nonExclusive'"):
            await asyncio.wait_for(role.while_leading(0, lambda: None), 10.0)
        with pytest.raises(GroupEnded, match="mode is 'nonExclusive'"):
            await role.__aexit__(None, None, None)
    assert (await client.json("GET", path))["members"] == []


async def test_a_process_with_an_invalid_capacity_fails_on_entering(
    client: Client, name: str
) -> None:
    with pytest.raises(RequestFailed, match=r"capacity.? must be a whole number from 1"):
        await client.role(name, capacity=0).__aenter__()


@pytest.mark.parametrize("raised", [GroupEnded, KeyError])
async def test_a_process_whose_roles_were_deleted_fails_on_leaving(
    client: Client, group: LocalCluster, name: str, raised: type[Exception]
) -> None:
    async with Client(group.urls) as alone:
        role = alone.role(name, session_s=1.0)

        async def part() -> None:
            async with role:
                urls, alone.urls = alone.urls, ["http://127.0.0.1:1"]
                await client.json("DELETE", f"/core/roles/{name}/members/{role.member.id}")
                await client.json("DELETE", f"/core/roles/{name}")
                alone.urls = urls
                await until(lambda: role.is_over)
                if raised is KeyError:
                    raise KeyError

        with pytest.raises(raised):
            await part()


@pytest.mark.parametrize("ends", ["at its end", "by an error", "cancelled"])
async def test_callbacks_of_revocation_end_before_the_successor_leads(
    client: Client, name: str, ends: str
) -> None:
    leads, begun, gate, seen = asyncio.Event(), asyncio.Event(), asyncio.Event(), list[str]()

    async def revoked(event: Revoked) -> None:
        begun.set()
        await gate.wait()
        assert event.protected(first.now())
        seen.append(f"revoked {event.partition}")

    first = client.role(name, roles=2, on_revoked=revoked)

    async def part() -> None:
        async with first:
            await until(lambda: led(first) == [0, 1])
            leads.set()
            if ends == "by an error":
                raise KeyError
            if ends == "cancelled":
                await asyncio.Event().wait()

    leaving = asyncio.create_task(part())
    await asyncio.wait_for(leads.wait(), 10.0)
    if ends == "cancelled":
        leaving.cancel()
    async with client.role(name, roles=2) as second:
        await asyncio.wait_for(begun.wait(), 10.0)
        page = await client.json("GET", f"/core/roles/{name}")
        assert first.member.id in page["live"]
        assert (led(first), led(second)) == ([], [])
        gate.set()
        await until(lambda: led(second) == [0, 1])
        assert sorted(seen) == ["revoked 0", "revoked 1"]
        [end] = await asyncio.gather(leaving, return_exceptions=True)
    kinds = {"at its end": "NoneType", "by an error": "KeyError", "cancelled": "CancelledError"}
    assert type(end).__name__ == kinds[ends]


async def test_a_leaving_nonexclusive_process_finishes_its_callbacks(
    client: Client, name: str
) -> None:
    seen: list[str] = []

    async def over(event: object) -> None:
        await asyncio.sleep(0.05)
        seen.append(type(event).__name__)

    what: dict[str, Any] = {"on_revoked": over, "on_fenced": over}
    async with client.role(name, mode="nonExclusive", **what) as role:
        await until(lambda: role.leads(0))
    assert seen in (["Revoked"], ["Fenced"])


async def test_a_reader_of_events_finishes_a_revocation_before_the_leave_is_sent(
    client: Client, name: str
) -> None:
    seen: list[str] = []

    async def listen() -> None:
        async for event in first.events():
            if isinstance(event, Revoked):
                assert event.protected(first.now())
                await asyncio.sleep(0.05)
                assert first.member.id in (await client.json("GET", f"/core/roles/{name}"))["live"]
            seen.append(type(event).__name__)

    first = client.role(name)
    async with first:
        listening = asyncio.create_task(listen())
        await until(lambda: first.leads(0))
    await listening
    assert seen == ["Acquired", "Revoked"]


@pytest.mark.parametrize("role", [-1, 4])
async def test_a_role_outside_of_the_range_is_an_error(client: Client, role: int) -> None:
    part = client.role("four", roles=4)
    for ask in (part.leads, part.token, part.fence):
        with pytest.raises(ValueError, match=f"role must be from 0 to 3; got {role}"):
            ask(role)
    with pytest.raises(ValueError, match=f"role must be from 0 to 3; got {role}"):
        await asyncio.wait_for(part.led(role), 1.0)


def test_numbers_of_roles_slots_and_records_below_one_are_refused() -> None:
    client = Client(["http://127.0.0.1:1"])
    with pytest.raises(ValueError, match=r"`roles` must be .*; got 0"):
        client.role("none", roles=0)
    with pytest.raises(ValueError, match=r"`slots` must be .*; got -1"):
        client.role("one").leads_key("EURUSD", -1)
    with pytest.raises(ValueError, match="`batch` must be"):
        client.producer("flights", batch=0)
