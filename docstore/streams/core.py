"""What all parts of the partition machine share: who and when this node is, and the way out.

What goes to the disk, and what may be said once it is there, is in `disk.py`.
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

from docstore.machines.asking import Ask
from docstore.machines.view import View
from docstore.model.operation import Answer, Operation
from docstore.streams.effects import Alarm, Give, Outcome, Send, StreamEffect
from docstore.streams.timing import StreamsConfig
from docstore.wire.streams_messages import Streaming

NEVER = float("-inf")


class Core:
    """The shared state of the partitions of one node; the parts are written around it."""

    def __init__(
        self, me: str, *, view: View, rng: Random, config: StreamsConfig, now: float
    ) -> None:
        """rng: names copies of data."""
        self.me = me
        self.view = view
        self.config = config
        self.now = now
        self.has_room = True
        self.draining = False
        self.counters: Counter[str] = Counter()
        self.out: list[StreamEffect] = []
        self.local: deque[Streaming] = deque()
        """Messages of this node to itself."""
        self._rng = rng
        self._tokens = 0
        self._posted: dict[tuple[str, type[Any]], list[Any]] = {}
        self._asks: dict[int, Callable[[Answer], None]] = {}

    def new_copy(self) -> str:  # Seam.
        """Return an id for data that are begun anew."""
        return f"{self._rng.getrandbits(64):016x}"

    def expired_us(self, last_us: int) -> int:
        """Return the instant before which idle producers are forgotten, by a log's times and D6."""
        return min(last_us, self.view.past_us()) - self.config.upkeep.producer_expiry_us

    def new_run(self) -> int:
        """Return a number to count on from that is far from those of other starts of this node."""
        return self._rng.getrandbits(62)

    def next_token(self) -> int:
        """Return a number that nothing else of this process has."""
        self._tokens += 1
        return self._tokens

    def emit(self, effect: StreamEffect) -> None:
        """Let an effect leave, after all before it."""
        self.out.append(effect)

    def give(self, request: int, outcome: Outcome) -> None:
        """Answer a request of this node's clients."""
        self.out.append(Give(request, outcome))

    def alarm(self, what: str) -> None:
        """Tell the operator of something that must never happen."""
        self.counters["alarms"] += 1
        self.out.append(Alarm(what))

    def send(self, to: str, message: Streaming) -> None:
        """Send to a node that a connection stands to, or to ourselves; otherwise timers repair."""
        if to == self.me:
            self.local.append(message)
        elif self.view.is_linked(to):
            self.out.append(Send(to, message))

    def post(self, to: str, kind: type[Any], item: Any) -> None:
        """Let a message of this kind that leaves at the end of the turn have this item too."""
        self._posted.setdefault((to, kind), []).append(item)

    @property
    def has_posted(self) -> bool:
        """Say whether messages wait for the end of the turn."""
        return bool(self._posted)

    def send_posted(self) -> None:
        """End the turn: one message of each kind leaves to each node."""
        posted, self._posted = self._posted, {}
        for (to, kind), items in posted.items():
            self.send(to, kind(items))

    def ask(self, operation: Operation, then: Callable[[Answer], None]) -> None:
        """Carry out an operation on a document; `then` runs with how it ended."""
        token = self.next_token()
        self._asks[token] = then
        self.out.append(Ask(token, operation, self.config.ask_timeout_s))

    def told(self, token: int, answer: Answer) -> None:
        """Run what waits for an operation."""
        self._asks.pop(token)(answer)
