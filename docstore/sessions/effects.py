"""Everything that the sessions of a node can ask of the world. Performed top to bottom."""

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.machines.asking import Ask, Survey
from docstore.wire.sessions_messages import Calling, Reply


@dataclass(slots=True)
class Send:
    """Give the message to the link to `to`, or drop it."""

    to: str
    message: Calling


@dataclass(slots=True)
class Give:
    """Answer the request."""

    request: int
    reply: Reply


@dataclass(slots=True)
class Confirm:
    """Have a majority say from now on who owns the slots of these documents, one of each slot.

    Answered by Confirmed, after so many seconds at the latest.
    """

    token: int
    links: Sequence[str]
    timeout_s: float


SessionEffect = Send | Ask | Survey | Give | Confirm
