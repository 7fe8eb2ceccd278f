"""Everything that a replica can ask of the world. Performed top to bottom, in order.

Send never waits: a full queue drops, and the protocol's timers repair. What speaks of this
node's own disk (a promise, an acceptance) is sent only after `Persisted` has come back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from docstore.model.document import Row
from docstore.model.operation import Answer
from docstore.ownership.configuration import Configuration
from docstore.storage.store import Query, Write
from docstore.wire.messages import ReplicaMessage


@dataclass(slots=True)
class Send:
    """Give the message to the link to `to`, or drop it."""

    to: str
    message: ReplicaMessage


@dataclass(slots=True)
class Persist:
    """Join the writes to the batch that forms; answered by Persisted, or DiskFilled."""

    token: int
    writes: Sequence[Write]


@dataclass(slots=True)
class Read:
    """Answer the query from what is committed; answered by QueriesAnswered."""

    token: int
    query: Query


@dataclass(slots=True)
class Respond:
    """Answer the client's request."""

    request: int
    answer: Answer


@dataclass(slots=True)
class Publish:
    """A row that nodes act on (of a factory, a topic, a partition) is decided."""

    row: Row


@dataclass(slots=True)
class Reconfigured:
    """The group is another one from here on: connect to its members, know them by it."""

    configuration: Configuration


@dataclass(slots=True)
class ChangeAnswered:
    """Answer whoever asked for a change of the group. status: as HTTP has it; 202 is begun."""

    request: int
    status: int
    code: str
    detail: str


@dataclass(slots=True)
class ReadIndexAnswered:
    """slot -> (epoch of the reign, decided): a quorum confirmed the reign after it was asked.

    So whatever was acknowledged before the question is in the rows up to `decided`.
    """

    request: int
    found: Mapping[int, tuple[int, int]]


@dataclass(slots=True)
class Alarm:
    """Something that must never happen did; the slot concerned abstains. For the operator."""

    what: str


Effect = (
    Send
    | Persist
    | Read
    | Respond
    | Publish
    | Reconfigured
    | ChangeAnswered
    | ReadIndexAnswered
    | Alarm
)
