"""The effects of the sessions of a node."""

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.machines.effects import Ask, Give, Send, Survey
from docstore.wire.sessions_messages import Calling, Reply


@dataclass(slots=True)
class Confirm:
    """Ask a majority to confirm the owner of each slot; `links` has one document of each.

    Answered by Confirmed, after `timeout_s` at the latest.
    """

    token: int
    links: Sequence[str]
    timeout_s: float


SessionEffect = Send[Calling] | Ask | Survey | Give[Reply] | Confirm
