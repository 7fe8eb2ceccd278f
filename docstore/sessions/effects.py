"""The effects of the sessions of a node."""

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.machines.effects import Ask, Give, Send, Survey
from docstore.wire.sessions_messages import Calling, Reply


@dataclass(slots=True)
class Confirm:
    """Have a majority say from now on who owns the slots of these documents, one of each slot.

    Answered by Confirmed, after so many seconds at the latest.
    """

    token: int
    links: Sequence[str]
    timeout_s: float


SessionEffect = Send[Calling] | Ask | Survey | Give[Reply] | Confirm
