"""The events that more than one machine knows. Its driver, or a simulator, makes these."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from docstore.model.document import Row
from docstore.model.operation import Answer
from docstore.wire.link_messages import PROTOCOL

M = TypeVar("M")
R = TypeVar("R")


@dataclass(slots=True)
class Received(Generic[M]):
    """A message arrived from another node, decoded and valid.

    configuration: id of the sender's configuration when it sent the message; only documents use it.
    """

    sender: str
    message: M
    configuration: int = 1


@dataclass(slots=True)
class LinkMade:
    """A peer is connected: messages lost with the connection before may be sent again.

    protocol: the greatest protocol that both sides speak.
    """

    peer: str
    protocol: int = PROTOCOL


@dataclass(slots=True)
class LinkLost:
    """The connection from or to a peer broke: this node does not hear it any more."""

    peer: str


@dataclass(slots=True)
class Tick:
    """About 50 ms have passed; the wall clock shows `wall_us`."""

    wall_us: int = 0


@dataclass(slots=True)
class TurnEnded:
    """The driver has no more events for now: the machine must flush its batch."""


@dataclass(slots=True)
class Persisted:
    """The batch of Persist `token`, and every batch before it, is durable."""

    token: int


@dataclass(slots=True)
class QueriesAnswered(Generic[R]):
    """The results of Reads: (token, result), in the order of the tokens."""

    answers: Sequence[tuple[int, R]]


@dataclass(slots=True)
class Room:
    """The disk has room again, or is full, so that writes may fail."""

    has_room: bool


@dataclass(slots=True)
class DrainAsked:
    """The node must give its slots to other nodes, and take none."""


@dataclass(slots=True)
class OperationAnswered:
    """The document operation of Ask `token` ended: an answer of the owner, or 503 or 504."""

    token: int
    answer: Answer


@dataclass(slots=True)
class Surveyed:
    """The rows that Survey `token` found. They may be outdated or undecided."""

    token: int
    rows: Sequence[Row]


@dataclass(slots=True)
class Noticed:
    """This node's replica has decided a row of the machine's kinds of documents."""

    row: Row
