"""Fetches and waits of readers of a partition."""

from docstore.streams.effects import News, Records
from docstore.streams.events import FetchAsked, NewsAsked, NewsForgotten
from docstore.streams.replica_set import partition_link
from tests.docstore.streams.group import LINK, Group

OTHER = partition_link("t", 1)


def test_a_waiting_fetch_at_a_follower_ends_when_a_record_arrives() -> None:
    group = Group()
    group.create()
    group.run(1.0)
    follower = next(name for name in "abc" if name != group.document.leader)
    deadline = group.now + 10
    event = FetchAsked(9, LINK, ("end", 0), "committed", 1 << 20, deadline, stale=True)
    group.feed(follower, event)
    group.run(0.5)
    assert 9 not in group.outcomes
    group.produce("1")
    group.run(0.5)
    assert group.now < deadline
    found = group.outcomes[9]
    assert isinstance(found, Records)
    assert (found.offset, found.until, len(found.batches)) == (0, 1, 1)


def led() -> Group:
    group = Group()
    group.create()
    group.run(1.0)
    return group


def test_a_wait_for_news_ends_when_a_record_is_committed() -> None:
    group = led()
    leader, deadline = group.document.leader, group.now + 10
    group.feed(leader, NewsAsked(9, [(LINK, 0)], deadline))
    group.feed(leader, NewsAsked(10, [(LINK, 1)], deadline))
    for follower in "abc".replace(leader, ""):
        group.hold_disk(follower)
    group.produce("1", at=leader)
    group.run(0.1)
    assert group.leading().log.end == 1
    assert not {9, 10} & group.outcomes.keys()  # It is not committed.
    for follower in "abc".replace(leader, ""):
        group.release_disk(follower)
    group.run(0.5)
    assert group.outcomes[9] == News()
    assert 10 not in group.outcomes
    group.produce("2")
    group.run(0.5)
    assert group.outcomes[10] == News()
    group.feed(leader, NewsAsked(11, [(LINK, 1)], deadline))
    assert group.outcomes[11] == News()


def test_a_wait_for_news_ends_at_its_deadline() -> None:
    group = led()
    leader = group.document.leader
    group.feed(leader, NewsAsked(9, [(LINK, 0)], group.now + 1.0))
    group.run(0.9)
    assert 9 not in group.outcomes
    group.run(0.2)
    assert group.outcomes[9] == News()
    group.produce("1")
    group.run(0.1)
    machine = group.machines[leader]
    assert not machine.fetching.news._waiting


def test_a_wait_for_news_ends_when_the_node_no_longer_leads() -> None:
    group = led()
    leader, deadline = group.document.leader, group.now + 10
    follower = "abc".replace(leader, "")[0]
    group.feed(follower, NewsAsked(8, [(LINK, 0)], deadline))
    assert group.outcomes[8] == News()
    group.feed(leader, NewsAsked(9, [(LINK, 0), (OTHER, 0)], deadline))
    assert group.outcomes[9] == News()  # There is no such partition here.
    group.feed(leader, NewsAsked(10, [(LINK, 0)], deadline))
    assert 10 not in group.outcomes
    group.drain(leader)
    group.run(3.0)
    assert group.document.leader != leader
    assert group.outcomes[10] == News()


def test_a_wait_for_news_that_the_client_ends_is_forgotten() -> None:
    group = led()
    leader, deadline = group.document.leader, group.now + 10
    for request in (9, 10):
        group.feed(leader, NewsAsked(request, [(LINK, 0)], deadline))
    group.feed(leader, NewsForgotten(9))
    group.produce("1")
    group.run(0.5)
    assert group.outcomes[10] == News()
    assert 9 not in group.outcomes
    group.feed(leader, NewsForgotten(10))  # It was answered.
    assert not group.machines[leader].fetching.news._waiting
