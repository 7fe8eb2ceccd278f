"""The machine of webhooks: all subscriptions that a node delivers, each with its rules. Pure.

It is driven as other machines are. `sender` and `to` name a subscription, in the place of a node.
"""

from dataclasses import dataclass
from random import Random

from docstore.machines.events import Tick, TurnEnded
from docstore.subscriptions.delivery import Delivery
from docstore.subscriptions.effects import Effect, Leave
from docstore.subscriptions.events import Began, Event


@dataclass(slots=True)
class DeliveryEvent:
    """The result of an effect of the subscription with this link, or the start of its delivery."""

    sender: str
    message: Event


@dataclass(slots=True)
class DeliveryEffect:
    """An effect of the subscription with this link, answered by a DeliveryEvent, except Leave."""

    to: str
    message: Effect


class Deliveries:
    """The subscriptions that this node delivers."""

    wants_turn = False

    def __init__(self, retry_s: float, rng: Random) -> None:
        self.active: dict[str, Delivery] = {}
        self._retry_s = retry_s
        self._rng = rng

    def step(self, event: DeliveryEvent | Tick | TurnEnded, now: float) -> list[DeliveryEffect]:
        """Return the next effect for the subscription of an event."""
        if not isinstance(event, DeliveryEvent):
            return []
        link = event.sender
        if isinstance(event.message, Began):
            self.active[link] = Delivery(self._retry_s, self._rng)
        effect = self.active[link].step(event.message, now)
        if isinstance(effect, Leave):
            del self.active[link]
        return [DeliveryEffect(link, effect)]
