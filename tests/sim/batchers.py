"""Clients that send atomic batches, on documents that others update singly, or read the past."""

import json
from typing import Any

from docstore.documents.events import Requested
from docstore.model.batch import batch_of
from docstore.model.document import Row
from docstore.model.operation import Answer, Conditions, Operation
from docstore.model.paths import partition_key
from tests.sim.invariants import Violation
from tests.sim.process import EPOCH_US
from tests.sim.workload import DEADLINE_S, Client, Instant, Op

LINES_MAX = 4
REPEATED_MAX = 3


class Batcher(Client):
    """One batch after the other: several documents that share a key, each with the batch's id."""

    def _next(self) -> None:
        if self._world.now > self._until:
            return
        ops = self._batch()
        self._send(ops, batch_of([self._update(op) for op in ops], key=self._key(ops)))

    def _key(self, ops: list[Op]) -> str:
        return ""

    def _send(self, ops: list[Op], operation: Operation) -> None:
        process = self._cluster.processes[self._world.rng.choice(self._cluster.names)]
        deadline = self._world.now + DEADLINE_S
        if process.up:
            process.request(
                lambda request: Requested(request, operation, deadline),
                lambda answer: self._done(ops, operation, answer),
            )
        self._world.after(DEADLINE_S + 1.0, self._leave, ops, operation, process, process.life)

    def _batch(self) -> list[Op]:
        """Return the parts of the next batch, and add them to the history."""
        rng = self._world.rng
        key = partition_key(rng.choice(self._links))
        links = [link for link in self._links if partition_key(link) == key]
        self._count += 1
        ops = []
        for link in rng.sample(links, min(len(links), rng.randint(2, LINES_MAX))):
            kind = rng.choices(["append", "put", "delete"], [5, 6, 1])[0]
            ops.append(Op(kind, link, f"{self._name}.{self._count}", self._world.now))
        self._history.ops += ops
        self._history.batches.append(ops)
        return ops

    def _update(self, op: Op) -> Operation:
        conditions = None
        if self._world.rng.random() < 0.1 and op.link in self._seen:
            op.expected = self._seen[op.link]
            conditions = Conditions(version=op.expected)
        if op.kind == "append":
            body = json.dumps({"append": op.uid}).encode()
            return Operation(
                verb="PATCH", link=op.link, body=body, media="handler", conditions=conditions
            )
        if op.kind == "delete":
            return Operation(verb="DELETE", link=op.link, conditions=conditions)
        body = json.dumps({"log": [op.uid]}).encode()
        return Operation(verb="PUT", link=op.link, body=body, conditions=conditions, creates=True)

    def _done(self, ops: list[Op], operation: Operation, answer: Answer) -> None:
        if ops[0].outcome != "pending":
            return
        made = answer.rows or []
        if answer.is_success and [row.link for row in made] != [op.link for op in ops]:
            raise Violation(f"batch {ops[0].uid} was answered with a part of it")
        for op in ops:
            op.end = self._world.now
            op.outcome = "unknown" if answer.unknown else "refused"
        for op, row in zip(ops, made, strict=False):
            op.outcome, op.version = "ok", row.version
            self._seen[op.link] = row.version
        self._go_on(ops, operation, 0.005 + self._world.rng.random() * 0.06)

    def _leave(self, ops: list[Op], operation: Operation, process: Any, life: int) -> None:
        if ops[0].outcome == "pending":
            for op in ops:
                self._close(op, process, life)
            self._go_on(ops, operation, 0.01)

    def _go_on(self, ops: list[Op], operation: Operation, after_s: float) -> None:
        self._world.after(after_s, self._next)


class Repeater(Batcher):
    """Each batch under a key: repeated while its fate is unknown, and sometimes afterwards."""

    def _key(self, ops: list[Op]) -> str:
        self._first, self._left = ops, REPEATED_MAX
        return ops[0].uid

    def _go_on(self, ops: list[Op], operation: Operation, after_s: float) -> None:
        if ops is not self._first and ops[0].outcome == "ok":
            self._compare(ops)
        known = self._first[0].outcome
        is_idle = known == "ok" and self._world.rng.random() < 0.2
        if self._left and (known == "unknown" or is_idle):
            self._left -= 1
            again = [Op(op.kind, op.link, op.uid, self._world.now) for op in self._first]
            self._world.after(after_s, self._send, again, operation)
        else:
            super()._go_on(ops, operation, after_s)

    def _compare(self, again: list[Op]) -> None:
        """Check that a repetition got the answer of the batch, or take its answer for the batch."""
        for op, told in zip(self._first, again, strict=True):
            if op.outcome != "ok":
                op.outcome, op.version, op.end = "ok", told.version, told.end
            elif op.version != told.version:
                raise Violation(f"{op.uid} made {op.version} of {op.link}, then {told.version}")


class LooksBack(Client):
    """Reads all documents of a key as of one time, and sometimes again later."""

    def _next(self) -> None:
        if self._world.now > self._until:
            return
        rng, asked = self._world.rng, self._history.instants
        at_us = EPOCH_US + int(self._world.now * 1e6) - rng.choice((0, 1_000, 20_000, 300_000))
        if asked and rng.random() < 0.4:
            at_us = rng.choice(asked).at_us
        key = partition_key(rng.choice(self._links))
        for link in self._links:
            if partition_key(link) == key:
                self._ask(Instant(link, at_us))
        self._world.after(0.02 + rng.random() * 0.1, self._next)

    def _ask(self, instant: Instant) -> None:
        process = self._cluster.processes[self._world.rng.choice(self._cluster.names)]
        operation = Operation(verb="GET", link=instant.link, select=("at", instant.at_us))
        deadline = self._world.now + DEADLINE_S
        if process.up:
            process.request(
                lambda request: Requested(request, operation, deadline),
                lambda answer: self._told(instant, answer),
            )

    def _told(self, instant: Instant, answer: Answer) -> None:
        if answer.status in (200, 404):
            instant.version = answer.row.version if answer.row and answer.status == 200 else None
            self._history.instants.append(instant)


def instant_problems(instants: list[Instant], rows: list[Row]) -> list[str]:
    """Return the answers about an instant that are wrong. rows: all that is decided."""
    found = []
    for told in instants:
        past = [row for row in rows if row.link == told.link and row.updated_us <= told.at_us]
        newest = max(past, key=lambda row: row.version, default=None)
        version = None if newest is None or newest.deleted else newest.version
        if version != told.version:
            found.append(
                f"{told.link} at {told.at_us} was answered as {told.version}, and is {version}"
            )
    return found


def batch_problems(batches: list[list[Op]], rows: list[Row]) -> list[str]:
    """Return the batches that were applied in part, or lie apart. rows: all that is decided."""
    made: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if not row.deleted and (log := json.loads(row.state).get("log")):
            made.setdefault((row.link, log[-1]), []).append(row)
    found = []
    for ops in batches:
        parts = [made.get((op.link, op.uid), []) for op in ops if op.kind != "delete"]
        if len({len(part) for part in parts}) > 1:
            found.append(f"batch {ops[0].uid} ({ops[0].outcome}) was applied in part")
        numbers = sorted(row.n for part in parts for row in part)
        if numbers and numbers[-1] - numbers[0] >= len(ops):
            found.append(f"the rows of batch {ops[0].uid} lie apart: {numbers}")
        if len({row.updated_us for part in parts for row in part}) > 1:
            found.append(f"the rows of batch {ops[0].uid} have several times")
    return found
