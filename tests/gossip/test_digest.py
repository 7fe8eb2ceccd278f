"""Tables compared by sums: the contents of a sum, and the exchange after a difference."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from gossip import Member, State
from gossip.messages import Ack, Digest, DigestAnswer, Ping, Suspect, Sync, SyncAnswer
from gossip.protocol.digest import ALL_BUCKETS, TableDigest, bucket_of, member_hash, within
from gossip.protocol.effects import Ask, Reply
from gossip.protocol.events import (
    Answered,
    Asked,
    DigestExchange,
    SyncDue,
    SyncExchange,
    TimerFired,
    Unanswered,
)
from gossip.protocol.swim import Swim
from tests.gossip.rig import address_of, hear, machine, peer

NAMES = [f"{letter}{number}" for letter in "abcdefgh" for number in range(10)]

beliefs = st.builds(
    peer,
    st.sampled_from(NAMES),
    incarnation=st.integers(1, 3),
    state=st.sampled_from(list(State)),
)


def summed(members: dict[str, Member]) -> TableDigest:
    digest = TableDigest()
    for member in members.values():
        digest.put(None, member)
    return digest


@given(st.lists(beliefs, max_size=60))
def test_the_incremental_sum_equals_the_sum_of_the_table(history: list[Member]) -> None:
    digest = TableDigest()
    held: dict[str, Member] = {}
    for member in history:
        digest.put(held.get(member.name), member)
        held[member.name] = member
    whole = 0
    for member in held.values():
        whole ^= member_hash(member)
    assert digest.whole == whole
    assert digest.packed() == summed(held).packed()


def test_a_suspect_counts_as_alive_and_the_gone_do_not_count() -> None:
    alive = peer("a")
    assert member_hash(alive) == member_hash(dataclasses.replace(alive, state=State.SUSPECT))
    assert member_hash(dataclasses.replace(alive, state=State.DEAD)) == 0
    assert member_hash(dataclasses.replace(alive, state=State.LEFT)) == 0


def test_the_hash_of_a_member_covers_its_own_fields() -> None:
    member = peer("a")
    others = [
        dataclasses.replace(member, incarnation=11),
        dataclasses.replace(member, uid=b"another-"),
        dataclasses.replace(member, meta=b"x"),
    ]
    assert len({member_hash(each) for each in [member, *others]}) == 4


def test_only_the_parts_that_differ_are_named() -> None:
    ours, theirs = summed({"a": peer("a"), "b": peer("b")}), summed({"a": peer("a")})
    assert ours.differing(theirs.packed()) == 1 << bucket_of("b")
    assert ours.differing(ours.packed()) == 0
    members = [peer(name) for name in NAMES]
    part = within(members, 1 << bucket_of("a0"))
    assert {bucket_of(member.name) for member in part} == {bucket_of("a0")}
    assert within(members, ALL_BUCKETS) == tuple(members)


def many() -> Swim:
    """Return a machine that knows more members than fit a whole table."""
    swim = machine(*NAMES)
    assert swim.membership.table.live_count == len(NAMES) + 1 > 64
    return swim


def test_a_ping_carries_the_sum_and_an_equal_one_is_no_news() -> None:
    swim = many()
    whole = swim.membership.table.digest.whole
    [ack] = hear(swim, "a", Ping(1, "me", "a0", whole), now=100.0)
    [message] = [each for each in ack.messages if isinstance(each, Ack)]  # type: ignore[union-attr]
    assert message.state_hash == whole


def test_a_lasting_difference_is_looked_into_and_not_again_at_once() -> None:
    swim = many()
    effects = hear(swim, "a", Ack(1, "a0", 7), now=100.0)
    digest = Digest("me", swim.membership.table.digest.packed())
    assert effects == [Ask(DigestExchange("a0", 10), address_of("a"), digest, 10.0)]
    assert hear(swim, "b", Ack(1, "b0", 7), now=101.0) == []
    swim.step(Unanswered(DigestExchange("a0", 10), is_refused=False), 102.0)
    assert hear(swim, "b", Ack(1, "b0", 7), now=104.9) == []
    assert len(hear(swim, "b", Ack(1, "b0", 7), now=105.1)) == 1


def test_while_news_is_under_way_a_difference_is_no_surprise() -> None:
    swim = many()
    hear(swim, "b", Suspect("c0", 10, "b0"), now=100.0)
    swim.membership.queue.clear()
    assert hear(swim, "a", Ack(1, "a0", 7), now=100.5) == []
    assert len(hear(swim, "a", Ack(1, "a0", 7), now=104.0)) == 1


def test_differing_parts_are_named_and_exchanged() -> None:
    swim, other = many(), machine(*NAMES[1:])
    missing = 1 << bucket_of("a0")
    sums = swim.membership.table.digest.packed()
    [reply] = other.step(Asked(1, Digest("me", sums)), 1.0)
    assert isinstance(reply, Reply)
    assert reply.message == DigestAnswer("me", missing)
    [ask] = swim.step(Answered(DigestExchange("b0", 10), DigestAnswer("b0", missing)), 2.0)
    assert isinstance(ask, Ask)
    assert ask.exchange == SyncExchange("b0", 10)
    assert isinstance(ask.message, Sync)
    assert {bucket_of(member.name) for member in ask.message.members} == {bucket_of("a0")}
    *_, answer = other.step(Asked(2, ask.message), 3.0)
    assert isinstance(answer, Reply)
    assert isinstance(answer.message, SyncAnswer)
    assert {bucket_of(member.name) for member in answer.message.members} == {bucket_of("a0")}
    assert other.membership.table.get("a0") is not None


def test_equal_tables_exchange_nothing_more() -> None:
    swim = many()
    assert swim.step(Answered(DigestExchange("b0", 10), DigestAnswer("b0", 0)), 2.0) == []


def test_a_large_table_is_compared_by_its_sums_and_a_small_one_is_sent() -> None:
    [ask, _] = many().step(TimerFired(SyncDue()), 50.0)
    assert isinstance(ask, Ask)
    assert isinstance(ask.message, Digest)
    [ask, _] = machine("a", "b").step(TimerFired(SyncDue()), 50.0)
    assert isinstance(ask, Ask)
    assert isinstance(ask.message, Sync)
