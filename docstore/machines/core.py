"""Core of a state machine that is a client of documents, as streams and sessions are.

The machine of documents uses only the outlet, and has a step of its own.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any, Generic, TypeVar

from docstore.machines.effects import Ask, Give, Send
from docstore.machines.view import MachineView
from docstore.model.operation import Answer, Operation

E = TypeVar("E")
F = TypeVar("F")
M = TypeVar("M")
C = TypeVar("C", bound="MachineCore[Any, Any]")

NEVER = float("-inf")


class Outlet(Generic[F]):
    """Collects the effects of a machine in the order in which they were emitted."""

    def __init__(self) -> None:
        self.out: list[Any] = []
        self._tokens = 0

    def emit(self, effect: F) -> None:
        self.out.append(effect)

    def next_token(self) -> int:
        self._tokens += 1
        return self._tokens


class MachineCore(Outlet[F], Generic[F, M]):
    """State that all parts of a machine share, and its operations on documents."""

    def __init__(
        self,
        me: str,
        *,
        view: MachineView,
        rng: Random,
        now: float,
        ask_timeout_s: float,
        pause_s: float,
    ) -> None:
        """rng: makes names and numbers that are unique over all starts of this node.

        pause_s: after a longer time without a step the process counts as paused, and may have
        missed messages.
        """
        super().__init__()
        self.me = me
        self.view = view
        self.now = now
        self.heard_s = 0.0
        """Seconds in which this process was not paused."""
        self.pause_s = pause_s
        self.counters: Counter[str] = Counter()
        self.local: deque[M] = deque()
        """Messages of this node to itself."""
        self._rng = rng
        self._ask_timeout_s = ask_timeout_s
        self._asks: dict[int, Callable[[Answer], None]] = {}

    def new_run(self) -> int:
        """Return a random first number, far from those of other starts of this node."""
        return self._rng.getrandbits(62)

    def give(self, request: int, outcome: Any) -> None:
        self.out.append(Give(request, outcome))

    def send(self, to: str, message: M) -> None:
        """Send to a connected node or to this node; else drop the message, as timers repeat it."""
        if to == self.me:
            self.local.append(message)
        elif self.view.is_linked(to):
            self.out.append(Send(to, message))

    def ask(self, operation: Operation, then: Callable[[Answer], None]) -> None:
        token = self.next_token()
        self._asks[token] = then
        self.out.append(Ask(token, operation, self._ask_timeout_s))

    def told(self, token: int, answer: Answer) -> None:
        self._asks.pop(token)(answer)


class ClientMachine(ABC, Generic[E, F, M, C]):
    """A state machine that is a client of documents. It never waits, and reads no clock."""

    core: C
    rounds_max = 100_000
    """Most messages of this node to itself in one step; further ones wait for the next step."""

    def step(self, event: E, now: float) -> list[F]:  # Tests replace this.
        """Return the effects of `event` at `now` (monotonic seconds), in order."""
        core = self.core
        passed_s = now - core.now
        core.now = now
        if passed_s <= core.pause_s:
            core.heard_s += passed_s
        else:
            self._stalled(passed_s)
        self._dispatch(event)
        for _ in range(self.rounds_max):
            if not core.local:
                break
            self._receive(core.me, core.local.popleft())
        effects, core.out = core.out, []
        return effects

    @abstractmethod
    def _dispatch(self, event: E) -> None:
        """Pass an event to the part that handles it."""

    @abstractmethod
    def _receive(self, sender: str, message: M) -> None:
        """Pass a message to the part that handles it."""

    @abstractmethod
    def _stalled(self, passed_s: float) -> None:
        """Note that this process had no step for `passed_s` seconds."""
