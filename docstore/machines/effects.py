"""The effects that more than one machine has. A driver performs them in their order.

Send never waits: a full queue drops, and the machines' timers repair.
"""

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
    """Give the message to the link to `to`, or drop it."""

    to: str
    message: M


@dataclass(slots=True)
class Persist(Generic[W]):
    """Join the writes to the batch that forms; answered by Persisted."""

    token: int
    writes: Sequence[W]


@dataclass(slots=True)
class Read(Generic[Q]):
    """Answer the query from what is committed; answered by QueriesAnswered."""

    token: int
    query: Q


@dataclass(slots=True)
class Give(Generic[R]):
    """Answer the request of a client of this node."""

    request: int
    outcome: R


@dataclass(slots=True)
class Ask:
    """Carry out an operation on a document, as a client of this node; answered by Told."""

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
    """Something that must never happen did; the replica concerned abstains. For the operator."""

    what: str
