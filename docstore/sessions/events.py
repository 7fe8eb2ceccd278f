"""The events of the sessions of a node. Their driver, or a simulator, makes these."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docstore.machines.events import (
    LinkLost,
    Noticed,
    Received,
    Surveyed,
    Tick,
    Told,
    TurnEnded,
)
from docstore.wire.sessions_messages import Calling


@dataclass(slots=True)
class Confirmed:
    """What Confirm `token` found: link -> (owner, epoch). Others may have changed."""

    token: int
    owners: Mapping[str, tuple[str, int]]


@dataclass(slots=True)
class Asked:
    """A client of this node asks the owner of a document, see `messages.Call`.

    deadline: on the clock of `now`.
    """

    request: int
    link: str
    kind: str
    argument: Any
    deadline: float
    trace: str = ""


SessionEvent = (
    Received[Calling] | LinkLost | Tick | TurnEnded | Told | Surveyed | Confirmed | Noticed | Asked
)
