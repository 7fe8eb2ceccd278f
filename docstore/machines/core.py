"""A machine that is a client of documents: its state, its way out, and the course of a step.

Streams and sessions are such machines. Documents share the way out, and have a step of their own.
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

NEVER = float("-inf")


class Outlet(Generic[F]):
    """The way out of a machine: effects leave in the order in which they were emitted."""

    def __init__(self) -> None:
        self.out: list[Any] = []
        self._tokens = 0

    def emit(self, effect: F) -> None:
        """Let an effect leave, after all before it."""
        self.out.append(effect)

    def next_token(self) -> int:
        """Return a number that nothing else of this machine has."""
        self._tokens += 1
        return self._tokens


class MachineCore(Outlet[F], Generic[F, M]):
    """The state that all parts of such a machine share."""

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
        """rng: makes names and numbers that no other start of this node has.

        pause_s: a process that had no step for longer stood still, and heard nothing meanwhile.
        """
        super().__init__()
        self.me = me
        self.view = view
        self.now = now
        self.heard_s = 0.0
        """How long this process could hear, in all."""
        self.pause_s = pause_s
        self.counters: Counter[str] = Counter()
        self.local: deque[M] = deque()
        """Messages of this node to itself."""
        self._rng = rng
        self._ask_timeout_s = ask_timeout_s
        self._asks: dict[int, Callable[[Answer], None]] = {}

    def new_run(self) -> int:
        """Return a number to count on from that is far from those of other starts of this node."""
        return self._rng.getrandbits(62)

    def give(self, request: int, outcome: Any) -> None:
        """Answer a request of this node's clients."""
        self.out.append(Give(request, outcome))

    def send(self, to: str, message: M) -> None:
        """Send to a node that a connection stands to, or to ourselves; otherwise timers repair."""
        if to == self.me:
            self.local.append(message)
        elif self.view.is_linked(to):
            self.out.append(Send(to, message))

    def ask(self, operation: Operation, then: Callable[[Answer], None]) -> None:
        """Carry out an operation on a document; `then` runs with its answer."""
        token = self.next_token()
        self._asks[token] = then
        self.out.append(Ask(token, operation, self._ask_timeout_s))

    def told(self, token: int, answer: Answer) -> None:
        """Run what waits for an operation."""
        self._asks.pop(token)(answer)


class ClientMachine(ABC, Generic[E, F, M]):
    """A machine that is a client of documents. It never waits, and reads no clock."""

    core: MachineCore[F, M]
    rounds_max = 100_000
    """Messages of this node to itself in one step; others wait for the next step."""

    def step(self, event: E, now: float) -> list[F]:  # Seam.
        """Return what `event` at `now` (monotonic seconds) asks of the world, in order."""
        core = self.core
        passed_s = now - core.now
        core.now = now
        if passed_s <= core.pause_s:
            core.heard_s += passed_s
        else:
            self._stood_still(passed_s)
        self._dispatch(event)
        for _ in range(self.rounds_max):
            if not core.local:
                break
            self._receive(core.me, core.local.popleft())
        effects, core.out = core.out, []
        return effects

    @abstractmethod
    def _dispatch(self, event: E) -> None:
        """Hand an event to the part that it concerns."""

    @abstractmethod
    def _receive(self, sender: str, message: M) -> None:
        """Hand a message to the part that it concerns."""

    @abstractmethod
    def _stood_still(self, passed_s: float) -> None:
        """Note that this process had no step for `passed_s` seconds."""
