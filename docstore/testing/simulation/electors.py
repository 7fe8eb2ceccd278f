"""A vote among simulated processes, for tests: bad links, wrong clocks, pauses, crashes.

    arena = Electors(3, seed=7, loss=0.02)
    arena.run(10)
    arena.cut(*arena.leaders())
    arena.run(10)
    assert len(arena.leaders()) == 1

The processes are called "a", "b", "c" and so on. After every step the arena checks that at most one
process leads, that no generation has two leaders, and that a new leader has the greatest generation
so far; else it raises Violation with the seed. The same seed repeats the run. Each clock has its
own rate, up to 2 % off, and its own offset.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import assert_never

from docstore.ownership.by_vote import Recency, Role, Times
from docstore.ownership.elector import Elector
from docstore.ownership.elector_messages import (
    Changed,
    Effect,
    Event,
    Message,
    Received,
    SaveVote,
    Send,
    Tick,
    Transfer,
)
from docstore.testing.simulation.network import Network
from docstore.testing.simulation.world import World

NAMES = "abcdefg"
RHO = 2e-2
TICKS_PER_HEARTBEAT = 4
FSYNC_S_MAX = 0.01


class Violation(AssertionError):
    """Two processes lead at once or in one generation, or a leader has an outdated generation."""


class Process:
    """A process: its clock, its disk, and its elector while it runs."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.stored = (0, "")
        """Generation and vote on the process's disk."""
        self.recency = Recency(0, 0)
        self.elector: Elector | None = None
        self.life = 0
        self.inbox: deque[Event] = deque()
        """Events that wait while the process is paused, or its disk is busy."""
        self.is_writing = False
        self.paused_until = 0.0
        self._world = world
        self._rate = 1 + RHO * (2 * world.rng.random() - 1)
        self._offset_s = world.rng.random() * 1e6

    def clock(self) -> float:
        """Return the time of the process's clock, which also runs while the process is paused."""
        return self._offset_s + self._rate * self._world.now

    def is_still(self) -> bool:
        """Say whether the process is paused, or its disk is busy."""
        return self.is_writing or self._world.now < self.paused_until

    def leads(self) -> bool:
        """Say whether the process would lead if it looked at its clock now."""
        return self.elector is not None and self.elector.leads(self.clock())


