"""Clients that send several operations at once, on documents that others update singly."""

from functools import partial
from typing import Any

from docstore.documents.events import BatchRequested
from docstore.model.operation import Answer
from tests.sim.workload import DEADLINE_S, Client, Op, to_answer

BATCH_MAX = 6


class Loader(Client):
    """One batch after the other, the next when all of the last is answered or given up."""

    _waiting = 0

    def _next(self) -> None:
        if self._world.now > self._until:
            return
        rng = self._world.rng
        ops = [self._drawn() for _ in range(rng.randint(1, BATCH_MAX))]
        self._waiting = len(ops)
        process = self._cluster.processes[rng.choice(self._cluster.names)]
        operations, deadline = [self._operation(op) for op in ops], self._world.now + DEADLINE_S
        if process.up:
            process.request_batch(
                lambda first: BatchRequested(first, operations, deadline),
                [partial(self._answered, op) for op in ops],
            )
        for op in ops:
            self._world.after(DEADLINE_S + 1.0, self._give_up, op, process, process.life)

    def _answered(self, op: Op, answer: Answer) -> None:
        if op.outcome == "pending":
            to_answer(op, self._world.now, answer)
            if op.version is not None:
                self._seen[op.link] = op.version
            self._done()

    def _give_up(self, op: Op, process: Any, life: int) -> None:
        if op.outcome == "pending":
            self._close(op, process, life)
            self._done()

    def _done(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._world.after(0.005 + self._world.rng.random() * 0.06, self._next)
