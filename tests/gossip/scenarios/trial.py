"""Helpers of the scenarios: numbers of seeds, whole groups, and figures over all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pytest

from gossip import Config, State
from tests.gossip.world import World

LAN = Config.lan()


def trials(quick: int, whole: int = 30, *, thorough: int = 0) -> pytest.MarkDecorator:
    """Run a test over `quick` seeds, 0 for none; and over more, and all, when there is time."""
    counts = {quick: (), thorough: pytest.mark.thorough, whole: pytest.mark.slow}
    seeds = [
        pytest.param(range(1, count + 1), marks=marks, id=f"{count}-seeds")
        for count, marks in counts.items()
        if count
    ]
    return pytest.mark.parametrize("seeds", seeds)


def acquainted(seed: int, count: int, config: Config = LAN, *, codec: bool = False) -> World:
    """Return a world in which `count` nodes know each other, a few seconds old."""
    world = World(seed, config, codec=codec)
    world.start_acquainted(count, seeds=("n0",))
    world.run(5)
    return world


def quantile(values: Iterable[float], part: float) -> float:
    """Return the value that `part` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def first_change_s(world: World, name: str, state: State, since_s: float) -> float:
    """Return how long after `since_s` the first application got the change of `name` to `state`."""
    return min(at_s for at_s, _, member in world.changes_to(state) if member == name) - since_s


def last_change_s(world: World, name: str, state: State, since_s: float) -> float:
    """Return how long after `since_s` the last application got that change."""
    return max(at_s for at_s, _, member in world.changes_to(state) if member == name) - since_s


def falsely_dead(world: World, *dead: str) -> set[str]:
    """Return the members that were ever held dead, except those in `dead`."""
    return world.ever(State.DEAD) - set(dead)


def agreement_s(world: World, within_s: float, every_s: float = 0.02) -> float:
    """Return how long it takes until all hold all alive."""
    return world.run_until(world.all_agree, within_s=within_s, every_s=every_s)


def until_all_see(
    world: World, names: Sequence[str], state: State, within_s: float, every_s: float = 0.02
) -> float:
    """Return how long it takes until all hold `names` to be in `state`."""
    wanted = dict.fromkeys(names, state)
    return world.run_until(lambda: world.all_see(wanted), within_s=within_s, every_s=every_s)
