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
    """A message arrived from another node, decoded and known to be well formed.

    configuration: the id of the one that the sender counted by when it sent this. Documents alone
    look at it.
    """

    sender: str
    message: M
    configuration: int = 1


@dataclass(slots=True)
class LinkMade:
    """The connection to a peer stands: what was lost with the one before may be sent again.

    protocol: the greatest that both sides of the connection speak.
    """

    peer: str
    protocol: int = PROTOCOL


@dataclass(slots=True)
class LinkLost:
    """The connection from or to a peer has broken: it is not heard any more."""

    peer: str


@dataclass(slots=True)
class Tick:
    """50 ms or so have passed; the wall clock shows `wall_us`."""

    wall_us: int = 0


@dataclass(slots=True)
class TurnEnded:
    """The driver has nothing more to feed for now: store and send what gathered."""


@dataclass(slots=True)
class Persisted:
    """The batch of Persist `token`, and every batch before it, would survive a power cut."""

    token: int


@dataclass(slots=True)
class QueriesAnswered(Generic[R]):
    """The results of Reads: (token, result), in the order of the tokens."""

    answers: Sequence[tuple[int, R]]


@dataclass(slots=True)
class Room:
    """The disk has room, or has none; without it, what is stored all the same may find none."""

    has_room: bool


@dataclass(slots=True)
class DrainAsked:
    """Give everything away that another node can have, and take no more."""


@dataclass(slots=True)
class Told:
    """The document operation of Ask `token` ended: an answer of the owner, or 503 or 504."""

    token: int
    answer: Answer


@dataclass(slots=True)
class Surveyed:
    """The rows that Survey `token` found: perhaps old, perhaps never decided."""

    token: int
    rows: Sequence[Row]


@dataclass(slots=True)
class Noticed:
    """A row of a document of the machine's kinds is decided at this node's replica of its slot."""

    row: Row
