"""What an operator may want of a partition."""

from docstore.streams.events import CommandAsked
from tests.docstore.streams.group import LINK, Group


def test_a_lead_moves_to_the_replica_that_is_named_though_another_is_preferred() -> None:
    group = Group()
    group.create(least=2)
    group.run(1.0)
    group.produce("1")
    assert group.document.leader == "a"
    group.feed(group.controller, CommandAsked(900, LINK, ("lead", "c")))
    group.run(1.0)
    assert group.document.leader == "c"
    assert group.values() == ["1"]
    group.produce("2", at="b")
    assert group.values() == ["1", "2"]
