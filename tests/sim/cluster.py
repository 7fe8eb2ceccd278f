"""N processes, the links between them, and what membership makes each believe."""

from typing import Any

from docstore.ownership.by_hash import Placed, place
from docstore.protocol.core import ReplicaConfig
from docstore.protocol.events import LinkLost, LinkMade, Received, ViewChanged
from docstore.wire import Message
from tests.sim.network import Network
from tests.sim.process import Process
from tests.sim.world import World


class Cluster:
    """A founded group, all nodes up."""

    def __init__(
        self, world: World, size: int, *, factor: int | None, slots: int, config: ReplicaConfig
    ) -> None:
        self.world = world
        self.names = [f"n{i}" for i in range(size)]
        self.placement = place(
            [Placed(name) for name in self.names],
            slots=slots,
            points_per_node=4,
            replication_factor=factor,
        )
        self.network = Network(world, self._deliver)
        self.processes = {
            name: Process(name, world, self.placement, self.names, config, self._send)
            for name in self.names
        }
        self._views: dict[str, set[str]] = {name: set(self.names) for name in self.names}
        for name in self.names:
            self.start(name)
        world.after(0.1, self._gossip)

    def start(self, name: str) -> None:
        """Start a node and make its links."""
        process = self.processes[name]
        process.start()
        self._views[name] = set(self.names)
        for other in self._others(name):
            if self.processes[other].up:
                process.feed(LinkMade(other))
                self.processes[other].feed(LinkMade(name))

    def crash(self, name: str) -> None:
        """Kill a node; the others notice its broken links, after a while or at once."""
        self.processes[name].crash()
        for other in self._others(name):
            delay = self.world.rng.random() * 0.3
            self.world.after(delay, self._break, other, name, self.processes[name].life)

    def flap(self, one: str, other: str) -> None:
        """Break the connections between two nodes; they are made again at once."""
        for here, there in ((one, other), (other, one)):
            self.processes[here].feed(LinkLost(there))
            if self.processes[there].up:
                self.processes[here].feed(LinkMade(there))

    def _break(self, here: str, there: str, life: int) -> None:
        if self.processes[there].life == life:
            self.processes[here].feed(LinkLost(there))

    def _others(self, name: str) -> list[str]:
        return [other for other in self.names if other != name]

    def _send(self, source: str, life: int, to: str, message: Message) -> None:
        self.network.send(source, life, to, self.processes[to].life, message)

    def _deliver(self, source: str, life: int, to: str, to_life: int, message: Any) -> None:
        """Deliver within the lives that the connection joins."""
        receiver = self.processes[to]
        if receiver.life == to_life and self.processes[source].life == life:
            receiver.feed(Received(source, message))

    def _gossip(self) -> None:
        """Let each view drift towards the truth, each entry in its own time."""
        for name in self.names:
            view = self._views[name]
            before = frozenset(view)
            for other in self._others(name):
                process = self.processes[other]
                cut = {(name, other), (other, name)} & self.network.cuts
                alive = process.up and not process.paused and not cut
                if alive != (other in view) and self.world.rng.random() < 0.25:
                    (view.add if alive else view.discard)(other)
            if frozenset(view) != before:
                self.processes[name].feed(ViewChanged(frozenset(view)))
        self.world.after(0.1, self._gossip)