class Electors:
    """A group of electors in one thread and in virtual time."""

    def __init__(
        self,
        size: int,
        *,
        seed: int,
        loss: float = 0.0,
        times: Times | None = None,
        make: Callable[..., Elector] = Elector,
    ) -> None:
        """Start `size` processes.

        loss: share of lost datagrams. make: another class of electors, to test other rules.
        """
        self.world = World(seed)
        self.network = Network(self.world, self._deliver)
        self.network.weather.loss = loss
        self.times = times or Times()
        self.changes: list[tuple[float, str, int, str | None]] = []
        """Each Changed: (time, process, generation, leader)."""
        self._make = make
        self._leaders: dict[int, str] = {}
        """Leader of each generation so far."""
        self._latest = 0
        self.processes = {name: Process(name, self.world) for name in NAMES[:size]}
        for name in self.processes:
            self.restart(name)

    # For tests

    def run(self, seconds: float) -> None:
        """Let time pass. Raises Violation."""
        self.world.run(self.world.now + seconds)

    def leaders(self) -> list[str]:
        """Return the processes that lead at this instant: at most one."""
        return [name for name, each in self.processes.items() if each.leads()]

    def generation(self, name: str) -> int:
        """Return the generation of a process, from its disk if it is down."""
        process = self.processes[name]
        return process.elector.generation if process.elector else process.stored[0]

    def cut(self, *names: str) -> None:
        """Cut the links between these and all others, both ways."""
        self.network.cuts |= self._links(names)

    def heal(self, *names: str) -> None:
        """Mend the links between these and all others; without names all links."""
        self.network.cuts -= self._links(names) if names else self.network.cuts

    def pause(self, name: str, seconds: float) -> None:
        """Pause a process: its messages wait, and its clock runs on."""
        process = self.processes[name]
        process.paused_until = max(process.paused_until, self.world.now + seconds)
        self.world.after(process.paused_until - self.world.now, self._drain, process)

    def crash(self, name: str) -> None:
        """Kill a process: only its disk is left."""
        process = self.processes[name]
        process.elector = None
        process.life += 1
        process.inbox.clear()
        process.is_writing, process.paused_until = False, 0.0

    def restart(self, name: str) -> None:
        """Start a process from its disk."""
        self.crash(name)
        process = self.processes[name]
        process.elector = self._make(
            name,
            [other for other in self.processes if other != name],
            stored=process.stored,
            rng=Random(self.world.rng.random()),
            times=self.times,
            now=process.clock(),
            rho=RHO,
        )
        process.elector.recency = process.recency
        self._tick(process, process.life)

    def transfer(self, name: str, to: str = "") -> None:
        """Have a leader transfer its lead to another process, or to the most recent follower."""
        self._feed(self.processes[name], Transfer(to))

    def hold(self, name: str, generation: int, number: int) -> None:
        """Set how recent the data of a process are: a process that lags is not elected."""
        process = self.processes[name]
        process.recency = Recency(generation, number)
        if process.elector:
            process.elector.recency = process.recency

    # Implementation

    def _links(self, names: tuple[str, ...]) -> set[tuple[str, str]]:
        others = [name for name in self.processes if name not in names]
        return {pair for one in names for other in others for pair in ((one, other), (other, one))}

    def _tick(self, process: Process, life: int) -> None:
        if life == process.life:
            self._feed(process, Tick())
            pause_s = self.times.heartbeat_s / TICKS_PER_HEARTBEAT
            self.world.after(pause_s, self._tick, process, life)

    def _deliver(self, source: str, life: int, to: str, to_life: int, message: Message) -> None:
        if self.processes[to].elector:  # A datagram also reaches a restarted process.
            self._feed(self.processes[to], Received(source, message))

    def _feed(self, process: Process, event: Event) -> None:
        if not process.is_still() or event != Tick():  # Missed timers do not fire later.
            process.inbox.append(event)
        self._drain(process)

    def _drain(self, process: Process) -> None:
        while process.inbox and process.elector and not process.is_still():
            effects = process.elector.step(process.inbox.popleft(), process.clock())
            self._check(process)
            if effects and isinstance(effects[0], SaveVote):
                process.is_writing = True
                delay_s = self.world.rng.random() * FSYNC_S_MAX
                self.world.after(delay_s, self._kept, process, process.life, effects)
            else:
                self._perform(process, effects)

    def _kept(self, process: Process, life: int, effects: list[Effect]) -> None:
        if life == process.life:
            process.is_writing = False
            self._perform(process, effects)
            self._drain(process)

    def _perform(self, process: Process, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SaveVote():
                    process.stored = (effect.generation, effect.voted_for)
                case Send(to, message):
                    life = self.processes[to].life
                    self.network.send(process.name, process.life, to, life, message)
                case Changed(generation, leader):
                    self.changes.append((self.world.now, process.name, generation, leader))
                case _:
                    assert_never(effect)

    def _check(self, process: Process) -> None:
        """Check the rules after a step: a process begins to lead only in a step."""
        assert process.elector is not None
        generation, name = process.elector.generation, process.name
        if process.elector.role is Role.LEADER:
            first = self._leaders.setdefault(generation, name)
            self._insist(first == name, f"{first} and {name} are leaders of {generation}")
        if process.leads():
            self._insist(generation >= self._latest, f"{name} leads {generation}, which is over")
            self._latest = generation
            self._insist(self.leaders() == [name], f"{self.leaders()} lead at once")

    def _insist(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            raise Violation(f"{otherwise}, at {self.world.now:.3f} s of seed {self.world.seed}")
