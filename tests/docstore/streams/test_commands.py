"""Commands of operators to a partition."""

from docstore.streams.events import CommandAsked
from docstore.streams.replica_set import Resolution
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


def test_an_unclean_election_prefers_replicas_with_all_records() -> None:
    group = Group()
    group.create(least=2)
    group.run(1.0)
    group.produce("1")
    group.feed(group.controller, CommandAsked(900, LINK, ("elect", True)))
    group.run(1.0)
    assert (group.document.epoch, group.document.unclean) == (2, 0)
    assert {node for node, _ in group.document.lrs} == {"a", "b", "c"}
    assert group.alarms == []
    assert group.values() == ["1"]


def test_an_unclean_election_elects_a_live_replica_and_is_marked() -> None:
    group = Group()
    group.create(least=1)
    group.run(1.0)
    group.crash("b")
    group.crash("c")
    group.run(1.0)
    group.produce("1")
    group.crash("a")
    group.start("b")
    group.govern("b")
    group.run(3.0)
    assert group.document.resolution is Resolution.OFFLINE
    group.feed(group.controller, CommandAsked(900, LINK, ("elect", True)))
    group.run(3.0)
    assert (group.document.leader, group.document.unclean) == ("b", group.document.epoch)
    assert [alarm for alarm in group.alarms if "may have lost records" in alarm]
    assert group.values() == []
