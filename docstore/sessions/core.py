"""What all parts of the session machine share: its clock, its view of the group, the way out."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from random import Random

from docstore.machines.asking import Ask
from docstore.machines.view import View
from docstore.model.operation import Answer, Operation
from docstore.sessions.effects import Confirm, Give, Send, SessionEffect
from docstore.sessions.timing import SessionsConfig
from docstore.wire.sessions_messages import Calling, Reply

NEVER = float("-inf")
Owners = Mapping[str, tuple[str, int]]
"""link -> (node that owns the slot, its epoch), as a majority has confirmed."""


class Core:
    """The shared state of the sessions of one node; the parts are written around it."""

    def __init__(
        self, me: str, *, view: View, rng: Random, config: SessionsConfig, now: float
    ) -> None:
        """rng: numbers calls, so that those of an earlier life are not taken for ours."""
        self.me = me
        self.view = view
        self.config = config
        self.now = now
        self.heard_s = 0.0
        """How long this process could hear, in all: deadlines are counted in it."""
        self.counters: Counter[str] = Counter()
        self.out: list[SessionEffect] = []
        self.local: deque[Calling] = deque()
        """Messages of this node to itself."""
        self._rng = rng
        self._tokens = 0
        self._asks: dict[int, Callable[[Answer], None]] = {}
        self._confirms: dict[int, Callable[[Owners], None]] = {}

    def pass_time(self, now: float) -> None:  # Seam.
        """Go on to `now`. While this process stands still no deadline comes nearer."""
        passed_s = now - self.now
        self.now = now
        if passed_s <= self.config.pause_s:
            self.heard_s += passed_s
        else:
            self.counters["pauses"] += 1

    def emit(self, effect: SessionEffect) -> None:
        """Let an effect leave, after all before it."""
        self.out.append(effect)

    def give(self, request: int, reply: Reply) -> None:
        """Answer a request of this node's clients."""
        self.out.append(Give(request, reply))

    def send(self, to: str, message: Calling) -> None:
        """Send to a node that a connection stands to, or to ourselves; otherwise timers repair."""
        if to == self.me:
            self.local.append(message)
        elif self.view.is_linked(to):
            self.out.append(Send(to, message))

    def ask(self, operation: Operation, then: Callable[[Answer], None]) -> None:
        """Carry out an operation on a document; `then` runs with how it ended."""
        token = self.next_token()
        self._asks[token] = then
        self.out.append(Ask(token, operation, self.config.ask_timeout_s))

    def told(self, token: int, answer: Answer) -> None:
        """Run what waits for an operation."""
        self._asks.pop(token)(answer)

    def confirm(self, links: Sequence[str], then: Callable[[Owners], None]) -> None:
        """Have it confirmed who owns documents, one of each slot; `then` runs with who does."""
        token = self.next_token()
        self._confirms[token] = then
        self.out.append(Confirm(token, links, self.config.ask_timeout_s))

    def confirmed(self, token: int, owners: Owners) -> None:
        """Run what waits for a confirmation."""
        self._confirms.pop(token)(owners)

    def next_token(self) -> int:
        """Return a number that nothing else of this machine has."""
        self._tokens += 1
        return self._tokens

    def new_run(self) -> int:
        """Return a number to count on from that is far from those of other starts of this node."""
        return self._rng.getrandbits(62)
