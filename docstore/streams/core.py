"""The state that all parts of the partition machine share."""

from random import Random
from typing import Any

from docstore.machines.core import MachineCore
from docstore.machines.effects import Alarm
from docstore.machines.view import MachineView
from docstore.streams.effects import StreamEffect
from docstore.streams.timing import StreamsConfig
from docstore.wire.streams_messages import Streaming


class Core(MachineCore[StreamEffect, Streaming]):
    """Shared state of a node's partitions, passed to each part of the machine."""

    def __init__(
        self, me: str, *, view: MachineView, rng: Random, config: StreamsConfig, now: float
    ) -> None:
        super().__init__(
            me,
            view=view,
            rng=rng,
            now=now,
            ask_timeout_s=config.ask_timeout_s,
            pause_s=config.elections.pause_s,
        )
        self.config = config
        self.has_room = True
        self.draining = False
        self._posted: dict[tuple[str, type[Any]], list[Any]] = {}

    def new_copy(self) -> str:  # Tests replace this.
        """Return an id for a copy that begins without data."""
        return f"{self._rng.getrandbits(64):016x}"

    def expired_us(self, last_us: int) -> int:
        """Return the time of the last write before which a producer has expired (rule D6).

        last_us: time of the newest batch of the partition.
        """
        return min(last_us, self.view.past_us()) - self.config.upkeep.producer_expiry_us

    def alarm(self, what: str) -> None:
        """Alert the operator to a broken invariant."""
        self.counters["alarms"] += 1
        self.out.append(Alarm(what))

    def post(self, to: str, kind: type[Any], item: Any) -> None:
        """Add an item to the message of this kind that leaves at the end of the turn."""
        self._posted.setdefault((to, kind), []).append(item)

    @property
    def has_posted(self) -> bool:
        """Say whether messages wait for the end of the turn."""
        return bool(self._posted)

    def send_posted(self) -> None:
        """Send the messages of this turn: one of each kind to each node."""
        posted, self._posted = self._posted, {}
        for (to, kind), items in posted.items():
            self.send(to, kind(items))
