"""Scenario N19: the unit tests of goneli (Fast NELI, for Go), each on our ledgers.

| theirs                                | ours                                                    |
|---------------------------------------|---------------------------------------------------------|
| CorrectInitialisation, PulseNotLeader | a_member_gets_events_of_the_roles_it_leads              |
| ConfigError                           | times_and_modes_that_make_no_sense_are_refused          |
| Error during the start (five of them) | test_kafka_role: a_role_that_cannot_start_raises        |
| PulseAfterClose, ClosePulser          | an_ended_member_leads_nothing_and_its_waits_end         |
| Deadline                              | proofs_are_requested_without_a_call                     |
| BasicLeaderElectionAndRevocation      | roles_of_a_new_member_are_revoked_others_are_kept       |
| .. nopBarrier                         | test_ledgers: scenario N01, without callbacks           |
| .. timeoutAndReconnect                | test_ledgers: scenario N08                              |
| the barrier's order                   | no_member_leads_before_the_last_one_has_cleaned_up      |
| Non-fatal error in read, in produce   | test_kafka_role: a_passing_error_ends_nothing           |
| Fatal error in read, in produce       | test_kafka_role: a_lasting_error, without_the_right     |
| CloseConsumerError                    | a_member_without_the_ledger_can_still_leave             |
| DeliveryReports                       | test_kafka_role: tokens_are_offsets                     |
| PulserWithError                       | an_error_of_a_step_is_its_callers_and_ends_no_role      |
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from docstore.client.errors import RequestFailed
from docstore.ownership.by_induction import Acquired, Event, Revoked
from tests.kafka.ledgers import Ledger
from tests.kafka.test_ledgers import ROLES, all_led, now, shared, until

NON_EXCLUSIVE = "nonExclusive"


async def collect(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


def refuse() -> None:
    raise LookupError("a step's own")


async def test_a_member_gets_events_of_the_roles_it_leads(
    ledger: Ledger,
) -> None:
    told: list[Event] = []
    async with ledger.member("a", on_acquired=told.append) as a:
        await until(lambda: len(told) == 4, ledger.alone_s)
        assert all_led(a)
        assert {(type(event), event.partition) for event in told} == {
            (Acquired, partition) for partition in range(4)
        }


async def test_times_and_modes_that_make_no_sense_are_refused(ledger: Ledger) -> None:
    with pytest.raises((ValueError, RequestFailed), match=r"sometimes|mode is one of"):
        async with ledger.member("a", "sometimes"):
            raise AssertionError


async def test_an_ended_member_leads_nothing_and_its_waits_end(ledger: Ledger) -> None:
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    async with asyncio.timeout(2 * ledger.alone_s):
        async with ledger.member("a", NON_EXCLUSIVE) as a:
            work = asyncio.create_task(a.while_leading(7, step))
            events = asyncio.create_task(collect(a.events()))
            await until(lambda: all_led(a) and steps > 3, ledger.alone_s)
        assert not any(a.leads(role) for role in ROLES)
        await work
        assert [type(event) for event in await events] == [Acquired] * 4 + [Revoked] * 4


@pytest.mark.thorough
async def test_proofs_are_requested_without_a_call(ledger: Ledger) -> None:
    async with ledger.member("a") as a:
        await until(lambda: all_led(a), ledger.alone_s)
        end = now() + ledger.window_s
        await until(lambda: now() > end and all_led(a), ledger.succession_s)


async def test_roles_of_a_new_member_are_revoked_others_are_kept(ledger: Ledger) -> None:
    told: list[Event] = []
    callbacks = dict.fromkeys(("on_acquired", "on_revoked", "on_fenced"), told.append)
    async with ledger.member("a", **callbacks) as a:
        await until(lambda: all_led(a), ledger.alone_s)
        async with ledger.member("b") as b:
            await until(lambda: shared(a, b), ledger.shared_s)
            theirs = {event.partition for event in told[:4]}
            lost = {event.partition for event in told if not isinstance(event, Acquired)}
            mine = {role % 4 for role in ROLES if a.leads(role)}
            assert theirs == {0, 1, 2, 3}
            assert len(mine) == 2
            assert lost >= theirs - mine
            assert mine.isdisjoint({role % 4 for role in ROLES if b.leads(role)})
        await until(lambda: all_led(a), ledger.shared_s)


async def test_non_exclusive_roles_keep_a_leader_while_members_join(ledger: Ledger) -> None:
    async with ledger.member("a", NON_EXCLUSIVE) as a:
        await until(lambda: all_led(a), ledger.alone_s)
        tokens = {role: a.token(role) for role in ROLES}
        members = [a]
        gap = asyncio.create_task(until(lambda: not all_led(*members), 60.0))
        async with ledger.member("b", NON_EXCLUSIVE) as b:
            members.append(b)
            await until(lambda: any(b.leads(role) for role in ROLES), ledger.shared_s)
            assert not gap.done()
            assert all(b.token(role) > tokens[role] for role in ROLES if b.leads(role))
            gap.cancel()


async def test_no_member_leads_before_the_last_one_has_cleaned_up(ledger: Ledger) -> None:
    said: list[tuple[str, int]] = []
    begun: list[int] = []

    async def clean_up(event: Revoked) -> None:
        assert event.protected(now())
        assert not a.leads(event.partition)
        await asyncio.sleep(0.05)
        said.append(("a has cleaned up", event.partition))

    def begin(event: Acquired) -> None:
        begun.append(event.partition)
        said.append(("b begins", event.partition))

    async with ledger.member("a", on_revoked=clean_up) as a:
        await until(lambda: all_led(a), ledger.alone_s)
        async with ledger.member("b", on_acquired=begin) as b:
            await until(lambda: shared(a, b), ledger.shared_s)
            # It leads a moment before its callback runs.
            await until(lambda: len(begun) == 2, ledger.shared_s)
    for partition in begun:
        cleaned_up = said.index(("a has cleaned up", partition))
        assert cleaned_up < said.index(("b begins", partition))


@pytest.mark.thorough
async def test_a_member_without_the_ledger_can_still_leave(ledger: Ledger) -> None:
    async with asyncio.timeout(ledger.alone_s + 2 * ledger.succession_s):
        async with ledger.member("a", NON_EXCLUSIVE) as a:
            await until(lambda: all_led(a), ledger.alone_s)
            ledger.kill("a")
        assert not any(a.leads(role) for role in ROLES)


async def test_an_error_of_a_step_is_its_callers_and_ends_no_role(ledger: Ledger) -> None:
    async with ledger.member("a", NON_EXCLUSIVE) as a:
        with pytest.raises(LookupError, match="a step's own"):
            async with asyncio.timeout(ledger.alone_s):
                await a.while_leading(7, refuse)
        assert a.leads(7)
