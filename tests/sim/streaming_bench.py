"""Test bench of streams: nodes, their documents and their partitions."""

from collections.abc import Callable, Sequence
from typing import Any

from docstore.documents.events import Requested
from docstore.documents.term import Phase
from docstore.documents.timing import LeadershipTimes, ReplicaConfig
from docstore.machines.events import DrainAsked
from docstore.machines.view import MachineView
from docstore.model.document import Row
from docstore.model.operation import ANY_TOMBSTONE, Answer, Operation
from docstore.model.service import Service
from docstore.ownership.configuration import Configuration
from docstore.streams.replica_set import (
    STREAMS,
    PartitionService,
    ReplicaSet,
    is_partition,
    link_of,
    partition_link,
    partition_name,
    topic_link_of,
)
from docstore.streams.topic import Topic, TopicService
from docstore.testing.simulation.world import World
from tests.sim.cluster import Cluster
from tests.sim.companion import Streamer
from tests.sim.hosts import Hosts
from tests.sim.invariants import Invariants, Violation
from tests.sim.process import Process
from tests.sim.register import Register, RegisterView
from tests.sim.replica_view import ReplicaView
from tests.sim.streaming_invariants import StreamInvariants
from tests.sim.streaming_shapes import Shape, config_of

ATTEMPT_S = 2.0
PARTITIONS, TOPICS = PartitionService(), TopicService()


def service_of(link: str) -> Service:
    """Return the service of a document of streams."""
    return PARTITIONS if is_partition(link) else TOPICS


def service_if_any(link: str) -> Service | None:
    """Return the service of a document, None if it is not one of streams."""
    return service_of(link) if link.startswith(STREAMS) else None


class Bench:
    """Parts that are the same for any store of the documents."""

    nodes: Any
    """A `Hosts` or a `Cluster`."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.world = World(seed)
        self.shape = shape
        self.streamers: dict[str, Streamer] = {}
        self.invariants = StreamInvariants(self.streamers)
        if not (shape.retention_bytes or shape.deletes):
            self.invariants.retention_s = shape.retention_ms / 1000
        self.links = [partition_link(f"t{number}", 0) for number in range(shape.partitions)]
        """Partitions, each of a topic of its own."""
        self._incarnations = 0

    @property
    def names(self) -> Sequence[str]:
        """The names of all nodes."""
        found: Sequence[str] = self.nodes.names
        return found

    @property
    def members(self) -> Sequence[str]:
        """The nodes that are in the group now."""
        return self.names

    def node(self, name: str) -> Any:
        """Return the process, or the host, of that name."""
        return self.streamers[name].node

    def name_of(self, link: str) -> str:
        """Return the name of the newest incarnation of a partition, "" if there was none."""
        for _, found in reversed(self.invariants.documents.versions.get(link, [])):
            if found is not None:
                return partition_name(link, found.incarnation)
        return ""

    def incarnations(self, link: str) -> list[str]:
        """Return the names of all incarnations of a partition, also of deleted ones."""
        return [name for name in self.invariants.books if link_of(name) == link]

    def document(self, link: str) -> ReplicaSet | None:
        """Return what a partition's document says, None if there is none."""
        versions = self.invariants.documents.versions.get(link)
        return versions[-1][1] if versions else None

    def _join(
        self, process: Any, send: Callable[[str, int, str, Any], None], documents: Any
    ) -> None:
        """Give a node its streams."""
        streamer = Streamer(process, self.world, config_of(self.shape), documents, send)
        streamer.after_step = self.invariants.after_step
        streamer.recovered = self.invariants.recovered
        self.streamers[process.name] = streamer
        process.companion = streamer

    def topic(self, link: str) -> Operation:
        """Return the operation that creates the topic of a partition."""
        self._incarnations += 1
        found = Topic(
            name=link.split("/")[3],
            incarnation=f"i{self._incarnations}",
            replication_factor=self.shape.factor,
            min_in_sync=self.shape.least,
            retention_ms=self.shape.retention_ms,
            retention_bytes=self.shape.retention_bytes,
            cleanup=self.shape.cleanup,
            max_lag_ms=self.shape.max_lag_ms,
            unclean=self.shape.unclean,
        )
        if found.unclean:
            self.invariants.documents.may_be_unclean.add(link)
        return Operation(
            verb="POST", link=found.link, body=found.pack(), recreate_below=ANY_TOMBSTONE
        )


class RegisterBench(Bench):
    """Streams on a register: fast, and with every answer that documents may give."""

    def __init__(self, seed: int, shape: Shape) -> None:
        super().__init__(seed, shape)
        self.nodes = self.hosts = Hosts(self.world, shape.size)
        self.register = Register(self.hosts, shape.slots, service_of, STREAMS)
        for host in self.hosts.processes.values():
            self._join(host, self.hosts.send, self)
        self.register.trouble = shape.trouble
        self.register.decided = self._decided
        self.register.notice = lambda name, row: self.streamers[name].noticed(row)
        self.hosts.begin()
        for link in self.links:
            self._create(link)

    def _decided(self, row: Row) -> None:
        if is_partition(row.link):
            self.invariants.documents.decided(row)

    def ask(
        self, node: str, operation: Operation, timeout_s: float, told: Callable[[Answer], None]
    ) -> None:
        """Execute an operation of a node on a document."""
        self.register.ask(node, operation, timeout_s, told)

    def survey(self, node: str) -> Sequence[Row]:
        """Return the documents of a node's own slots."""
        return self.register.survey(node)

    def view(self, node: str) -> MachineView:
        """Return what a node knows of the group."""
        return RegisterView(node, self.hosts, self.register)

    def controller_of(self, link: str) -> str:
        """Return the owner of a document's slot."""
        return self.register.owners[self.register.slot_of(link)]

    def drain(self, name: str) -> None:
        """Let a node's slots move to others."""
        self.hosts.processes[name].is_draining = True

    def heal(self) -> None:
        """Answer every operation from now on, at once."""
        self.register.trouble = 0.0

    def _create(self, link: str) -> None:
        self.register.apply(self.topic(link))

    def recreate(self, link: str) -> None:
        """Delete a topic, and create it again under the same name."""
        gone = self.register.apply(Operation(verb="DELETE", link=topic_link_of(link)))
        if gone.is_success:
            self.invariants.checked["recreated"] += 1
            self.world.after(self.world.rng.random() * 1.5, self._create, link)


