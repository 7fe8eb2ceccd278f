"""The extended form is stored when somebody asks for it and all members read it, not before."""

from functools import partial

import pytest

from docstore.documents.events import ChangeAsked, LinkMade, Requested
from docstore.documents.membership.change import Change, ChangeRefused, Kind
from docstore.documents.membership.stored_forms import with_extended_form
from docstore.documents.replica import Replica
from docstore.documents.timing import ReplicaConfig
from docstore.model.identity import unpack_identity
from docstore.model.operation import Answer, Operation
from docstore.ownership.configuration import EXTENDED, FIRST_PROTOCOL
from docstore.testing.simulation.world import World
from docstore.wire.link_messages import PROTOCOL
from tests.sim.cluster import Cluster

ASKED = Change(Kind.EXTENDED_FORM)


class Mixed(Cluster):
    """Three nodes, of which one speaks an earlier protocol."""

    earlier = "n2"

    def link(self, here: str, there: str) -> None:
        spoken = EXTENDED - 1 if self.earlier in (here, there) else PROTOCOL
        self.processes[here].feed(LinkMade(there, spoken))

    @property
    def leader(self) -> Replica:
        replicas = [process.replica for process in self.processes.values() if process.up]
        return next(each for each in replicas if each.register.stored.leads)

    @property
    def stored(self) -> set[int]:
        replicas = [process.replica for process in self.processes.values() if process.up]
        return {each.core.configuration.stored_protocol for each in replicas}


def group_of_three() -> Mixed:
    world = World(1)
    group = Mixed(world, 3, factor=None, slots=2, config=ReplicaConfig(), changes=True)
    world.run(5.0)
    return group


def test_a_member_of_an_earlier_version_or_without_a_link_stands_in_the_way() -> None:
    group = group_of_three()
    group.ask(ASKED)
    group.world.run(8.0)
    assert group.stored == {FIRST_PROTOCOL}
    with pytest.raises(ChangeRefused, match=r"not all members .*\['n2'\]") as refused:
        with_extended_form(group.leader.core)
    assert (refused.value.status, refused.value.code) == (409, "earlier-version")
    group.earlier = ""
    group.crash("n2")
    group.world.run(10.0)
    with pytest.raises(ChangeRefused, match="n2"):
        with_extended_form(group.leader.core)
    group.start("n2")
    group.world.run(12.0)
    assert group.stored == {FIRST_PROTOCOL}, "nobody has asked"
    group.ask(ASKED)
    group.world.run(14.0)
    assert group.stored == {EXTENDED}
    number = group.configuration.id
    assert with_extended_form(group.leader.core).id == number
    group.ask(ASKED)
    group.world.run(16.0)
    assert group.configuration.id == number


def test_one_change_at_a_time() -> None:
    group = group_of_three()
    group.earlier = ""
    for name in ("n0", "n1"):
        group.flap(name, "n2")
    group.world.run(6.0)
    leader = next(name for name in group.names if group.processes[name].replica is group.leader)
    process = group.processes[leader]
    removal = Change(Kind.REMOVE, next(name for name in group.names if name != leader), force=True)
    process.feed(ChangeAsked(0, removal))
    while process.replica.core.configuration.id == 1:
        group.world.run(group.world.now + 0.001)
    with pytest.raises(ChangeRefused, match="configuration 2 is"):
        with_extended_form(process.replica.core)


def test_who_made_a_version_is_stored_once_all_members_read_it() -> None:
    group = group_of_three()
    made = iter(range(9))

    def who_made() -> list[str]:
        """Return what versions say that all nodes were asked to make, at owners and elsewhere."""
        answers: list[Answer] = []
        for node in group.names:
            for link in ("/a/1", "/a/2", "/a/3"):
                body = b'{"n":%d}' % next(made)
                operation = Operation(
                    verb="PUT", link=link, body=body, creates=True, principal="ann"
                )
                group.processes[node].request(
                    partial(Requested, operation=operation, deadline=group.world.now + 5.0),
                    answers.append,
                )
        group.world.run(group.world.now + 5.0)
        rows = [answer.row for answer in answers if answer.row is not None]
        assert len(rows) == 9
        return [unpack_identity(row.operation).principal for row in rows]

    assert who_made() == [""] * 9
    group.earlier = ""
    group.crash("n2")
    group.start("n2")
    group.world.run(group.world.now + 5.0)
    made = iter(range(9))
    assert who_made() == [""] * 9, "nobody has asked"
    group.ask(ASKED)
    group.world.run(group.world.now + 5.0)
    made = iter(range(9))
    assert who_made() == ["ann"] * 9
