"""The events of the agendas of a node. Their driver, or a simulator, makes these."""

from dataclasses import dataclass

from docstore.machines.events import Noticed, OperationAnswered, Surveyed, Tick, TurnEnded


@dataclass(slots=True)
class Posted:
    """Result of the Post with this token. status: as in HTTP, 0 without an answer."""

    token: int
    status: int
    why: str = ""


AgendaEvent = Noticed | Surveyed | OperationAnswered | Tick | TurnEnded | Posted
