"""The group stores only what all members read, in whichever versions its nodes return.

Protocols 2 and 3 are made up: each adds to stored data.
"""

from random import Random
from unittest.mock import patch

import msgpack
import pytest

from docstore.documents.membership import notices, replication, stored_protocol
from docstore.documents.timing import ReplicaConfig
from docstore.errors import StoreBroken
from docstore.machines.events import LinkMade
from docstore.ownership import configuration as configurations
from docstore.ownership.configuration import (
    Configuration,
    MemberEntry,
    first_registered,
    unpack_configuration,
    unpack_registered,
)
from docstore.testing.simulation.world import World
from docstore.wire.link_messages import FIRST_PROTOCOL
from tests.sim.cluster import Cluster
from tests.sim.process import Process
from tests.tiers import tiers

OLD, BETWEEN, NEW = FIRST_PROTOCOL, FIRST_PROTOCOL + 1, FIRST_PROTOCOL + 2
NAMES = ("n0", "n1", "n2", "s0", "s1")


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_protocol, "PROTOCOL", NEW)
    monkeypatch.setattr(configurations, "PROTOCOL", NEW)


class Mixed(Cluster):
    """A group whose nodes are of several versions, linked as `founding.py` admits them."""

    def __init__(self, world: World, size: int, protocols: dict[str, int]) -> None:
        self.protocols = protocols
        self.unread: list[str] = []
        """Configurations that a node received or found, and that its version does not read."""
        config = ReplicaConfig()
        super().__init__(
            world, size, factor=3, slots=2, config=config, changes=True, prepare=self._watch
        )

    def _watch(self, process: Process) -> None:
        process.after_step = self._look

    def _look(self, process: Process) -> None:
        latest = process.replica.register.stored.latest
        for each in (process.replica.core.configuration, latest):
            if each.stored_protocol > self.protocols[process.name]:
                self.unread.append(f"{process.name} got {each.id} at {self.world.now}")

    def stored(self, name: str) -> int:
        """Return the protocol in which a node stores."""
        return self.processes[name].replica.core.configuration.stored_protocol

    def link(self, here: str, there: str) -> None:
        protocol = min(self.protocols[here], self.protocols[there])
        if protocol >= max(self.stored(here), self.stored(there)):
            self.processes[here].feed(LinkMade(there, protocol))

    def restart(self, name: str, protocol: int) -> None:
        """Restart a node, in another version if that reads the disk."""
        self.crash(name)
        kept = self.processes[name].disk.configuration
        assert kept is not None
        registered = unpack_registered(kept)
        if max(registered.decided.stored_protocol, registered.latest.stored_protocol) <= protocol:
            self.protocols[name] = protocol
        self.world.after(0.4, self.start, name)


def storm(seed: int) -> Mixed:
    """Play a minute in which nodes come back in versions drawn at random, then in the newest."""
    world, rng = World(seed), Random(seed)
    size = rng.choice((3, 3, 4, 5))
    group = Mixed(world, size, {f"{kind}{n}": OLD for kind in "ns" for n in range(size + 2)})
    for until in range(2, 30):
        world.run(until + rng.random())
        name = rng.choice(group.names)
        if group.processes[name].up:
            group.restart(name, rng.choice((OLD, BETWEEN, BETWEEN, NEW, NEW)))
    for number, name in enumerate(group.names):
        world.run(40.0 + number)
        group.restart(name, NEW)
    world.run(60.0)
    return group


@pytest.mark.parametrize("seed", tiers(range(4), range(4, 30)))
def test_no_member_stores_data_that_another_cannot_read(seed: int) -> None:
    group = storm(seed)
    assert group.unread == []
    assert {group.stored(name) for name in group.names} == {NEW}


def one_by_one(seed: int) -> tuple[Mixed, list[int]]:
    """Upgrade three nodes; return the stored protocol before each upgrade."""
    world = World(seed)
    group = Mixed(world, 3, dict.fromkeys(NAMES, OLD))
    before = []
    for number, name in enumerate(group.names):
        world.run(5.0 * number + 5)
        before.append(max(map(group.stored, group.names)))
        group.restart(name, BETWEEN if name == "n1" else NEW)
    world.run(25.0)
    return group, before


def test_the_stored_protocol_is_the_least_that_a_member_speaks() -> None:
    group, before = one_by_one(1)
    assert before == [OLD] * 3
    assert {group.stored(each) for each in group.names} == {BETWEEN}
    group.restart("n1", NEW)
    group.world.run(35.0)
    assert {group.stored(each) for each in group.names} == {NEW}


def test_a_build_that_asks_some_members_stores_unreadable_data() -> None:
    with patch.object(stored_protocol, "min", max, create=True):
        assert any(one_by_one(seed)[1] != [OLD] * 3 for seed in range(8))


def back_meanwhile(seed: int) -> Mixed:
    """Downgrade a node as soon as another one has stored a configuration of the new protocol."""
    world = World(seed)
    group = Mixed(world, 3, {**dict.fromkeys(NAMES, NEW), "n2": OLD})
    world.run(5.0)
    group.restart("n2", NEW)

    def look(process: Process) -> None:
        Mixed._look(group, process)
        latest = process.replica.register.stored.latest
        if group.protocols["n2"] == NEW and latest.stored_protocol == NEW and process.name != "n2":
            group.protocols["n2"] = OLD
            world.after(0.0, group.crash, "n2")
            world.after(0.001, group.start, "n2")

    for process in group.processes.values():
        process.after_step = look
    world.run(20.0)
    return group


def test_a_downgraded_node_gets_no_configuration_that_it_cannot_read() -> None:
    for seed in range(5):
        group = back_meanwhile(seed)
        assert group.unread == []
        assert (group.stored("n0"), group.stored("n2")) == (NEW, OLD)
    patched = [patch.object(each, "may_tell", lambda *_: True) for each in (replication, notices)]
    with patched[0], patched[1]:
        assert any(back_meanwhile(seed).unread for seed in range(5))


def configuration(stored_protocol: int) -> Configuration:
    members = tuple(MemberEntry(name, f"disk of {name}", "host", 7000) for name in "abc")
    return Configuration(1, "c", 16, 8, None, members, stored_protocol=stored_protocol)


def test_additions_of_a_later_version_to_a_configuration_are_ignored() -> None:
    packed = msgpack.unpackb(configuration(BETWEEN).pack())
    assert unpack_configuration(msgpack.packb([*packed, "later"])) == configuration(BETWEEN)


def test_a_version_that_cannot_read_the_stored_data_does_not_start() -> None:
    kept = first_registered(configuration(NEW + 1)).pack()
    what = rf"what protocol {NEW + 1} has added, and this version reads up to {NEW}: start the"
    with pytest.raises(StoreBroken, match=what):
        unpack_registered(kept)