class ReplicaBench(Bench):
    """Streams beside real replicas, which hold their documents."""

    def __init__(self, seed: int, shape: Shape) -> None:
        super().__init__(seed, shape)
        self.documents = _Decided(self.invariants)
        self.nodes = self.cluster = Cluster(
            self.world,
            shape.size,
            factor=3 if shape.size > 3 else None,
            slots=shape.slots,
            config=ReplicaConfig(leadership=LeadershipTimes(unfit_s=2.0)),
            changes=shape.changes,
            prepare=self._prepare,
        )
        for link in self.links:
            self._create(link)

    @property
    def members(self) -> Sequence[str]:
        """The nodes that the newest configuration names."""
        return self.cluster.configuration.names

    def _prepare(self, process: Process) -> None:
        process.services = service_if_any
        process.after_step = self.documents.after_step
        self._join(process, self._send, self)
        self.streamers[process.name].recovered = self._recovered

        known, process.reconfigured = process.reconfigured, self._reconfigured
        self._known = known

    def _reconfigured(self, configuration: Configuration) -> None:
        """Check that a healthy node is removed only once its data are on others."""
        gone = {*self.members} - {*configuration.names}
        if set(self.shape.kinds) == {"change"} and configuration.id > self.cluster.configuration.id:
            for link in self.links:
                document = self.document(link)
                able = {*document.lrs, *document.elr} if document is not None else set()
                self.invariants.checked["nodes left out"] += len(gone)
                if able and gone >= {node for node, _ in able}:
                    raise Violation(f"{gone} left the group, and only they have all of {link}")
        self._known(configuration)

    def _recovered(self, streamer: Streamer) -> None:
        self.invariants.recovered(streamer)
        self.node(streamer.name).blocks = streamer.partitions.duties.reassignment.blocks

    def _send(self, source: str, life: int, to: str, message: Any) -> None:
        self.cluster.send_beside(source, life, to, message)

    def ask(
        self, node: str, operation: Operation, timeout_s: float, told: Callable[[Answer], None]
    ) -> None:
        """Execute an operation of a node on a document."""
        deadline = self.world.now + timeout_s
        self.node(node).request(lambda request: Requested(request, operation, deadline), told)

    def survey(self, node: str) -> Sequence[Row]:
        """Return the documents of a node's own slots."""
        process = self.node(node)
        owned = [
            log.slot for log, term in process.replica.core.logs.terms() if term.phase is Phase.OPEN
        ]
        found: Sequence[Row] = process.disk.below(f"{STREAMS}/", owned)
        return found

    def view(self, node: str) -> MachineView:
        """Return what a node knows of the group."""
        return ReplicaView(self.node(node).replica)

    def controller_of(self, link: str) -> str:
        """Return a node that believes to own a document's slot; any node if none does."""
        for name, process in self.cluster.processes.items():
            if process.up and ReplicaView(process.replica).owns(link):
                return name
        return self.names[0]

    def drain(self, name: str) -> None:
        """Let a node's slots move to others."""
        self.node(name).feed(DrainAsked())

    def heal(self) -> None:
        """Do nothing: the nemesis ends all faults."""

    def _create(self, link: str) -> None:
        self._insist(self.topic(link), lambda _: None)

    def recreate(self, link: str) -> None:
        """Delete a topic, and create it again under the same name."""
        operation = Operation(verb="DELETE", link=topic_link_of(link))
        self._insist(operation, lambda answer: self._deleted(link, answer))

    def _deleted(self, link: str, answer: Answer) -> None:
        if answer.is_success or answer.status == 404:  # Gone: the answer to the first was lost.
            self.invariants.checked["recreated"] += 1
            self._create(link)

    def _insist(self, operation: Operation, then: Callable[[Answer], None]) -> None:
        """Send an operation to one node after the other until an answer is final."""
        name = self.world.rng.choice(list(self.names))
        asked = [False]

        def told(answer: Answer) -> None:
            if asked[0]:
                return
            asked[0] = True
            if answer.status >= 500:
                self.world.after(0.1, self._insist, operation, then)
            else:
                then(answer)

        if self.node(name).up:
            self.ask(name, operation, ATTEMPT_S, told)
        silence = Answer(504, "undecided", unknown=True)
        self.world.after(ATTEMPT_S + 1.0, told, silence)


class _Decided(Invariants):
    """Invariants of documents that also pass decided rows to those of streams."""

    def __init__(self, streams: StreamInvariants) -> None:
        super().__init__()
        self._streams = streams

    def _check_row(self, row: Row) -> None:
        super()._check_row(row)
        if is_partition(row.link):
            self._streams.documents.decided(row)
