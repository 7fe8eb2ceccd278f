"""Test bench of sessions beside real replicas: slower, and without a model of documents."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from docstore.documents.events import ReadIndexAsked, Requested
from docstore.documents.term import Phase
from docstore.documents.timing import LeadershipTimes, ReplicaConfig
from docstore.machines.events import DrainAsked
from docstore.machines.view import MachineView
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.sessions.core import Owners
from tests.sim.cluster import Cluster
from tests.sim.invariants import Invariants
from tests.sim.process import Process
from tests.sim.replica_view import ReplicaView
from tests.sim.sessions_bench import Bench, service_of
from tests.sim.sessions_invariants import SessionInvariants
from tests.sim.sessions_shapes import Shape


class ReplicaBench(Bench):
    """Sessions beside real replicas, which hold their documents."""

    def __init__(self, seed: int, shape: Shape) -> None:
        super().__init__(seed, shape)
        self.documents = _Decided(self.watch)
        self.nodes = self.cluster = Cluster(
            self.world,
            shape.size,
            factor=3 if shape.size > 3 else None,
            slots=shape.slots,
            config=ReplicaConfig(leadership=LeadershipTimes(unfit_s=2.0)),
            prepare=self._prepare,
            reads="lease" if seed % 2 else "confirm",
        )
        self._begin()

    def _prepare(self, process: Process) -> None:
        process.services = service_of
        process.after_step = self.documents.after_step
        self._join(process, self._send, self)

    def _send(self, source: str, life: int, to: str, message: Any) -> None:
        self.cluster.send_beside(source, life, to, message)

    def ask(
        self, node: str, operation: Operation, timeout_s: float, told: Callable[[Answer], None]
    ) -> None:
        """Execute an operation of a node on a document."""
        deadline = self.world.now + timeout_s
        self.keepers[node].node.request(
            lambda request: Requested(request, operation, deadline), self._counted(told)
        )

    def confirm(
        self, node: str, links: Sequence[str], timeout_s: float, told: Callable[[Owners], None]
    ) -> None:
        """Ask a majority which slots a node owns, as `runtime/sessions_driver.py` does."""
        process, deadline = self._process(node), self.world.now + timeout_s
        slots = {link: process.replica.core.slot_of(link) for link in links}

        def answered(found: Mapping[int, tuple[int, int]]) -> None:
            told({link: (node, found[slot][0]) for link, slot in slots.items() if slot in found})

        process.request(
            lambda request: ReadIndexAsked(request, tuple(slots.values()), deadline), answered
        )

    def _process(self, name: str) -> Process:
        process: Process = self.keepers[name].node  # type: ignore[assignment]
        return process

    def survey(self, node: str) -> Sequence[Row]:
        """Return the documents of a node's own slots."""
        process, keeper = self._process(node), self.keepers[node]
        terms = process.replica.core.logs.terms()
        owned = [log.slot for log, term in terms if term.phase is Phase.OPEN]
        found = [process.disk.below(f"{path}/", owned) for path in keeper.sessions.paths]
        return [row for rows in found for row in rows]

    def view(self, node: str) -> MachineView:
        """Return what a node knows of the group."""
        return ReplicaView(self._process(node).replica)

    def owner_of(self, link: str) -> str:
        """Return a node that believes to own a document's slot; any node if none does."""
        for name, process in self.cluster.processes.items():
            if process.up and ReplicaView(process.replica).owns(link):
                return name
        return str(self.nodes.names[0])

    def drain(self, name: str) -> None:
        """Let a node's slots move to others."""
        self._process(name).feed(DrainAsked())

    def move(self, link: str, *, deluded_s: float) -> None:
        """Pause the owner of a document, so that another node may take over."""
        owner = self._process(self.owner_of(link))
        if owner.up and not owner.paused:
            owner.pause()
            self.world.after(deluded_s, self._go_on, owner, owner.life)

    def _go_on(self, process: Process, life: int) -> None:
        if process.life == life and process.paused:
            process.resume()

    def heal(self) -> None:
        """Do nothing: the nemesis ends all faults."""


class _Decided(Invariants):
    """Invariants of documents that also pass decided rows to those of sessions."""

    clocks_err_in_few = False

    def __init__(self, sessions: SessionInvariants) -> None:
        super().__init__()
        self._sessions = sessions

    def _check_row(self, row: Row) -> None:
        super()._check_row(row)
        self._sessions.decided(row)
