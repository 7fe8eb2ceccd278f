"""Faults of users' processes: they are paused, killed, cut off, answered late."""

from typing import Any

from tests.whole.faults import Nemesis
from tests.whole.tenants import Process

OF_PROCESSES = ("freeze", "deaf", "half", "die", "late", "wall")
LATE = 0.22
"""Delay of an answer in TTLs: a client waits for 1/4, so it is just in time."""


class SessionNemesis(Nemesis):
    """Strikes nodes, and the processes of users."""

    def _lasting(self) -> float:
        """Return how long a fault lasts: about as long as a belief, or far longer."""
        rng = self._run.rng
        return self._run.ttl_s * rng.choice(self._run.lasting) * (0.7 + 0.6 * rng.random())

    def _process(self) -> Process:
        """Return a process, most often one that holds something."""
        believers = [each for each in self._run.processes if each.up and each.beliefs()]
        is_any = not believers or self._run.rng.random() < 0.3
        return self._run.rng.choice(self._run.processes if is_any else believers)

    def _power(self, host: Any, lasts_s: float) -> None:
        """Cut the power of all nodes at once."""
        for each in self._run.hosts:
            self._crash(each, lasts_s * self._run.rng.random())

    def _freeze(self, host: Any, lasts_s: float) -> None:
        """Pause a process; its clock continues, and messages queue."""
        life = self._process().life
        if life is not None and not life.paused:
            life.paused = True
            self._run.loop.call_later(lasts_s, self._run.loop.resume, life)

    def _deaf(self, host: Any, lasts_s: float) -> None:
        """Cut a process off from all nodes, in both directions or in one."""
        self._cut_off(self._process(), self._run.hosts, lasts_s)

    def _half(self, host: Any, lasts_s: float) -> None:
        """Cut a process off from one node."""
        self._cut_off(self._process(), [host], lasts_s)

    def _cut_off(self, process: Process, hosts: list[Any], lasts_s: float) -> None:
        links = {(host.address, process.address) for host in hosts}
        if self._run.rng.random() < 0.5:
            links |= {(process.address, host.address) for host in hosts}
        self._sever(links, lasts_s)

    def _die(self, host: Any, lasts_s: float) -> None:
        """Kill a process, and start it again."""
        process = self._process()
        process.kill()
        self._run.loop.call_later(lasts_s, process.start)

    def _late(self, host: Any, lasts_s: float) -> None:
        """Delay the answers to a process for a while; then lose all its requests."""
        process, run = self._process(), self._run
        late_s = run.ttl_s * LATE
        answers = [(each.address, process.address) for each in run.hosts]
        run.network.lags.update(dict.fromkeys(answers, late_s))
        run.loop.call_later(2 * late_s, self._sever, {pair[::-1] for pair in answers}, lasts_s)
        for link in answers:
            run.loop.call_later(4 * late_s, run.network.lags.pop, link, None)

    def _wall(self, host: Any, lasts_s: float) -> None:
        """Move the wall clock of a process's machine by an hour."""
        process = self._process()
        process.ahead_us = self._run.rng.choice((-3_600_000_000, 0, 3_600_000_000))
        if process.life is not None:
            process.life.clock_ahead_us = process.ahead_us

    def heal(self) -> None:
        """End all faults, start all hosts and processes."""
        super().heal()
        self._run.network.lags.clear()
        for process in self._run.processes:
            if process.life is not None and process.life.paused:
                self._run.loop.resume(process.life)
            process.start()
