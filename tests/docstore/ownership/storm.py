"""Bad days for a simulated vote: who leads is cut off, stopped, killed; and rules that lack."""

from collections.abc import Callable
from random import Random

from docstore.ownership.by_vote import Role, Times
from docstore.ownership.elector import Elector
from docstore.ownership.elector_messages import Follow
from docstore.simulation.electors import Electors

QUICK = Times(heartbeat_s=0.1, patience_s=0.4)
"""More elections in the same time."""


def storm(arena: Electors, seconds: float) -> None:
    """Do one bad thing after the other, to the leader more often than to others; then heal all."""
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
    """Start all that are down, or those that are meant."""
    for name, process in arena.processes.items():
        if process.elector is None and is_meant():
            arena.restart(name)


# Electors that lack one rule each.


class Fickle(Elector):
    """Votes in earnest although it hears a leader, or has just started."""

    def _is_bound(self, now: float) -> bool:
        return False


class Hasty(Elector):
    """Votes as soon as it has started."""

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        self._bound_until = -1.0


class Stubborn(Elector):
    """Leads for as long as it hears of no other."""

    def leads(self, now: float) -> bool:
        return self.role is Role.LEADER

    def _check_quorum(self, now: float) -> None:
        pass


class Exact(Elector):
    """Trusts its clock: no allowance for rates."""

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **(settings | {"rho": 0.0}))  # type: ignore[arg-type]


class Receiver(Elector):
    """Counts an answer from when it came."""

    def _followed_by(self, sender: str, follow: Follow, now: float) -> None:
        super()._followed_by(sender, follow._replace(sent_s=now), now)


class Forgetful(Elector):
    """Votes as if each start were its first."""

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **(settings | {"stored": (0, "")}))  # type: ignore[arg-type]


class Clinging(Elector):
    """Hands over to a successor, and goes on believing."""

    def leads(self, now: float) -> bool:
        is_handing = self.role is Role.LEADER and bool(self._successor)
        return is_handing or super().leads(now)
