"""The effects of the agendas of a node."""

from dataclasses import dataclass

from docstore.machines.effects import Ask, Survey
from docstore.model.agenda import Effect


@dataclass(slots=True)
class Post:
    """Append a record to a topic, or call a receiver; answered by Posted.

    link: document of the effect. A repetition has the same link and number.
    """

    token: int
    link: str
    effect: Effect


@dataclass(slots=True)
class GiveUp:
    """Report an effect that its receiver has refused for good."""

    link: str
    effect: Effect
    status: int
    why: str


AgendaEffect = Ask | Survey | Post | GiveUp
