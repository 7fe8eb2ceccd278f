"""How a pure machine runs against a real clock: feed an event, perform the list, flush the turn.

One thread, run to completion: while a list is performed no other event is looked at. What was said
in one turn of the loop leaves together at its end, without a delay.
"""

import asyncio
import itertools
import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from docstore.links.peers import PeerLinks

E = TypeVar("E")
T = TypeVar("T")

TICK_S = 0.05


def clock() -> float:
    """Return the machines' clock: monotonic, and not standing still while the machine sleeps.

    A lease must run out in that time as well.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Stepping(ABC, Generic[E]):
    """The part of a driver that is the same for every machine."""

    def __init__(self, links: PeerLinks) -> None:
        self.loop = asyncio.get_running_loop()
        self.links = links
        self.stopped = False
        self._turn_planned = False
        self._performing = False
        self._ticker: asyncio.TimerHandle | None = None

    @abstractmethod
    def perform(self, event: E) -> None:
        """Step the machine, and perform what it asks in order."""

    @abstractmethod
    def tick(self) -> None:
        """Feed the event that says that time has passed."""

    @abstractmethod
    def end_turn(self) -> None:
        """Let the machine end its turn, if it has something to say then."""

    def after_turn(self) -> None:
        """Begin what waits for the end of a turn, after the frames have left."""

    def start(self) -> None:
        """Begin to tick."""
        self._tick()

    def end(self) -> None:
        """Feed nothing any more."""
        self.stopped = True
        if self._ticker is not None:
            self._ticker.cancel()

    def feed_later(self, event: E) -> None:
        """Give the machine an event that comes out of the middle of another one's list."""
        self.loop.call_soon(self.feed, event)

    def feed(self, event: E) -> None:
        """Give the machine an event and perform what it asks, in order.

        Not to be called while a list is performed: what it asks would overtake the rest.
        """
        if self.stopped:
            return
        assert not self._performing
        self._performing = True
        try:
            self.perform(event)
        finally:
            self._performing = False
        if not self._turn_planned:
            self._turn_planned = True
            self.loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self.end_turn()
        self._turn_planned = False
        self.links.flush()
        self.after_turn()

    def _tick(self) -> None:
        self.tick()
        if not self.stopped:
            self._ticker = self.loop.call_later(TICK_S, self._tick)


class Requests(Generic[T]):
    """Requests of this node's clients that wait for the machine's answer. It keeps deadlines."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[T]] = {}

    @property
    def in_flight(self) -> int:
        """Return for how many somebody still waits."""
        return sum(not future.done() for future in self._waiting.values())

    def next_number(self) -> int:
        """Return a number for a request."""
        return next(self._numbers)

    def wait(self, number: int) -> "asyncio.Future[T]":
        """Return a future for the answer to a request."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting[number] = future
        return future

    def refused(self) -> "asyncio.Future[T]":
        """Return a future that nobody will answer, since the machine runs no more."""
        future: asyncio.Future[T] = self._loop.create_future()
        future.cancel()
        return future

    def answer(self, number: int, answer: T) -> None:
        """Answer a request, if somebody still waits for it."""
        future = self._waiting.pop(number)
        if not future.done():
            future.set_result(answer)

    def cancel(self) -> None:
        """Leave everybody without an answer."""
        for future in self._waiting.values():
            future.cancel()
