"""Clients that append, put, delete and read, and remember every outcome."""

import json
from dataclasses import dataclass, field
from typing import Any

from docstore.documents.events import Requested
from docstore.model.document import Row
from docstore.model.operation import Answer, Conditions, Operation
from tests.sim.cluster import Cluster

DEADLINE_S = 2.5


@dataclass(slots=True)
class Op:
    """One operation, as its client saw it."""

    kind: str
    """append, put, delete, read, or past: a read of a version that its client has seen."""
    link: str
    uid: str
    start: float
    end: float = float("inf")
    outcome: str = "pending"
    """ok, refused (nothing happened) or unknown."""
    version: int | None = None
    log: tuple[str, ...] | None = None
    """Entries that a read saw, oldest first; None for an absent document."""
    expected: int | None = None
    """The version that a conditional update was based on, or that a read of the past asked for."""


@dataclass(slots=True)
class Instant:
    """Answer to a read of a document as it was at one time."""

    link: str
    at_us: int
    version: int | None = None
    """None: there was no such document."""


@dataclass(slots=True)
class History:
    """Everything that all clients did."""

    ops: list[Op] = field(default_factory=list)
    batches: list[list[Op]] = field(default_factory=list)
    """Those of `ops` that were parts of one batch."""
    instants: list[Instant] = field(default_factory=list)
    """Answers, in their order."""


def to_answer(op: Op, now: float, answer: Answer) -> None:
    """Record the answer to an operation."""
    op.end = now
    row = answer.row
    if op.kind == "past":
        op.outcome = "ok" if answer.status in (200, 404) else "refused"
        if answer.status == 200 and row is not None:
            op.version = row.version
            op.log = None if row.deleted else _content(row)
    elif op.kind == "read":
        if answer.status in (200, 404):
            op.outcome = "ok"
            op.version = row.version if row else -1
            if answer.status == 200 and row is not None:
                op.log = _content(row)
        else:
            op.outcome = "refused"
    elif answer.is_success:
        op.outcome = "ok"
        op.version = row.version if row else None
    else:
        op.outcome = "unknown" if answer.unknown else "refused"


def _content(row: Row) -> tuple[str, ...]:
    return tuple(json.loads(row.state).get("log", ()))


class Client:
    """One request after the other, through random nodes, until `until`."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        links: list[str],
        history: History,
        until: float,
        *,
        past: bool = False,
    ) -> None:
        self._name = name
        self._cluster = cluster
        self._world = cluster.world
        self._links = links
        self._history = history
        self._until = until
        self._past = past
        self._count = 0
        self._seen: dict[str, int] = {}
        self._world.after(0.2 + self._world.rng.random() * 0.1, self._next)

    def _next(self) -> None:
        if self._world.now > self._until:
            return
        rng = self._world.rng
        op = self._drawn()
        process = self._cluster.processes[rng.choice(self._cluster.names)]
        operation = self._operation(op)
        deadline = self._world.now + DEADLINE_S
        if process.up:
            process.request(
                lambda request: Requested(request, operation, deadline),
                lambda answer: self._answered(op, answer),
            )
        self._world.after(DEADLINE_S + 1.0, self._give_up, op, process, process.life)

    def _drawn(self) -> Op:
        """Return the next operation, and add it to the history."""
        rng = self._world.rng
        self._count += 1
        kind = rng.choices(["append", "put", "delete", "read"], [10, 3, 1, 9])[0]
        op = Op(kind, rng.choice(self._links), f"{self._name}.{self._count}", self._world.now)
        if self._past and kind == "read" and op.link in self._seen and self._count % 2:
            op.kind, op.expected = "past", self._seen[op.link]
        self._history.ops.append(op)
        return op

    def _operation(self, op: Op) -> Operation:
        if op.kind == "read":
            return Operation(verb="GET", link=op.link)
        if op.kind == "past":
            return Operation(verb="GET", link=op.link, select=("version", op.expected))
        conditions = None
        if self._world.rng.random() < 0.2 and op.link in self._seen:
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

    def _answered(self, op: Op, answer: Answer) -> None:
        if op.outcome != "pending":
            return
        to_answer(op, self._world.now, answer)
        if op.version is not None:
            self._seen[op.link] = op.version
        self._world.after(0.005 + self._world.rng.random() * 0.06, self._next)

    def _give_up(self, op: Op, process: Any, life: int) -> None:
        """End an operation without an answer: the connection broke, or the answer is overdue."""
        if op.outcome != "pending":
            return
        self._close(op, process, life)
        self._world.after(0.01, self._next)

    def _close(self, op: Op, process: Any, life: int) -> None:
        """Record an operation without an answer: overdue if its node should have answered."""
        op.end = self._world.now
        steady = not process.paused and process.resumed_at < op.start
        alive = process.up and process.life == life and steady
        op.outcome = "overdue" if alive else "unknown"
