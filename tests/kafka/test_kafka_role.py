"""Roles on Kafka: behaviour that only Kafka has: errors, offsets, topics."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
import pytest_asyncio
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError

from docstore.client.kafka import KafkaRole
from docstore.client.leading import NotLeading
from docstore.client.membership import GroupEnded
from docstore.ownership.by_induction import Acquired, Fenced, Revoked
from tests.kafka.broker import (
    COMMIT,
    FETCH,
    GROUP_DENIED,
    LOADING,
    NOT_LEADER,
    PRODUCE,
    TOPIC_DENIED,
    UNKNOWN_MEMBER,
    Broker,
)
from tests.kafka.ledgers import OnMock
from tests.kafka.road import JOIN_GROUP
from tests.kafka.test_ledgers import ROLES, all_led, now, until


@pytest_asyncio.fixture
async def mock(broker: Broker) -> AsyncIterator[OnMock]:
    async with OnMock(broker, partitions=4) as mock:
        yield mock


def member(mock: OnMock, name: str = "a") -> AbstractAsyncContextManager[KafkaRole]:
    return mock.member(name, "nonExclusive")


async def test_a_role_that_cannot_start_raises(mock: OnMock, unused_tcp_port: int) -> None:
    nowhere = KafkaRole(f"127.0.0.1:{unused_tcp_port}", "r", topic="r", roles=1)
    with pytest.raises(KafkaError):
        async with nowhere:
            raise AssertionError
    assert not nowhere.leads(0)


@pytest.mark.parametrize(("request_key", "error"), [(COMMIT, LOADING), (PRODUCE, NOT_LEADER)])
async def test_a_passing_error_ends_nothing(
    mock: OnMock, broker: Broker, request_key: int, error: int
) -> None:
    broker.fail(request_key, error, times=3)
    async with member(mock) as role:
        await until(lambda: all_led(role), 10.0)
        assert role.trouble is None


async def test_a_lasting_error_ends_the_role_and_it_leaves(mock: OnMock, broker: Broker) -> None:
    async with asyncio.timeout(20.0), member(mock) as role:
        events = role.events()
        assert [type(await anext(events)) for _ in range(4)] == [Acquired] * 4
        broker.fail(COMMIT, GROUP_DENIED)
        fenced = [await anext(events) for _ in range(4)]
        assert [(type(event), event.why) for event in fenced] == [(Fenced, "left")] * 4
        assert not any(role.leads(number) for number in ROLES)
        with pytest.raises(GroupEnded) as failed:
            await anext(events)
        assert isinstance(failed.value.__cause__, GroupAuthorizationFailedError)
        async with member(mock, "b") as other:  # No session has to run out first.
            await until(lambda: all_led(other), mock.alone_s)


@pytest.mark.thorough
async def test_a_removed_member_leads_nothing_and_joins_again(mock: OnMock, broker: Broker) -> None:
    async with mock.member("a") as role, asyncio.timeout(20.0):
        events = role.events()
        assert [type(await anext(events)) for _ in range(4)] == [Acquired] * 4
        broker.fail(COMMIT, UNKNOWN_MEMBER)
        ended = [await anext(events) for _ in range(4)]  # By the refusal, or as it is revoked.
        assert not any(isinstance(event, Acquired) for event in ended)
        assert not any(role.leads(number) for number in ROLES)
        again = [await anext(events) for _ in range(4)]
        assert {(type(event), event.token) for event in again} == {(Acquired, 1)}
        await events.aclose()


async def test_without_the_right_to_write_no_role_begins(mock: OnMock, broker: Broker) -> None:
    broker.fail(PRODUCE, TOPIC_DENIED)
    async with asyncio.timeout(20.0), member(mock) as role:
        with pytest.raises(GroupEnded) as failed:
            await role.while_leading(0, lambda: None)
    assert isinstance(failed.value.__cause__, TopicAuthorizationFailedError)


async def test_an_error_of_a_callback_is_reported_and_ends_nothing(mock: OnMock) -> None:
    told: list[str] = []

    def refuse(event: Acquired) -> None:
        raise LookupError(event)

    asyncio.get_running_loop().set_exception_handler(lambda _, said: told.append(said["message"]))
    async with mock.member("a", "nonExclusive", on_acquired=refuse) as role:
        await until(lambda: len(told) == 4, mock.alone_s)
        assert all_led(role)
    assert "the callback for Acquired(partition=0, token=0) failed" in told


async def test_tokens_are_offsets_and_a_tenure_begins_with_a_record(mock: OnMock) -> None:
    for offset in range(3):
        async with member(mock) as role:
            await until(lambda role=role: all_led(role), mock.shared_s)
            assert [role.token(number) for number in range(4)] == [offset] * 4
            assert role.fence(6).endswith(f"/6:{offset}")
    assert not any(role.leads(number) for number in ROLES)


async def test_a_role_without_a_tenure_has_no_fence(mock: OnMock) -> None:
    role = mock.role("a")
    with pytest.raises(NotLeading, match="does not lead role 0"):
        role.token(0)
    async with role:
        await until(lambda: all_led(role), mock.alone_s)
        assert role.fence(7) == f"roles/{mock.name}/7:{role.token(7)}"
        assert role.roles_of(3)[:3] == [3, 7, 11]
        mock.mute()
        await until(lambda: not role.leads(7), 20.0)
        assert role.token(7) == 0
        with pytest.raises(NotLeading, match="no longer leads"):
            role.fence(7)


async def test_a_second_reader_of_events_is_rejected(mock: OnMock) -> None:
    async with mock.member("a", on_acquired=print) as role:
        with pytest.raises(RuntimeError, match="already have a reader"):
            await anext(role.events())


async def test_two_groups_share_a_topic_and_nothing_else(mock: OnMock) -> None:
    async with member(mock, "a") as a, mock.member("b", "nonExclusive", group="other") as b:
        await until(lambda: all_led(a) and all_led(b), mock.alone_s)


async def test_n06_a_held_answer_proves_no_more_than_at_its_request(
    mock: OnMock,
) -> None:
    async with mock.member("a") as role:
        await until(lambda: all_led(role), mock.alone_s)
        assert mock.road.asked["a", FETCH] == 0, "receipt says nothing"
        mock.road.hold("a")
        end = now() + role.windows.window_s + 2 * role.windows.heartbeat_s
        await until(lambda: now() > end, mock.alone_s)
        commits = mock.road.asked["a", COMMIT]
        mock.road.release("a")
        while mock.road.asked["a", COMMIT] == commits:
            assert not any(role.leads(number) for number in ROLES)
            await asyncio.sleep(0.005)
        await until(lambda: all_led(role), mock.succession_s)


async def test_a_rebalance_waits_for_the_cleanup_of_revoked_roles(mock: OnMock) -> None:
    joins: list[int] = []

    async def clean_up(event: Revoked) -> None:
        await asyncio.sleep(0.05)
        joins.append(mock.road.asked["a", JOIN_GROUP])

    async with mock.member("a", on_revoked=clean_up) as a:
        await until(lambda: all_led(a), mock.alone_s)
        async with mock.member("b"):
            assert joins == [1] * 4
            assert mock.road.asked["a", JOIN_GROUP] == 2


async def test_a_topic_with_other_partitions_ends_the_role(mock: OnMock, broker: Broker) -> None:
    options = {"metadata_max_age_ms": 100}
    async with mock.member("a", "nonExclusive", options=options) as role:
        await until(lambda: all_led(role), mock.alone_s)
        broker.delete_topic(mock.name)
        broker.create_topic(mock.name, partitions=6)
        async with asyncio.timeout(20.0):
            with pytest.raises(GroupEnded, match=r"must have 4 partitions, .*; got 6"):
                await role.while_leading(0, lambda: None)


async def test_a_forked_child_leads_nothing(mock: OnMock) -> None:
    async with member(mock) as role:
        await until(lambda: all_led(role), mock.alone_s)
        child = os.fork()
        if not child:
            os._exit(any(role.leads(number) for number in ROLES))
        assert (await asyncio.to_thread(os.waitpid, child, 0))[1] == 0
        assert all_led(role)
