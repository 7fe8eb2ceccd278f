"""Followers leave the live replica set when they fall behind."""

from tests.docstore.streams.group import Group


def test_a_follower_that_stops_after_a_quiet_time_does_not_hold_commits_up_for_good() -> None:
    group = Group()
    group.create(least=2)
    group.run(3.0)
    assert [node for node, _ in group.document.lrs] == ["a", "b", "c"]
    group.hold_disk("c")  # As a process that was stopped: its connections stay open.
    request = group.produce("1")
    group.run(2.5)
    assert group.produced(request).base == 0
    assert [node for node, _ in group.document.lrs] == ["a", "b"]
