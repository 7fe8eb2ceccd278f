"""The effects of a replica. Its driver performs them in their order."""

from collections.abc import Mapping
from dataclasses import dataclass

from docstore.machines.effects import Alarm, Give, Persist, Read, Send
from docstore.model.document import Row
from docstore.model.operation import Answer
from docstore.ownership.configuration import Configuration
from docstore.storage.store import Query, Write
from docstore.wire.messages import ReplicaMessage


@dataclass(slots=True)
class Publish:
    """Report a decided row of a document that nodes act on: a factory, topic or partition."""

    row: Row


@dataclass(slots=True)
class Reconfigured:
    """Switch to another configuration of the group: connect to its members."""

    configuration: Configuration


@dataclass(slots=True)
class ChangeAnswered:
    """Answer a request to change the group. status: as in HTTP; 202: the change has begun."""

    request: int
    status: int
    code: str
    detail: str


@dataclass(slots=True)
class ReadIndexAnswered:
    """Answer to ReadIndexAsked. found: slot -> (epoch of its term, last decided row).

    A quorum has confirmed each term.
    Every update that was acknowledged before the question is in the rows up to `decided`.
    """

    request: int
    found: Mapping[int, tuple[int, int]]


Effect = (
    Send[ReplicaMessage]
    | Persist[Write]
    | Read[Query]
    | Give[Answer]
    | Publish
    | Reconfigured
    | ChangeAnswered
    | ReadIndexAnswered
    | Alarm
)
