"""Scenarios N01 to N15 of roles by induction, on each ledger (scenario N18)."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing

from docstore.client.boot_clock import boot_clock
from docstore.ownership.by_induction import Acquired, Fenced
from tests.kafka.ledgers import Ledger, Role

ROLES = range(10)
now = boot_clock()


async def until(condition: Callable[[], bool], within_s: float) -> float:
    """Return after how long it holds, in seconds; fail if it never does."""
    began = now()
    while not condition():
        assert now() - began < within_s, "too late"
        await asyncio.sleep(0.005)
    return now() - began


def all_led(*members: Role) -> bool:
    return all(any(member.leads(role) for member in members) for role in ROLES)


def shared(*members: Role) -> bool:
    """Say whether all roles are led, by all of the members."""
    return all_led(*members) and all(any(map(each.leads, ROLES)) for each in members)


async def test_n01_one_member_leads_all_roles(ledger: Ledger) -> None:
    began = now()
    async with ledger.member("a") as a:
        await until(lambda: all_led(a), ledger.alone_s - (now() - began))
        assert a.leads_key("EURUSD")
        assert a.fence(7) == f"roles/{a.fence(7).split('/')[1]}/7:{a.token(7)}"


async def test_n05_a_member_that_is_cut_off_says_no_before_another_says_yes(
    ledger: Ledger,
) -> None:
    async with ledger.member("a") as a, ledger.member("b") as b:
        await until(lambda: shared(a, b), ledger.shared_s)
        role = next(role for role in ROLES if a.leads(role))
        assert not b.leads(role)
        ledger.cut("a")
        last_no_later_than = now()

        def b_leads() -> bool:
            nonlocal last_no_later_than
            if a.leads(role):
                assert not b.leads(role)
                last_no_later_than = now()
            return b.leads(role)

        await until(b_leads, ledger.succession_s)
        assert not a.leads(role)
        assert last_no_later_than < now()
        ledger.heal("a")


async def test_n07_a_crash_is_succeeded_with_greater_tokens(ledger: Ledger) -> None:
    async with ledger.member("a") as a, ledger.member("b") as b:
        await until(lambda: shared(a, b), ledger.shared_s)
        theirs = [role for role in ROLES if a.leads(role)]
        tokens = {role: a.token(role) for role in theirs}
        ledger.kill("a")
        await until(lambda: all(b.leads(role) for role in theirs), ledger.succession_s)
        assert all(b.token(role) > tokens[role] for role in theirs)
        ledger.heal("a")


async def test_n08_silence_fences_and_proofs_bring_the_same_tenure_back(ledger: Ledger) -> None:
    async with (
        asyncio.timeout(2 * ledger.succession_s),
        ledger.member("a") as a,
        aclosing(a.events()) as events,
    ):
        first = [await anext(events) for _ in range(4)]
        assert {type(event) for event in first} == {Acquired}
        ledger.mute()
        fenced = [await anext(events) for _ in range(4)]
        assert {(type(event), event.why) for event in fenced} == {(Fenced, "silent")}
        assert not any(a.leads(role) for role in ROLES)
        ledger.unmute()
        again = [await anext(events) for _ in range(4)]
        assert sorted(again) == sorted(first)
        assert all_led(a)


async def test_n15_without_a_heartbeat_nothing_is_led_although_no_event_came(
    ledger: Ledger,
) -> None:
    async with ledger.member("a") as a:
        await until(lambda: all_led(a), ledger.alone_s)
        latest = now() + ledger.window_s
        while now() < latest:  # Its loop is blocked, so nothing can reach it.
            time.thread_time()
        assert not any(a.leads(role) for role in ROLES)
