"""Roles on Kafka without one of their rules, and in the paper's plain form.

problems = run(seed=7, rules="no-era").problems
"""

from collections.abc import Callable

from docstore.ownership.by_induction import Event, Mode, Windows
from docstore.ownership.on_kafka import Attempt, Membership, windows_on_kafka
from docstore.testing.simulation.world import World
from tests.sim.kafka import RATE_ERROR, SESSION_S, Arena

WINDOW_S = 0.7
WHOLE_S = 12.0


class WithoutEra(Membership):
    """Keep partitions until the next assignment: a commit proves them meanwhile, too."""

    def revoked(self) -> list[Event]:
        return []

    def assigned(self, partitions: frozenset[int]) -> None:
        kept = {each: token for each, token in self._tokens.items() if each in partitions}
        for lost in self.induced.held.keys() - partitions:
            self.induced.revoked(lost)
        self.released()
        self._assigned, self._tokens = frozenset(partitions), kept

    def accepted(self, attempt: Attempt, now: float) -> list[Event]:
        return super().accepted(attempt._replace(era=self.era), now)


class ByReceipt(Membership):
    """Treat a record that arrives as a proof of its partition at that time."""

    fetched: frozenset[int] = frozenset()

    def assigned(self, partitions: frozenset[int]) -> None:
        super().assigned(partitions)
        self.fetched = frozenset(partitions)  # Until the next assignment.

    def accepted(self, attempt: Attempt, now: float) -> list[Event]:
        return []

    def received(self, partition: int, now: float) -> list[Event]:
        return self.induced.confirmed(partition, 0, now, now)


def _windows(grace_s: float | None = None) -> Windows:
    right = windows_on_kafka(Mode.EXCLUSIVE, SESSION_S, WINDOW_S, RATE_ERROR)
    if grace_s is None:
        return right
    return Windows(
        mode=right.mode,
        session_s=right.session_s,
        heartbeat_s=right.heartbeat_s,
        window_s=right.window_s,
        grace_s=grace_s,
        rate_error=RATE_ERROR,
    )


RULES: dict[str, Callable[[World], Arena]] = {
    "all": lambda world: Arena(world, _windows(), Membership),
    "no-grace": lambda world: Arena(world, _windows(0.0), Membership),
    "no-era": lambda world: Arena(world, _windows(), WithoutEra),
    "receipt-as-proof": lambda world: Arena(world, _windows(), ByReceipt),
    "as-in-the-paper": lambda world: Arena(world, _windows(0.0), ByReceipt),
}
"""Missing rule -> arena without it. The plain form: receipt, T < S, no grace, no token."""


def run(seed: int, rules: str = "all") -> Arena:
    """Play one seed, and return the arena as it is at the end."""
    arena = RULES[rules](World(seed))
    arena.world.run(WHOLE_S)
    return arena
