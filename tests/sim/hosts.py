"""Nodes without a document machine: heartbeats, links, and a companion of each.

A nemesis uses them like `process.Process` and `cluster.Cluster`.
"""

from collections.abc import Callable
from typing import Any

from docstore.testing.simulation.network import Network
from docstore.testing.simulation.world import World
from docstore.wire.streams_messages import Produce
from tests.sim.process import Companion

HEARTBEAT_S = 0.1
OWNER_TIMEOUT_S = 1.2
NEVER = float("-inf")


class Host:
    """A node that is up, paused, slow or full, and has no other state of its own."""

    is_founded = True

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.up = False
        self.paused = False
        self.life = 0
        self.boot = 0
        self.resumed_at = 0.0
        self.disk_is_full = False
        self.disk_slowness = 1.0
        self.clock_ahead_us = 0
        self.is_draining = False
        self.companion: Companion
        self.resumed: Callable[[Host], None] = lambda host: None
        self.crashed: Callable[[Host], None] = lambda host: None

    def start(self) -> None:
        """Begin a life."""
        assert not self.up
        self.up, self.paused, self.is_draining = True, False, False
        self.life += 1
        self.boot += 1
        self.companion.start()

    def crash(self) -> None:
        """End this life."""
        self.up = False
        self.life += 1
        self.crashed(self)
        self.companion.crash()

    def pause(self) -> None:
        """Pause; messages queue."""
        self.paused = True

    def resume(self) -> None:
        """Resume, with all that was queued."""
        self.paused = False
        self.resumed_at = self.world.now
        self.resumed(self)
        self.companion.resume()


class Hosts:
    """All nodes up, each linked to each."""

    def __init__(self, world: World, size: int) -> None:
        self.world = world
        self.names = [f"n{index}" for index in range(size)]
        self.processes = {name: Host(name, world) for name in self.names}
        self.spares: list[str] = []
        self.network = Network(world, self._deliver)
        self.links: set[tuple[str, str]] = set()
        """(here, there): connected, as `here` sees it."""
        self.heard_at: dict[tuple[str, str], float] = {}
        self._stashed: set[tuple[str, str]] = set()
        for host in self.processes.values():
            host.resumed = self._resumed

    def begin(self) -> None:
        """Start all nodes."""
        for name in self.names:
            self.start(name)

    def start(self, name: str) -> None:
        """Start a node and make its links."""
        host = self.processes[name]
        host.start()
        self.world.after(self.world.rng.random() * HEARTBEAT_S, self._beat, name, host.life)
        for other in self.others(name):
            if self.processes[other].up:
                self._link(name, other)
                self._link(other, name)

    def crash(self, name: str) -> None:
        """Kill a node; the others notice its broken links, after a while or at once."""
        host = self.processes[name]
        host.crash()
        for other in self.others(name):
            self.links.discard((name, other))
            delay = self.world.rng.random() * 0.3
            self.world.after(delay, self._break, other, name, host.life)

    def flap(self, one: str, other: str) -> None:
        """Break the connections between two nodes; they are made again at once."""
        for here, there in ((one, other), (other, one)):
            self._unlink(here, there)
            if self.processes[there].up:
                self._link(here, there)

    def is_alive(self, here: str, there: str) -> bool:
        """Say whether a node hears another one."""
        if here == there:
            return True
        heard = self.world.now - self.heard_at.get((here, there), NEVER) <= OWNER_TIMEOUT_S
        return heard and (here, there) in self.links

    def reaches(self, here: str, there: str) -> bool:
        """Say whether a request and its answer would arrive now."""
        cut = {(here, there), (there, here)} & self.network.cuts
        host = self.processes[there]
        return host.up and not host.paused and not cut

    def others(self, name: str) -> list[str]:
        """Return all nodes but one."""
        return [other for other in self.names if other != name]

    def send(self, source: str, life: int, to: str, message: Any) -> None:
        """Send to the present life of a node."""
        # Records without a producer's numbers have no identity: doubled, they are appended twice.
        once = type(message) is Produce
        self.network.send(source, life, to, self.processes[to].life, message, once=once)

    def _link(self, here: str, there: str) -> None:
        self.links.add((here, there))
        self.heard_at[here, there] = self.world.now
        self.processes[here].companion.linked(there)

    def _unlink(self, here: str, there: str) -> None:
        self.links.discard((here, there))
        self.heard_at.pop((here, there), None)
        if self.processes[here].up:
            self.processes[here].companion.unlinked(there)

    def _break(self, here: str, there: str, life: int) -> None:
        if self.processes[there].life == life:
            self._unlink(here, there)

    def _beat(self, name: str, life: int) -> None:
        host = self.processes[name]
        if host.life != life:
            return
        if not host.paused:
            for other in self.others(name):
                if (name, other) in self.links:
                    self.send(name, life, other, None)
        self.world.after(HEARTBEAT_S, self._beat, name, life)

    def _resumed(self, host: Host) -> None:
        for pair in [pair for pair in self._stashed if pair[0] == host.name]:
            self._stashed.discard(pair)
            self.heard_at[pair] = self.world.now

    def _deliver(self, source: str, life: int, to: str, to_life: int, message: Any) -> None:
        """Deliver within the lives that the connection joins."""
        receiver = self.processes[to]
        if receiver.life != to_life or self.processes[source].life != life or not receiver.up:
            return
        if receiver.paused:
            self._stashed.add((to, source))
        else:
            self.heard_at[to, source] = self.world.now
        if message is not None:
            receiver.companion.received(source, message)
