"""Clients of our own, the same for both systems: a request at a time on each, every latency noted.

wrk speaks HTTP only. So that both systems are asked by the same hands, the two protocols differ in
how an answer is recognised, and in nothing else.
"""

import abc
import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.cluster import Failed
from bench.load import percentile

ANSWER_LIMIT_S = 30.0
TAIL_EVERY_S = 0.01


class Caller(asyncio.Protocol):
    """One connection that sends a request and waits for its answers."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bool] | None = None
        self._missing = 0
        self._is_fine = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the waiting call."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Failed(f"a connection broke: {exc}"))

    @property
    def is_closed(self) -> bool:
        """Say whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def write(self, request: bytes) -> None:
        """Send a request without an answer."""
        assert self._transport is not None
        self._transport.write(request)

    async def call(self, request: bytes, answers: int = 1) -> bool:
        """Send a request; say, once all its answers are there, whether they were all good."""
        if self.is_closed or self._transport is None:
            raise Failed("a connection was closed")
        self._missing, self._is_fine = answers, True
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def answered(self, *, is_fine: bool) -> None:
        self._missing -= 1
        self._is_fine &= is_fine
        if self._missing <= 0 and self._answer is not None and not self._answer.done():
            self._answer.set_result(self._is_fine)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()


@dataclass
class Writer:
    """A connection, and the requests that it sends, each with `answers` and `things`."""

    caller: Caller
    requests: Iterator[bytes]
    answers: int = 1
    things: int = 1

    async def write(self) -> bool:
        """Send the next request; say whether all of it was accepted."""
        return await self.caller.call(next(self.requests), self.answers)


class Reader(abc.ABC):
    """A connection that reads one partition's records from where it left off."""

    caller: Caller

    @abc.abstractmethod
    async def read(self, most: int) -> int:
        """Read up to `most` records with one request, waiting for the first; return how many."""


@dataclass(frozen=True)
class Flow:
    """The figures of one row of one round: things a second, latencies of requests in ms."""

    rate: float
    p50_ms: float
    p99_ms: float
    things: int
    errors: int


async def keep_busy(writers: Sequence[Writer], seconds: float) -> Flow:
    """Let every writer send its next request as soon as the last is answered."""
    took_us: Counter[int] = Counter()
    errors = 0
    began = time.perf_counter()
    until = began + seconds

    async def work(writer: Writer) -> None:
        nonlocal errors
        while (asked := time.perf_counter()) < until:
            errors += not await writer.write()
            took_us[round((time.perf_counter() - asked) * 1e6)] += 1

    async with asyncio.timeout(seconds + ANSWER_LIMIT_S):
        await asyncio.gather(*map(work, writers))
    things = took_us.total() * writers[0].things
    return _flow(took_us, things, time.perf_counter() - began, errors=errors)


async def paced(writers: Sequence[Writer], per_s: float, seconds: float) -> Flow:
    """Let writers send in turn, `per_s` requests a second in all, even if answers are slow.

    A latency counts from when the request should have left.
    """
    took_us: Counter[int] = Counter()
    errors = 0
    every_s = len(writers) / per_s
    began = time.perf_counter()

    async def work(number: int, writer: Writer) -> None:
        nonlocal errors
        due = began + every_s * number / len(writers)
        while due < began + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            errors += not await writer.write()
            took_us[round((time.perf_counter() - due) * 1e6)] += 1
            due += every_s

    async with asyncio.timeout(seconds + ANSWER_LIMIT_S):
        await asyncio.gather(*(work(*each) for each in enumerate(writers)))
    things = took_us.total() * writers[0].things
    return _flow(took_us, things, time.perf_counter() - began, errors=errors)


async def tail(writer: Writer, reader: Reader, seconds: float) -> Flow:
    """Append a record now and then; note how long after it was sent a waiting reader had it."""
    took_us: Counter[int] = Counter()
    sent: deque[float] = deque()
    errors = 0
    number = round(seconds / TAIL_EVERY_S)

    async def read() -> None:
        while took_us.total() < number:
            found = await reader.read(1)
            now = time.perf_counter()
            for _ in range(found):
                took_us[round((now - sent.popleft()) * 1e6)] += 1

    async def write() -> None:
        nonlocal errors
        for _ in range(number):
            sent.append(time.perf_counter())
            errors += not await writer.write()
            await asyncio.sleep(TAIL_EVERY_S)

    async with asyncio.timeout(4 * seconds + ANSWER_LIMIT_S):
        await asyncio.gather(read(), write())
    return _flow(took_us, took_us.total(), seconds, errors=errors)


async def fetch(readers: Sequence[Reader], each: int) -> Flow:
    """Let every reader read `each` records as fast as they come."""
    took_us: Counter[int] = Counter()
    began = time.perf_counter()

    async def work(reader: Reader) -> None:
        left = each
        while left > 0:
            asked = time.perf_counter()
            found = await reader.read(left)
            took_us[round((time.perf_counter() - asked) * 1e6)] += 1
            left -= found

    async with asyncio.timeout(4 * ANSWER_LIMIT_S):
        await asyncio.gather(*map(work, readers))
    return _flow(took_us, each * len(readers), time.perf_counter() - began)


def _flow(took_us: Counter[int], things: int, seconds: float, *, errors: int = 0) -> Flow:
    p50_ms, p99_ms = (percentile(took_us, share) / 1000 for share in (0.5, 0.99))
    return Flow(things / seconds, p50_ms, p99_ms, things, errors)
