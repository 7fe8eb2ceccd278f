"""Effects of more than one machine. A driver performs them in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from docstore.model.operation import Operation

M = TypeVar("M")
Q = TypeVar("Q")
R = TypeVar("R")
W = TypeVar("W")


@dataclass(slots=True)
class Send(Generic[M]):
    """Send a message, or drop it if the queue of the link is full: timers repeat it."""

    to: str
    message: M


@dataclass(slots=True)
class Persist(Generic[W]):
    """Store the writes with the current batch; answered by Persisted."""

    token: int
    writes: Sequence[W]


@dataclass(slots=True)
class Read(Generic[Q]):
    """Query the committed state of the disk; answered by QueriesAnswered."""

    token: int
    query: Q


@dataclass(slots=True)
class Give(Generic[R]):
    """Answer the request of a client of this node."""

    request: int
    outcome: R


@dataclass(slots=True)
class Ask:
    """Execute an operation on a document, as a client does; answered by OperationAnswered."""

    token: int
    operation: Operation
    timeout_s: float


@dataclass(slots=True)
class Survey:
    """Find all live documents of the machine's own kinds in the slots that this node owns.

    Answered by Surveyed.
    """

    token: int


@dataclass(slots=True)
class Alarm:
    """An invariant is violated, and the replica takes no part any more; the operator must act."""

    what: str
