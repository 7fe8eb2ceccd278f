"""Everything that can reach the sessions of a node. Its driver, or a simulator, makes these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docstore.machines.asking import Noticed, Told
from docstore.model.document import Row
from docstore.wire.sessions_messages import Calling


@dataclass(slots=True)
class Received:
    """A message arrived from another node, decoded and known to be well formed."""

    sender: str
    message: Calling


@dataclass(slots=True)
class LinkLost:
    """The connection from or to a node has broken: what was asked of it is not answered."""

    peer: str


@dataclass(slots=True)
class Tick:
    """50 ms or so have passed."""


@dataclass(slots=True)
class TurnEnded:
    """The driver has nothing more to say for now: ask for the reads that gathered."""


@dataclass(slots=True)
class Surveyed:
    """What Survey `token` found: rows of live documents, perhaps old, perhaps never decided."""

    token: int
    rows: Sequence[Row]


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
    Received | LinkLost | Tick | TurnEnded | Told | Surveyed | Confirmed | Noticed | Asked
)
