"""The events of the sessions of a node. Their driver, or a simulator, makes these."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docstore.machines.events import (
    LinkLost,
    Noticed,
    OperationAnswered,
    Received,
    Surveyed,
    Tick,
    TurnEnded,
)
from docstore.wire.sessions_messages import Calling


@dataclass(slots=True)
class Confirmed:
    """Result of the Confirm with this token: link -> (owner, epoch)."""

    token: int
    owners: Mapping[str, tuple[str, int]]


@dataclass(slots=True)
class Asked:
    """A client's call to the owner of a document; see `messages.Call`.

    deadline: in seconds of the machine's clock.
    """

    request: int
    link: str
    kind: str
    argument: Any
    deadline: float
    trace: str = ""


SessionEvent = (
    Received[Calling]
    | LinkLost
    | Tick
    | TurnEnded
    | OperationAnswered
    | Surveyed
    | Confirmed
    | Noticed
    | Asked
)
