"""Test bench of agendas beside real replicas, which hold their documents: slower."""

from collections.abc import Callable, Sequence

from docstore.documents.events import Requested
from docstore.documents.term import Phase
from docstore.documents.timing import LeadershipTimes, ReplicaConfig
from docstore.machines.view import MachineView
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from tests.sim.agendas_bench import Agent, Bench, service_of
from tests.sim.cluster import Cluster
from tests.sim.invariants import Invariants
from tests.sim.nemesis import Nemesis
from tests.sim.process import Process
from tests.sim.replica_view import ReplicaView

KINDS = ("crash", "crash", "pause", "cut", "oneway", "isolate", "flap", "storm")


class ReplicaBench(Bench):
    """Documents on real replicas."""

    def __init__(self, seed: int, slots: int, documents: int, faults_s: float) -> None:
        super().__init__(seed, documents)
        self.decided = _Decided()
        self._processes: dict[str, Process] = {}
        self.cluster = Cluster(
            self.world, 3, factor=None, slots=slots, prepare=self._prepare,
            config=ReplicaConfig(leadership=LeadershipTimes(unfit_s=2.0)),
        )  # fmt: skip
        self._faults_s = faults_s
        self._nemesis: Nemesis

    def _prepare(self, process: Process) -> None:
        self._processes[process.name] = process
        process.services = service_of
        process.after_step = self.decided.after_step
        self.agents[process.name] = process.companion = Agent(process, self)

    def begin(self) -> None:
        self._nemesis = Nemesis(self.cluster, self._faults_s, KINDS if self.trouble else ())

    def ask(
        self, node: str, operation: Operation, timeout_s: float, told: Callable[[Answer], None]
    ) -> None:
        process, deadline = self._processes[node], self.world.now + timeout_s
        waiting = [told]

        def tell(answer: Answer) -> None:
            """Pass on one answer, if only that of the timeout: a killed node gives none."""
            if waiting:
                waiting.pop()(answer)

        self.world.after(timeout_s + 1.0, tell, Answer(504, "no-answer", unknown=True))
        if process.up and not process.paused:
            process.request(lambda request: Requested(request, operation, deadline), tell)

    def survey(self, node: str) -> Sequence[Row]:
        process = self._processes[node]
        terms = process.replica.core.logs.terms()
        owned = [log.slot for log, term in terms if term.phase is Phase.OPEN]
        return process.disk.with_agenda("/s/", owned)

    def view(self, node: str) -> MachineView:
        return ReplicaView(self._processes[node].replica)

    def versions(self, link: str) -> Sequence[Row]:
        found = self.decided.versions.get(link, {})
        return [found[version] for version in sorted(found)]

    def heal(self) -> None:
        self.trouble = 0.0
        self._nemesis.heal()


class _Decided(Invariants):
    """Invariants of documents that also keep all decided rows."""

    clocks_err_in_few = False

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, dict[int, Row]] = {}

    def _check_row(self, row: Row) -> None:
        super()._check_row(row)
        self.versions.setdefault(row.link, {})[row.version] = row
