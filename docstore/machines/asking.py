"""How a machine beside the replica is a client of documents: what it asks, and what it is told."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from docstore.model.document import Row
from docstore.model.operation import Answer, Operation


@dataclass(slots=True)
class Ask:
    """Carry out an operation on a document, as a client of this node; answered by Told."""

    token: int
    operation: Operation
    timeout_s: float


@dataclass(slots=True)
class Told:
    """How the document operation of Ask `token` ended: an answer of the owner, or 503 or 504."""

    token: int
    answer: Answer


@dataclass(slots=True)
class Survey:
    """Find all live documents of the machine's own kinds in the slots that this node owns."""

    token: int


@dataclass(slots=True)
class Noticed:
    """A row of a document of the machine's kinds is decided at this node's replica of its slot."""

    row: Row


class Asker(Protocol):
    """The core of such a machine: its clock, its counters, and its way to documents."""

    now: float
    counters: Counter[str]

    def ask(self, operation: Operation, then: Callable[[Answer], None]) -> None:
        """Carry out an operation on a document; `then` runs with how it ended."""
