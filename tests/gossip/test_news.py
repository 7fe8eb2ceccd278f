"""News for applications: every pair of states, bounded buffers, joins, verdicts."""

import asyncio

import pytest

from gossip import Change, State, news
from gossip.errors import JoinFailed, NameConflict
from gossip.news import Failed, Joined, Left, NewsLost, Recovered, Suspected, Updated, news_of
from gossip.subscription import BUFFERED_MAX, Subscription
from tests.gossip.live import Launch, sees, until
from tests.gossip.rig import peer

TOLD = {
    (None, State.ALIVE): Joined,
    (None, State.SUSPECT): Joined,
    (None, State.DEAD): None,
    (None, State.LEFT): None,
    (State.ALIVE, State.ALIVE): Updated,
    (State.ALIVE, State.SUSPECT): Suspected,
    (State.ALIVE, State.DEAD): Failed,
    (State.ALIVE, State.LEFT): Left,
    (State.SUSPECT, State.ALIVE): Recovered,
    (State.SUSPECT, State.SUSPECT): Updated,
    (State.SUSPECT, State.DEAD): Failed,
    (State.SUSPECT, State.LEFT): Left,
    (State.DEAD, State.ALIVE): Joined,
    (State.DEAD, State.SUSPECT): Joined,
    (State.DEAD, State.DEAD): None,
    (State.DEAD, State.LEFT): None,
    (State.LEFT, State.ALIVE): Joined,
    (State.LEFT, State.SUSPECT): Joined,
    (State.LEFT, State.DEAD): None,
    (State.LEFT, State.LEFT): None,
}


def test_every_change_of_state_has_its_word() -> None:
    assert len(TOLD) == 5 * 4
    for (before, after), word in TOLD.items():
        said = news_of(Change(peer("a", state=after), before))
        assert (type(said) if said is not None else None) is word, (before, after)


async def test_49_a_reader_that_never_reads_loses_news_and_gets_their_number() -> None:
    reader = Subscription()
    joins = [Joined(peer("a", incarnation=number)) for number in range(5000)]
    for said in joins:
        reader.put(said)
    first = [await anext(reader) for _ in range(BUFFERED_MAX)]
    assert first == joins[:BUFFERED_MAX]
    later = Joined(peer("b"))
    reader.put(later)
    assert await anext(reader) == NewsLost(5000 - BUFFERED_MAX)
    assert await anext(reader) == later
    reader.close()
    assert [said async for said in reader] == []


async def test_a_slow_reader_gets_the_number_lost_without_further_news() -> None:
    reader = Subscription()
    for number in range(BUFFERED_MAX + 3):
        reader.put(Joined(peer("a", incarnation=number)))
    for _ in range(BUFFERED_MAX):
        await anext(reader)
    assert await anext(reader) == NewsLost(3)


async def test_a_join_returns_with_the_first_seed_that_answers(launch: Launch) -> None:
    first, second = await launch("a"), await launch("b")
    unreachable = ("127.0.0.1", 9)
    report = await second.join([unreachable, first.address])
    assert report.ok == [first.address]
    assert sees(second, "a") is State.ALIVE
    await until(lambda: report.failed.get(unreachable) == "connection refused")


async def test_a_join_without_an_answer_reports_why_and_continues(launch: Launch) -> None:
    agent = await launch("a")
    with pytest.raises(JoinFailed, match=r"127\.0\.0\.1:9 connection refused"):
        await agent.join([("127.0.0.1", 9)], timeout_s=0.3)
    with pytest.raises(JoinFailed, match="0 seeds"):
        await agent.join([], timeout_s=0.05)


async def test_28_a_taken_name_is_refused_and_reported_to_its_holder(launch: Launch) -> None:
    first = await launch("a")
    witness = await launch("b", first)
    await until(lambda: sees(witness, "a") is State.ALIVE)
    readers = [agent.events() for agent in (first, witness)]
    second = await launch("a")
    with pytest.raises(NameConflict, match="has the name a already"):
        await second.join([witness.address])
    async with asyncio.timeout(10.0):
        for reader in readers:
            async for said in reader:
                if isinstance(said, news.Conflict):
                    assert (said.name, said.held) == ("a", first.address)
                    break
    assert sees(witness, "a") is State.ALIVE


async def test_a_verdict_can_be_explained(launch: Launch) -> None:
    first = await launch("a")
    second = await launch("b", first)
    third = await launch("c", first)
    await until(lambda: all(sees(agent, "c") for agent in (first, second)))
    assert first.explain("c") == ()
    await third.stop()
    await until(lambda: sees(first, "c") is State.DEAD and sees(second, "c") is State.DEAD)
    moments = first.explain("c")
    assert moments[-1].state is State.DEAD
    causes = " ".join(moment.cause for agent in (first, second) for moment in agent.explain("c"))
    assert "refused the connection" in causes
    assert {moment.reporter for moment in moments} <= {"a", "b"}


async def test_the_news_of_a_life_come_in_order(launch: Launch) -> None:
    first = await launch("a")
    reader = first.events()
    second = await launch("b", first)
    await until(lambda: sees(first, "b") is State.ALIVE)
    await second.leave()
    await until(lambda: sees(first, "b") is State.LEFT)
    await first.stop()
    assert [type(said) async for said in reader] == [Joined, Left]
