"""The calm view: stuttering networks change it rarely, and never by a healthy member."""

from __future__ import annotations

import pytest

from gossip import Change, Config, Member, State
from gossip.stability import StableView, View
from tests.gossip.rig import peer
from tests.gossip.scenarios.trial import LAN, acquainted
from tests.gossip.world import Node, World

CONFIG = Config.lan()


class Calm:
    """The calm views of all members of a world, looked at once a second."""

    def __init__(self, world: World) -> None:
        names = frozenset(world.nodes)
        self.views = {name: [StableView(CONFIG, names)] for name in world.nodes}
        self.seen = {name: {view[0].view.names} for name, view in self.views.items()}
        self._told = {name: len(world.nodes[name].changes) for name in world.nodes}
        self._world = world

    def look(self) -> None:
        for name, node in self._world.nodes.items():
            view = self.views[name][0]
            for at_s, change in node.changes[self._told[name] :]:
                view.changed(change, at_s)
            self._told[name] = len(node.changes)
            if view.look(_reporters(node), self._world.now):
                self.seen[name].add(view.view.names)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self._world.run(1)
            self.look()


def _reporters(node: Node) -> dict[str, int]:
    suspicions = node.swim.membership.suspicions
    return {name: len(suspicion.reporters) for name, suspicion in suspicions.items()}


@pytest.mark.parametrize(
    ("count", "bad"),
    [
        pytest.param(100, 3, marks=pytest.mark.thorough),
        pytest.param(1000, 10, marks=pytest.mark.slow),
    ],
)
def test_23_members_that_hear_only_half_of_the_time(count: int, bad: int) -> None:
    world = acquainted(1, count)
    calm = Calm(world)
    sick = [f"n{number}" for number in range(count // 2, count // 2 + bad)]
    for _ in range(5):
        world.network.deaf.update(sick)
        calm.run(20)
        world.network.deaf.clear()
        calm.run(20)
    well = [name for name in world.nodes if name not in sick]
    assert max(len(calm.seen[name]) for name in well) <= 2
    flaps = [name for _, who, name in world.told(State.DEAD) if who in well]
    assert len(flaps) > bad * len(well)  # The detector itself told each of them several times.


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_24_members_that_lose_four_fifths(count: int) -> None:
    world = acquainted(1, count)
    calm = Calm(world)
    sick = [f"n{number}" for number in range(count // 100)]
    world.network.loss_at = dict.fromkeys(sick, 0.8)
    calm.run(300)
    well = [name for name in world.nodes if name not in sick]
    blamed = {name for _, who, name in world.told(State.DEAD) if who in well}
    assert blamed <= set(sick)
    changes = sum(calm.views[name][0].view.number for name in well)
    told = sum(
        1
        for name in well
        for _, change in world.nodes[name].changes
        if change.member.is_live is not (change.previous in (State.ALIVE, State.SUSPECT))
    )
    assert changes <= max(0.1 * told, len(well))


def gone(name: str) -> Change:
    return Change(peer(name, state=State.DEAD), State.SUSPECT)


def back(name: str) -> Change:
    return Change(peer(name, incarnation=11), State.DEAD)


def test_changes_of_one_moment_make_one_view() -> None:
    stable = StableView(LAN, "abcd")
    stable.changed(gone("a"), 10.0)
    stable.changed(gone("b"), 11.0)
    assert not stable.look({}, 11.9)
    assert stable.look({}, 12.0)
    assert stable.view == View(1, frozenset("cd"))
    assert not stable.look({}, 100.0)


def test_while_somebody_is_half_accused_the_view_waits_but_not_for_ever() -> None:
    stable = StableView(LAN, "abcd")
    stable.changed(gone("a"), 10.0)
    assert not stable.look({"b": 1}, 20.0)
    assert not stable.look({"b": LAN.confirmations_max}, 20.0)
    assert stable.look({"b": LAN.confirmations_max + 1}, 20.0)
    stable.changed(gone("c"), 30.0)
    assert not stable.look({"b": 1}, 89.9)
    assert stable.look({"b": 1}, 90.0)


def test_who_comes_back_must_stay_and_longer_each_time() -> None:
    stable = StableView(LAN, "ab")
    now, waits = 0.0, []
    for _ in range(3):
        stable.changed(gone("a"), now)
        assert stable.look({}, now + 2.0)
        stable.changed(back("a"), now + 5.0)
        waited = 2.0
        while not stable.look({}, now + 5.0 + waited):
            waited += 1.0
        waits.append(waited)
        now += 5.0 + waited
    assert 30.0 < waits[0] < waits[1] < waits[2]


def test_a_newcomer_need_not_wait() -> None:
    stable = StableView(LAN, "a")
    newcomer: Member = peer("b")
    stable.changed(Change(newcomer, None), 1.0)
    assert stable.look({}, 3.0)
    assert stable.view.names == frozenset("ab")
