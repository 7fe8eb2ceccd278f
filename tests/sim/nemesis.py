"""Faults that are drawn from the seed; then everything heals."""

from collections.abc import Sequence
from itertools import permutations
from random import Random

from docstore.documents.events import SlotCorrupted
from docstore.documents.membership.change import Change, Kind
from docstore.machines.events import DrainAsked
from docstore.ownership.configuration import Stage
from docstore.storage.store import Status
from tests.sim.cluster import Cluster

ALL = ("crash", "crash", "pause", "cut", "oneway", "isolate", "flap", "storm")
BESIDE = ("crash", "pause", "cut", "oneway", "isolate", "flap", "full", "slow", "clock")
"""Kinds of the second fault, which strikes another node, where two strike at a time."""


class Nemesis:
    """Strikes at random until `until`, repairs each fault after a while, and heals in the end."""

    def __init__(
        self,
        cluster: Cluster,
        until: float,
        kinds: Sequence[str] = ALL,
        beside: Sequence[str] = (),
    ) -> None:
        """beside: kinds from which a second fault, of another kind, is drawn with each fault."""
        self._cluster = cluster
        self._world = cluster.world
        self._until = until
        self._kinds = kinds
        self._beside = beside
        # A generator of its own, so that it changes no run without second faults.
        self._rng = Random(f"{self._world.seed} beside")
        self._liar: str | None = None
        """The only node whose wall clock is ever wrong: other nodes may remember its reading."""
        self._wiped: str | None = None
        """Node whose disk is lost and not replaced yet; a second must not be lost meanwhile."""
        self._asked = 0
        if kinds:
            self._world.after(0.3 + self._world.rng.random(), self._strike)

    def _strike(self) -> None:
        if self._world.now >= self._until:
            return
        rng = self._world.rng
        kind, name = rng.choice(self._kinds), rng.choice(self._cluster.names)
        getattr(self, f"_{kind}")(name)
        others = [each for each in self._beside if each != kind]
        if others and len(self._cluster.names) > 1:
            other = self._rng.choice([each for each in self._cluster.names if each != name])
            delay_s = self._rng.random() * 0.3
            self._world.after(delay_s, self._strike_beside, self._rng.choice(others), other)
        self._world.after(0.05 + rng.random() * 1.2, self._strike)

    def _strike_beside(self, kind: str, name: str) -> None:
        if self._world.now < self._until:
            getattr(self, f"_{kind}")(name)

    def _duration(self) -> float:
        rng = self._world.rng
        return rng.choice((0.05, 0.3, 1.0, 2.5)) * (0.5 + rng.random())

    def _crash(self, name: str) -> None:
        if self._cluster.processes[name].up:
            self._cluster.crash(name)
            self._world.after(self._duration(), self._restart, name)

    def _restart(self, name: str) -> None:
        process = self._cluster.processes[name]
        if not process.up and process.is_founded:
            self._cluster.start(name)

    def _pause(self, name: str) -> None:
        process = self._cluster.processes[name]
        if process.up and not process.paused:
            process.pause()
            self._world.after(self._duration(), self._resume, name, process.life)

    def _resume(self, name: str, life: int) -> None:
        process = self._cluster.processes[name]
        if process.life == life and process.paused:
            process.resume()

    def _cut(self, name: str) -> None:
        other = self._world.rng.choice([each for each in self._cluster.names if each != name])
        self._sever({(name, other), (other, name)})

    def _oneway(self, name: str) -> None:
        other = self._world.rng.choice([each for each in self._cluster.names if each != name])
        self._sever({(name, other)})

    def _isolate(self, name: str) -> None:
        self._sever({pair for pair in permutations(self._cluster.names, 2) if name in pair})

    def _split(self, name: str) -> None:
        """Cut the nodes into two parts that hear nothing of each other."""
        names = self._cluster.names
        part = {each for each in names if self._world.rng.random() < 0.5}
        pairs = permutations(names, 2)
        self._sever({(one, other) for one, other in pairs if (one in part) != (other in part)})

    def _torn(self, name: str) -> None:
        """Ask for a change, and cut the group in two while it is being made."""
        self._change(name)
        self._world.after(self._world.rng.random() * 0.3, self._split, name)

    def _sever(self, links: set[tuple[str, str]]) -> None:
        self._cluster.network.cuts |= links
        self._world.after(self._duration(), self._cluster.network.cuts.difference_update, links)

    def _flap(self, name: str) -> None:
        other = self._world.rng.choice([each for each in self._cluster.names if each != name])
        if self._cluster.processes[name].up and self._cluster.processes[other].up:
            self._cluster.flap(name, other)

    def _drain(self, name: str) -> None:
        """Drain a node, then stop it, and start it again."""
        process = self._cluster.processes[name]
        if not process.up or process.paused:
            return
        process.feed(DrainAsked())
        self._world.after(self._duration(), self._stop, name, process.life)

    def _stop(self, name: str, life: int) -> None:
        process = self._cluster.processes[name]
        if process.up and process.life == life:
            self._cluster.crash(name)
            self._world.after(self._duration(), self._restart, name)

    def _full(self, name: str) -> None:
        """Let a node's disk have no room for a while."""
        self._cluster.processes[name].disk_is_full = True
        self._world.after(self._duration(), self._roomy, name)

    def _roomy(self, name: str) -> None:
        self._cluster.processes[name].disk_is_full = False

    def _clock(self, name: str) -> None:
        """Let a node's wall clock be an hour ahead for a while; always the same one's."""
        self._liar = self._liar or name
        process = self._cluster.processes[self._liar]
        if not process.clock_ahead_us:
            process.clock_ahead_us = 3_600_000_000
            self._world.after(self._duration(), self._right_clock, self._liar)

    def _behind(self, name: str) -> None:
        """Let a node's wall clock be an hour behind for a while; never a majority's."""
        self._clock(name)
        process = self._cluster.processes[self._liar or name]
        process.clock_ahead_us = -abs(process.clock_ahead_us)

    def _right_clock(self, name: str) -> None:
        self._cluster.processes[name].clock_ahead_us = 0

    def _slow(self, name: str) -> None:
        """Let a node's disk take fifty times as long, as a full queue or a worn drive does."""
        self._cluster.processes[name].disk_slowness = 50.0
        self._world.after(self._duration(), self._quick, name)

    def _quick(self, name: str) -> None:
        self._cluster.processes[name].disk_slowness = 1.0

    def _rot(self, name: str) -> None:
        """Let a node find one of its slots damaged; never a majority of a slot's replicas."""
        process = self._cluster.processes[name]
        if not process.up or process.paused or not process.replica.core.logs:
            return
        slot = self._world.rng.choice(sorted(process.replica.core.logs))
        for other in self._cluster.configuration.placement().replicas(slot):
            if other != name and not self._is_whole(other, slot):
                return
        process.feed(SlotCorrupted(slot))

    def _is_whole(self, name: str, slot: int) -> bool:
        process = self._cluster.processes[name]
        found = process.disk.recovered(name, process.boot).slots.get(slot)
        stored = found is None or found.record.status is Status.FULL
        return stored and (not process.up or process.replica.core.logs[slot].full)

    def _change(self, name: str) -> None:
        """Have a spare join, a member leave, one take another's place, or a change be undone."""
        cluster, rng = self._cluster, self._world.rng
        configuration = cluster.configuration
        present = {each.id for each in (*configuration.members, *configuration.next_members)}
        absent = [each for each in cluster.processes if each not in present]
        kind = rng.choice([Kind.JOIN, Kind.JOIN, Kind.REMOVE, Kind.REPLACE, Kind.CANCEL])
        entry = None
        if kind in (Kind.JOIN, Kind.REPLACE):
            if not absent:
                return
            entry = cluster.entry(self._blank(rng.choice(absent)))
        cluster.ask(Change(kind, name, entry))

    def _blank(self, name: str) -> str:
        """Give a node an empty disk, unless it has one."""
        process = self._cluster.processes[name]
        if process.is_founded:
            if process.up:
                self._cluster.crash(name)
            process.lose_disk()
        return name

    def _wipe(self, name: str) -> None:
        """Replace a member's disk by an empty one; one at a time."""
        cluster = self._cluster
        member = cluster.configuration.member(name)
        steady = cluster.configuration.stage is Stage.STABLE
        if member is None or not steady or self._wiped not in (None, name):
            return
        if self._wiped is None and member.store_id == cluster.processes[name].store_id:
            self._wiped = name
            self._blank(name)
        self._replace_wiped()

    def _replace_wiped(self) -> None:
        """Ask until the lost disk is out of the configuration."""
        name, cluster = self._wiped, self._cluster
        if name is None:
            return
        member = cluster.configuration.member(name)
        stable = cluster.configuration.stage is Stage.STABLE
        if stable and (member is None or member.store_id == cluster.processes[name].store_id):
            self._wiped = None
            return
        self._asked += 1
        if self._asked % 6:
            cluster.ask(Change(Kind.REPLACE, name, cluster.entry(name)))
        elif not stable:
            # A change that waits for the lost disk is undone, as operators would.
            cluster.ask(Change(Kind.CANCEL))
        self._world.after(0.5, self._replace_wiped)

    def _storm(self, name: str) -> None:
        """Crash several at once."""
        for each in self._cluster.names:
            if self._world.rng.random() < 0.6:
                self._crash(each)

    def calm_down(self) -> None:
        """Lose, delay and double nothing from here on."""
        weather = self._cluster.network.weather
        weather.loss = weather.straggle = weather.double = 0.0

    def heal(self) -> None:
        """End all faults."""
        self._until = self._world.now
        self._cluster.network.cuts.clear()
        self.calm_down()
        for name, process in self._cluster.processes.items():
            process.disk_slowness, process.disk_is_full = 1.0, False
            process.clock_ahead_us = 0
            if not process.up:
                self._restart(name)
                continue
            if process.paused:
                process.resume()
            if process.replica.core.is_draining:
                self._cluster.crash(name)
                self._cluster.start(name)
