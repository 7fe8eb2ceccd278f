"""Faults for a simulated vote: its leader is cut off, stopped, killed, or half heard."""

from collections.abc import Callable
from random import Random

from docstore.ownership.by_vote import Times
from docstore.ownership.elector import Elector
from docstore.testing.simulation.electors import RHO, Electors

QUICK = Times(heartbeat_s=0.1, patience_s=0.4)
"""More elections in the same time."""


def elected(arena: Electors, *, but: str = "", within_s: float = 10.0) -> str:
    """Let time pass until a process other than `but` leads; return its name."""
    end = arena.world.now + within_s
    while arena.leaders() in ([], [but]):
        assert arena.world.now < end, "no process was elected"
        arena.run(0.005)
    return arena.leaders()[0]


def storm(arena: Electors, seconds: float) -> None:
    """Cause one fault after the other, most often to the leader; then heal all."""
    rng, end = Random(arena.world.seed), arena.world.now + seconds
    names = list(arena.processes)
    while arena.world.now < end:
        name = next(iter(arena.leaders()), rng.choice(names))
        match rng.randrange(8):
            case 0 | 1:
                arena.cut(name)
            case 2:
                other = rng.choice(names)
                arena.network.cuts |= {(name, other), (rng.choice(names), name)}
            case 3:
                arena.pause(name, 3 * rng.random())
            case 4:
                arena.crash(name)
            case 5:
                arena.transfer(name, rng.choice(["", *names]))
            case 6:
                arena.restart(rng.choice(names))
            case _:
                arena.heal()
        arena.run(rng.random() * 2 * arena.times.patience_s)
        if rng.random() < 0.5:
            arena.heal()
        restart_all(arena, lambda: rng.random() < 0.5)
    arena.heal()
    restart_all(arena)


def restart_all(arena: Electors, is_meant: Callable[[], bool] = lambda: True) -> None:
    """Start the processes that are down, or those of them that are meant."""
    for name, process in arena.processes.items():
        if process.elector is None and is_meant():
            arena.restart(name)


def weather(seed: int, make: Callable[..., Elector] = Elector) -> None:
    """Cause faults for thirty seconds; then all processes must know one leader."""
    size = (3, 5, 4, 3)[seed % 4]
    arena = Electors(size, seed=seed, loss=0.05, times=QUICK, make=make)
    arena.network.weather.straggle = (0.02, 0.3)[seed % 2]
    storm(arena, 30)
    arena.network.weather.straggle = arena.network.weather.loss = 0.0
    arena.run(5)
    [leader] = arena.leaders()
    assert {arena.generation(name) for name in arena.processes} == {arena.generation(leader)}


def half_heard(seed: int, make: Callable[..., Elector] = Elector) -> tuple[Electors, str, str, str]:
    """Return a group of three; one does not hear the leader, and asks the third for its vote.

    The leader's clock is slow, so it trusts its proof for long; those of the others are fast.
    """
    arena = Electors(3, seed=seed, times=Times(heartbeat_s=0.1, patience_s=2.4), make=make)
    for process in arena.processes.values():
        process._rate = 1 + RHO
    leader = elected(arena)
    deaf, third = (name for name in "abc" if name != leader)
    process = arena.processes[leader]
    process._offset_s += (process._rate - (1 - RHO)) * arena.world.now
    process._rate = 1 - RHO
    arena.network.cuts |= {(leader, deaf), (deaf, leader)}
    arena.run(10)
    assert arena.leaders() == [leader]
    return arena, leader, deaf, third


def restart_third(seed: int, make: Callable[..., Elector] = Elector) -> None:
    arena, _, _, third = half_heard(seed, make)
    arena.restart(third)
    arena.run(5)


def cut_leader(seed: int, make: Callable[..., Elector] = Elector) -> None:
    arena, leader, _, _ = half_heard(seed, make)
    arena.cut(leader)
    elected(arena, but=leader)
