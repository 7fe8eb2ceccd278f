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
    """slot -> (epoch of the term, decided): a quorum confirmed the term after it was asked.

    So whatever was acknowledged before the question is in the rows up to `decided`.
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
