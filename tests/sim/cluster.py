"""N processes, the links between them, and each one's view of which nodes are alive."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from docstore.documents.events import ChangeAsked, ViewChanged
from docstore.documents.membership.change import Change
from docstore.documents.membership.reconfigure import join_writes
from docstore.documents.timing import ReplicaConfig
from docstore.machines.events import LinkLost, LinkMade, Received
from docstore.ownership.configuration import Configuration, MemberEntry, first_registered
from docstore.ownership.voters import VOTERS_MAX
from docstore.storage.store import SaveConfiguration
from docstore.testing.simulation.network import Network
from docstore.testing.simulation.world import World
from docstore.wire.link_messages import Message
from docstore.wire.streams_messages import Produce
from tests.sim.process import Process


class Cluster:
    """A founded group, all nodes up, and spare nodes that may join it."""

    def __init__(
        self,
        world: World,
        size: int,
        *,
        factor: int | None,
        slots: int,
        config: ReplicaConfig,
        changes: bool = False,
        reads: str = "confirm",
        zones: str = "",
        prepare: Callable[[Process], None] = lambda process: None,
    ) -> None:
        """changes: whether members vote, so that the group may be changed. zones: one a letter.

        prepare: called with every process before any of them starts.
        """
        self.world = world
        self.names = [f"n{i}" for i in range(size)]
        """The nodes that take part; those that were removed stay here."""
        self.spares = ["s0", "s1"] if changes else []
        self.network = Network(world, self._deliver)
        self.processes = {
            name: Process(name, world, config, self._send) for name in [*self.names, *self.spares]
        }
        members = tuple(
            replace(
                self.entry(name, votes=changes and number < VOTERS_MAX),
                zone=zones[number : number + 1],
            )
            for number, name in enumerate(self.names)
        )
        self.configuration = Configuration(1, "sim", slots, 4, factor, members, reads=reads)
        """The newest that any process has used."""
        founded = SaveConfiguration(first_registered(self.configuration).pack())
        self._views: dict[str, set[str]] = {}
        for name, process in self.processes.items():
            process.reconfigured = self._reconfigured
            prepare(process)
            if name in self.names:
                process.install([founded])
        for name in self.names:
            self.start(name)
        world.after(0.1, self._gossip)

    def entry(self, name: str, *, votes: bool = True) -> MemberEntry:
        """Return a node's entry in a configuration, with its present disk."""
        port = 7000 + list(self.processes).index(name)
        return MemberEntry(name, self.processes[name].store_id, "host", port, votes=votes)

    def start(self, name: str) -> None:
        """Start a node and make its links."""
        process = self.processes[name]
        process.start()
        self._views[name] = set(self.names)
        for other in self._others(name):
            if self.processes[other].up:
                self.link(name, other)
                self.link(other, name)

    def link(self, here: str, there: str) -> None:
        """Make the connection of a node to another one."""
        self.processes[here].feed(LinkMade(there))

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
                self.link(here, there)

    def ask(self, change: Change) -> None:
        """Ask every node for a change; at most one of them leads and begins it."""
        for name in list(self.names):
            self.processes[name].feed(ChangeAsked(0, change))

    def _reconfigured(self, configuration: Configuration) -> None:
        if configuration.id <= self.configuration.id:
            return
        self.configuration = configuration
        for entry in configuration.next_members:
            process = self.processes[entry.id]
            blank = process.disk.configuration is None
            if blank and process.store_id == entry.store_id:
                # A member that is dialled shows its configuration: that is how a newcomer learns.
                self.world.after(0.05, self._admit, entry.id, configuration)

    def _admit(self, name: str, configuration: Configuration) -> None:
        process = self.processes[name]
        if process.up or process.disk.configuration is not None:
            return
        process.install(join_writes(configuration, name))
        if name not in self.names:
            self.names.append(name)
        self.start(name)

    def _break(self, here: str, there: str, life: int) -> None:
        if self.processes[there].life == life:
            self.processes[here].feed(LinkLost(there))

    def _others(self, name: str) -> list[str]:
        return [other for other in self.names if other != name]

    def _send(self, source: str, life: int, to: str, message: Message) -> None:
        said = (self.processes[source].replica.core.configuration.id, message)
        self.network.send(source, life, to, self.processes[to].life, said)

    def send_beside(self, source: str, life: int, to: str, message: Any) -> None:
        """Send a message from companion to companion, on the same links."""
        # Records without a producer's numbers have no identity: doubled, they are appended twice.
        once = type(message) is Produce
        to_life = self.processes[to].life
        self.network.send(source, life, to, to_life, (None, message), once=once)

    def _deliver(self, source: str, life: int, to: str, to_life: int, said: Any) -> None:
        """Deliver within the lives that the connection joins."""
        receiver = self.processes[to]
        if receiver.life == to_life and self.processes[source].life == life:
            configuration, message = said
            if configuration is None:
                if receiver.companion is not None:
                    receiver.companion.received(source, message)
                return
            receiver.feed(Received(source, message, configuration))

    def _gossip(self) -> None:
        """Let each view approach the truth, each entry after a random time."""
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
