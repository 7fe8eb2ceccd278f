"""Three processes that we started, and what a cluster must offer to be measured.

Every process is stopped by its own pid, whatever happens in between: `Processes` is an async
context manager and the scratch directory goes away only after it.
"""

import abc
import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp

from bench import machine

START_LIMIT_S = 60.0
POLL_S = 0.005
# One attempt of an impatient client to write to a cluster that has just lost a member.
ATTEMPT_LIMIT = aiohttp.ClientTimeout(total=1.0)


class Failed(RuntimeError):
    """The measurement itself went wrong; a figure taken from here on would be a lie."""


@dataclass
class Member:
    """One process of a cluster, and the log that it writes."""

    name: str
    address: str
    command: Sequence[str]
    log: Path
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process, its output appended to the log."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )

    async def end(self, how: signal.Signals, limit_s: float = 15.0) -> None:
        """Send `how` and wait until the process is gone; kill it if it does not go."""
        if self.process is None:
            return
        if self.process.returncode is None:
            self.process.send_signal(how)
        try:
            await asyncio.wait_for(self.process.wait(), limit_s)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        self.process = None

    def signal(self, how: signal.Signals) -> None:
        """Send `how`, and wait for nothing."""
        assert self.process is not None
        self.process.send_signal(how)

    def explain(self) -> str:
        """Return the last lines that the process wrote."""
        lines = self.log.read_text("utf-8", errors="replace").splitlines()
        return f"--- {self.name}\n" + "\n".join(lines[-15:])

    def rss_mib(self) -> float:
        """Return resident memory in MiB."""
        assert self.process is not None
        return machine.rss_mib(self.process.pid)

    def cpu_s(self) -> float:
        """Return processor time used so far, in seconds."""
        assert self.process is not None
        return machine.cpu_s(self.process.pid)


@dataclass
class Target:
    """The address to which one wrk process sends, and the requests to choose from.

    A request is a head, and for writes the running number (12 digits, so that no two values
    are equal) and a tail.
    """

    address: str
    """HOST:PORT, or a URL."""
    heads: list[str]
    tails: list[str] = field(default_factory=list)


@dataclass
class Batch:
    """One bulk request, ready to send, with the number of documents in it."""

    url: str
    payload: bytes
    documents: int
    media: str = "application/json"


class Processes(abc.ABC):
    """Three members of one kind, started on entering and gone on leaving."""

    members: list[Member]
    session: aiohttp.ClientSession
    startup_s: float

    async def __aenter__(self) -> Self:
        """Start all members at once, and time it until all of them are ready to serve."""
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        try:
            before = time.perf_counter()
            await asyncio.gather(*(member.start() for member in self.members))
            await asyncio.gather(*(self.until_ready(member) for member in self.members))
            self.startup_s = time.perf_counter() - before
            await self.prepare()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stop what we started."""
        await self.session.close()
        await asyncio.gather(*(member.end(signal.SIGTERM) for member in self.members))

    async def until_ready(self, member: Member) -> None:
        """Return when `member` says that it can serve. Raises Failed with its last words."""
        deadline = time.monotonic() + START_LIMIT_S
        while not await self.is_ready(member):
            gone = member.process is None or member.process.returncode is not None
            if gone or time.monotonic() > deadline:
                state = "gone" if gone else f"not ready after {START_LIMIT_S:.0f} s"
                message = f"{member.name} is {state}\n{member.explain()}"
                raise Failed(message)
            await asyncio.sleep(POLL_S)

    async def succeeds(self, method: str, url: str, **options: object) -> bool:
        """Say whether a request was answered with 2xx; no answer is a no."""
        try:
            async with self.session.request(method, url, **options) as response:  # type: ignore[arg-type]
                await response.read()
                return 200 <= response.status < 300
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def ask(self, method: str, url: str, **options: object) -> dict[str, object]:
        """Return the JSON of a 2xx answer. Raises Failed for anything else."""
        async with self.session.request(method, url, **options) as response:  # type: ignore[arg-type]
            text = await response.text()
            if not 200 <= response.status < 300:
                message = f"{method} {url}: {response.status} {text[:500]}"
                raise Failed(message)
            return await response.json(content_type=None)  # type: ignore[no-any-return]

    def others(self, victim: Member) -> list[Member]:
        """Return the members but `victim`."""
        return [member for member in self.members if member is not victim]

    def cpu_s(self) -> float:
        """Return the processor time that all members have used."""
        return sum(member.cpu_s() for member in self.members)

    @abc.abstractmethod
    async def is_ready(self, member: Member) -> bool:
        """Say whether `member` can serve."""

    @abc.abstractmethod
    async def prepare(self) -> None:
        """Create what the load reads and writes."""


class Failing(Processes):
    """A cluster whose members a benchmark kills."""

    @abc.abstractmethod
    async def victim(self, turn: int) -> tuple[Member, list[str]]:
        """Return the member to kill in this turn, and some of the paths that wait for it then."""

    @abc.abstractmethod
    async def write(self, link: str, survivor: Member, number: int) -> bool:
        """Try to write value `number` to `link` at `survivor`; say whether it was accepted."""

    @abc.abstractmethod
    async def settled(self) -> None:
        """Return when a member that came back takes its full part again."""


class Cluster(Failing):
    """A cluster whose documents are measured."""

    @abc.abstractmethod
    def ways(self) -> list[tuple[str, list[Target], list[Target]]]:
        """Return (suffix of the row, three targets that replace, three that read), best way first.

        The way with the suffix "" is that of a client that knows the owners.
        """

    @abc.abstractmethod
    def batches(self, documents: int) -> list[list[Batch]]:
        """Return streams of bulk requests that create `documents` in all."""

    @abc.abstractmethod
    def accepted(self, batch: Batch, answer: bytes) -> int:
        """Return how many documents of `batch` are stored, according to a 2xx `answer`."""
