"""Scenario L15 on real replicas: a row that only its owner has is never seen, or for ever."""

from typing import Any

import pytest

from docstore.model import json
from docstore.model.operation import Answer, Operation
from docstore.ownership.by_store import Turns
from docstore.services.lock_queue import state_of
from tests.sim.sessions_on_replicas import ReplicaBench
from tests.sim.sessions_shapes import Shape

LINK = "/core/elections/e"
CALM = Shape(turns=(), lessees=0, meddlers=0, kinds=(), actor_kinds=(), loss=0.0, straggle=0.0)
TIMEOUT_S = 2.0


class Election:
    """An election that candidate a leads, and the values that readers have seen."""

    def __init__(self, seed: int) -> None:
        self.bench = ReplicaBench(seed, CALM)
        self.seen: list[Any] = []
        """The values that readers got, in order."""
        self.woken: list[Any] = []
        self.run(1.0)
        made = json.dump(state_of(Turns()))
        self.done(Operation(verb="PUT", link=LINK, body=made, creates=True))
        self.done(self.request("Campaign", lease="/core/leases/a", value=1))
        row = self.done(Operation(verb="GET", link=LINK)).row
        assert row is not None
        self.tag, self.token = (row.epoch, row.version), json.load(row.state)["token"]
        self.owner = self.bench.owner_of(LINK)
        self.others = [name for name in self.bench.cluster.names if name != self.owner]

    def request(self, kind: str, **members: Any) -> Operation:
        body = {"kind": f"{kind}Request", "candidate": "a", **members}
        return Operation(verb="PATCH", link=LINK, body=json.dump(body), media="handler")

    def run(self, seconds: float) -> None:
        self.bench.world.run(self.bench.world.now + seconds)

    def done(self, operation: Operation) -> Answer:
        """Execute an operation that must succeed."""
        answers: list[Answer] = []
        self.bench.ask("n0", operation, TIMEOUT_S, answers.append)
        self.run(TIMEOUT_S)
        [answer] = answers
        assert answer.is_success, answer
        return answer

    def read(self, node: str) -> None:
        """Note the value that a reader at a node gets, if any."""

        def note(answer: Answer) -> None:
            if answer.is_success and answer.row is not None:
                self.seen.append(json.load(answer.row.state)["holder"]["value"])

        self.bench.ask(node, Operation(verb="GET", link=LINK), TIMEOUT_S, note)

    def wait(self, node: str) -> None:
        """Wait at a node for another version, as an observer does."""
        keeper = self.bench.keepers[node]
        keeper.call(LINK, "wait", (*self.tag, 5_000), timeout_s=6.0, answered=self.woken.append)


@pytest.mark.parametrize("reached", [0, 1])
@pytest.mark.parametrize("seed", [0, 1, 3])  # Reads by lease in the odd ones.
def test_l15_a_proclamation_without_a_majority_is_never_seen_or_for_ever(
    seed: int, reached: int
) -> None:
    """Kill the owner after its proposal, with all answers to it lost."""
    election = Election(seed)
    bench, owner, others = election.bench, election.owner, election.others
    election.read(owner)
    election.run(0.02)  # With reads by lease the owner has one now, and continues to answer.
    assert election.seen.pop() == 1
    bench.cluster.network.cuts |= {(other, owner) for other in others}
    bench.cluster.network.cuts |= {(owner, other) for other in others[reached:]}
    answers: list[Answer] = []
    election.wait(owner)
    proclaim = election.request("Proclaim", token=election.token, value=2)
    bench.ask(owner, proclaim, TIMEOUT_S, answers.append)
    for _ in range(10):
        election.read(owner)
        election.run(0.02)
    assert (answers, election.woken, 2 in election.seen) == ([], [], False)
    election.seen.clear()
    bench.cluster.crash(owner)
    bench.cluster.network.cuts.clear()
    election.run(5.0)
    for _ in range(2):
        for node in bench.cluster.names:
            if bench.is_up(node):
                election.read(node)
        election.run(TIMEOUT_S)
        if not bench.is_up(owner):
            bench.cluster.start(owner)
            election.run(5.0)
    assert election.seen == [2 if reached else 1] * 5
