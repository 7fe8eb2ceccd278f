"""Who reads a partition, and waits."""

from docstore.streams.effects import Records
from docstore.streams.events import FetchAsked
from tests.docstore.streams.group import LINK, Group


def test_who_waits_at_a_follower_is_answered_once_it_knows_of_a_record() -> None:
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
