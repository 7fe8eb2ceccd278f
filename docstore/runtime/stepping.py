"""Runs a pure machine against a real clock: feed an event, perform its effects, flush the turn.

One thread, run to completion: no event is fed while effects are performed. The messages of one turn
of the event loop leave together at its end, without a delay.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Any, Generic, Protocol, TypeVar, cast

import structlog

from docstore.machines.effects import Alarm, Ask, Give, Persist, Read, Send, Survey
from docstore.machines.events import Tick, TurnEnded
from docstore.runtime.disk import DiskIO, Queue
from docstore.runtime.document_client import DocumentClient
from docstore.runtime.trace.brief import Table
from docstore.runtime.trace.recorder import Recorder
from docstore.runtime.trace.trace import Causes, dump

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)
T = TypeVar("T")

Shared = Send[Any] | Give[Any] | Persist[Any] | Read[Any] | Ask | Survey | Alarm
"""The effects that `Stepping` performs itself; a machine's own effects are all others."""

TICK_S = 0.05

log = structlog.get_logger("docstore.runtime.stepping")


def clock() -> float:
    """Return the machines' clock: monotonic seconds, which also pass while the computer sleeps.

    A lease must run out while the computer sleeps, too.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def unless_ended(ends: asyncio.Future[None], answer: Awaitable[T]) -> T | None:
    """Return an answer; None if `ends` is set first, since the node stops then."""
    asking = asyncio.ensure_future(answer)
    try:
        await asyncio.wait((asking, ends), return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() and not asking.cancelled() else None
    finally:
        asking.cancel()


class Machine(Protocol[E_contra, F_co]):
    """A pure machine: time is an argument, and effects are returned."""

    def step(self, event: E_contra, now: float) -> Sequence[F_co]:
        """Return the effects of `event` at `now` (monotonic seconds), in order."""

    @property
    def wants_turn(self) -> bool:
        """Say whether the machine waits for TurnEnded."""


class Links(Protocol):
    """The links to other nodes, as a driver uses them."""

    def send(self, to: str, message: Any) -> None:
        """Queue a message for the end of the turn, or drop it."""

    def flush(self) -> None:
        """Write the messages of this turn."""


class NoLinks:
    """The links of a machine that sends nothing."""

    def send(self, to: str, message: Any) -> None:
        """Fail: this machine sends nothing."""
        raise AssertionError(message)

    def flush(self) -> None: ...


class Stepping(Generic[E, F]):
    """The driver of a machine, with or without a disk and a client of documents.

    E: the machine's events. F: its own effects; mypy rejects a machine with an effect that is
    neither shared nor in F.
    """

    _disk: DiskIO[Any, Any, Any]
    bytes_of: Callable[[Sequence[Any]], int]
    """Size of the bodies in writes. `_disk` and this exist only for a machine with Persist and
    Read."""
    _documents: DocumentClient
    """Client of documents, which exists only for a machine with Ask and Survey."""

    def __init__(self, machine: Machine[E, Shared | F], links: Links, table: Table) -> None:
        """table: the shapes in which the flight recorder keeps the machine's steps."""
        self.loop = asyncio.get_running_loop()
        self.links = links
        self.recorder = Recorder(table)
        self.stopped = False
        self._requests = PendingRequests[Any](self.loop)
        self._dumps = Causes()
        self._of_no_request = Context()
        """The context of a turn's end, which belongs to no single request."""
        self._machine = machine
        self._turn_planned = False
        self._performing = False
        self._ticker: asyncio.TimerHandle | None = None

    def feed(self, event: E) -> None:
        """Give the machine an event and perform its effects, in order.

        Must not be called while effects are performed: the new effects would overtake those that
        remain.
        """
        if self.stopped:
            return
        assert not self._performing
        self._performing = True
        try:
            for effect in self.step(event):
                match effect:
                    case Send(to, message):
                        self.links.send(to, message)
                    case Give(request, outcome):
                        self._requests.answer(request, outcome)
                    case Persist(token, writes):
                        self._disk.writes.extend(writes)
                        self._disk.token = token
                        self.recorder.carried += self.bytes_of(writes)
                    case Read(token, query):
                        self.queue_of(query).waiting.append((token, query))
                    case Ask():
                        self._documents.ask(effect)
                    case Survey():
                        self._documents.survey(effect)
                    case Alarm(what):
                        self.alarm(effect, what)
                    case _:
                        self.perform(effect)
        finally:
            self._performing = False
        if not self._turn_planned:
            self._turn_planned = True
            self.loop.call_soon(self._end_turn, context=self._of_no_request)

    def perform(self, effect: F) -> None:
        raise AssertionError(effect)

    def step(self, event: E) -> Sequence[Shared | F]:
        now = clock()
        try:
            effects = self._machine.step(event, now)
        except Exception as error:
            self._tell(event, f"the machine failed: {error!r}"[:200])
            raise
        try:
            self.recorder.note(now, event, effects)
        except Exception as error:  # noqa: BLE001 - a failed record must not stop the effects
            self._cannot_keep(error)
        return effects

    def alarm(self, effect: Alarm, what: str) -> None:
        """Log a violated invariant, and the steps of this node before it."""
        log.error("alarm", what=what)
        self._tell(effect, what)

    def _tell(self, last: E | Alarm, why: str) -> None:
        """Log the last steps, once for each cause. The machine keeps running."""
        try:
            self.recorder.consider(clock(), last, ())
            if self._dumps.is_first(why):
                dump(log.error, why, [self.recorder])
        except Exception as error:  # noqa: BLE001 - effects still have to be performed
            self._cannot_keep(error)

    def _cannot_keep(self, error: Exception) -> None:
        why = repr(error)[:200]
        if self._dumps.is_first(why):
            log.error("a step cannot be kept", error=why)

    def queue_of(self, query: Any) -> Queue[Any]:
        return self._disk.queues[0]

    def tick(self) -> None:
        tick: Any = Tick(time.time_ns() // 1000)
        self.feed(tick)

    def after_turn(self) -> None:
        """Begin the work that waits for the end of a turn. Called after the frames have left."""

    @property
    def in_flight(self) -> int:
        return self._requests.in_flight

    def start(self) -> None:
        self._tick()

    def end(self) -> None:
        self.stopped = True
        if self._ticker is not None:
            self._ticker.cancel()

    def feed_later(self, event: E) -> None:
        """Feed an event in the next turn: another machine's effects are being performed now."""
        self.loop.call_soon(self.feed, event)

    def _end_turn(self) -> None:
        if self._machine.wants_turn:
            turn_ended: Any = TurnEnded()
            self.feed(turn_ended)
        self._turn_planned = False
        self.links.flush()
        self.after_turn()

    def _tick(self) -> None:
        self.tick()
        self.recorder.trim()
        if not self.stopped:
            self._ticker = self.loop.call_later(TICK_S, self._tick)


class PendingRequests(Generic[T]):
    """Requests of this node's clients without an answer yet. The machine keeps their deadlines."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next = 1
        self._waiting: dict[int, asyncio.Future[T] | _RequestBatch[T]] = {}

    @property
    def in_flight(self) -> int:
        return sum(not waiting.done() for waiting in self._waiting.values())

    def next_number(self, count: int = 1) -> int:
        """Return the first of `count` consecutive request numbers."""
        first = self._next
        self._next += count
        return first

    def wait(self, number: int) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting[number] = future
        return future

    def wait_batch(self, first: int, count: int) -> "asyncio.Future[list[T]]":
        batch = _RequestBatch[T](first, count, self._loop.create_future())
        self._waiting.update(dict.fromkeys(range(first, first + count), batch))
        return batch.all

    def refused(self) -> "asyncio.Future[T]":
        """Return a cancelled future, since the machine has stopped."""
        future: asyncio.Future[T] = self._loop.create_future()
        future.cancel()
        return future

    def answer(self, number: int, answer: T) -> None:
        """Answer a request, unless its client has gone."""
        waiting = self._waiting.pop(number)
        if isinstance(waiting, _RequestBatch):
            waiting.answer(number, answer)
        elif not waiting.done():
            waiting.set_result(answer)

    def cancel(self) -> None:
        for waiting in self._waiting.values():
            waiting.cancel()


class _RequestBatch(Generic[T]):
    """Requests whose client waits for all answers together."""

    __slots__ = ("_answers", "_first", "_missing", "all")

    def __init__(self, first: int, count: int, every: "asyncio.Future[list[T]]") -> None:
        self.all = every
        self._first = first
        self._missing = count
        self._answers: list[T | None] = [None] * count

    def answer(self, number: int, answer: T) -> None:
        self._answers[number - self._first] = answer
        self._missing -= 1
        if not self._missing and not self.all.done():
            self.all.set_result(cast(list[T], self._answers))

    def done(self) -> bool:
        return self.all.done()

    def cancel(self) -> None:
        self.all.cancel()
