"""Roles on three real nodes: who leads, what a fence refuses, and what a crash costs."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from docstore.client.leading import NotLeading
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


async def test_who_leaves_is_succeeded_at_once_and_its_fence_is_refused(
    client: Client, name: str
) -> None:
    made = await client.post("/core/examples", {"name": "nobody"})
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


async def test_n09_a_partition_passes_on_once_the_callback_has_returned(
    client: Client, name: str
) -> None:
    told: list[str] = []
    gate = asyncio.Event()

    async def revoked(event: object) -> None:
        assert isinstance(event, Revoked)
        assert not first.leads_partition(event.partition)
        told.append("begun")
        await gate.wait()
        assert event.protected(first.now())
        told.append("done")

    first = client.role(name, roles=2, on_revoked=revoked)
    async with first:
        await until(lambda: led(first) == [0, 1])
        async with client.role(name, roles=2) as second:
            await until(lambda: told == ["begun"])
            assert led(second) == []
            gate.set()
            await until(lambda: len(led(second)) == 1)
            assert told == ["begun", "done"]


async def test_events_come_in_order_and_asking_for_the_next_acknowledges(
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


async def test_n07_a_process_that_is_gone_is_succeeded_within_its_session(
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
            for task in list(first._tasks):
                task.cancel()
            crashed = time.monotonic()
            await until(lambda: third.leads(0))
            assert time.monotonic() - crashed < 1.5 + 1.0, "a loaded machine may take longer"
            assert not first.leads(0)
            assert third.token(0) > token
        await lost.__aexit__(None, None, None)


async def test_n15_without_answers_it_leads_no_more_and_says_so(
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


async def test_where_two_may_lead_a_move_leaves_no_gap(client: Client, name: str) -> None:
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


async def test_a_role_whose_document_is_there_keeps_its_settings(client: Client, name: str) -> None:
    await client.json("POST", "/core/roles", {"name": name, "partitions": 3, "sessionMs": 2_000})
    async with client.role(name, roles=6, partitions=1) as role:
        await until(lambda: led(role) == list(range(6)))
        assert role.roles_of(0) == [0, 3]
        settings = role.member.settings
        assert settings is not None
        assert settings.session_ms == 2_000


@pytest.mark.parametrize("role", [-1, 4])
async def test_a_role_outside_of_those_that_there_are_raises(client: Client, role: int) -> None:
    part = client.role("four", roles=4)
    for ask in (part.leads, part.token, part.fence):
        with pytest.raises(ValueError, match=f"there is no role {role}: .* 0 to 3"):
            ask(role)
    with pytest.raises(ValueError, match=f"there is no role {role}"):
        await asyncio.wait_for(part.led(role), 1.0)


def test_numbers_of_roles_slots_and_records_below_one_are_refused() -> None:
    client = Client(["http://127.0.0.1:1"])
    with pytest.raises(ValueError, match="roles is 0"):
        client.role("none", roles=0)
    with pytest.raises(ValueError, match="slots is -1"):
        client.role("one").leads_key("EURUSD", -1)
    with pytest.raises(ValueError, match="batch is 0"):
        client.producer("flights", batch=0)
