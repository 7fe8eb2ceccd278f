"""The state that all parts of the session machine share."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from docstore.machines.core import MachineCore
from docstore.machines.view import MachineView
from docstore.sessions.effects import Confirm, SessionEffect
from docstore.sessions.timing import SessionsConfig
from docstore.wire.sessions_messages import Calling

Owners = Mapping[str, tuple[str, int]]
"""link -> (node that owns the slot, its epoch), as a majority has confirmed."""


class Core(MachineCore[SessionEffect, Calling]):
    """Shared state of a node's sessions.

    `heard_s`: clock of all deadlines.
    """

    def __init__(
        self, me: str, *, view: MachineView, rng: Random, config: SessionsConfig, now: float
    ) -> None:
        super().__init__(
            me,
            view=view,
            rng=rng,
            now=now,
            ask_timeout_s=config.ask_timeout_s,
            pause_s=config.pause_s,
        )
        self.config = config
        self._confirms: dict[int, Callable[[Owners], None]] = {}

    def confirm(self, links: Sequence[str], then: Callable[[Owners], None]) -> None:
        """Have the owners of documents confirmed, one of each slot; call `then` with them."""
        token = self.next_token()
        self._confirms[token] = then
        self.out.append(Confirm(token, links, self.config.ask_timeout_s))

    def confirmed(self, token: int, owners: Owners) -> None:
        """Call the function that waits for a confirmation."""
        self._confirms.pop(token)(owners)
