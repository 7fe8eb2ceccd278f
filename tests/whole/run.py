"""One run of whole nodes: a group, clients over HTTP, faults, healing, and the verdict."""

import asyncio
import gc
import hashlib
import logging
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import structlog

from docstore.config import Config
from docstore.errors import StoreDamaged
from docstore.model.address import Address
from docstore.node.node import Node
from docstore.ownership.configuration import Founder
from tests.chaos.mix import Op, judge
from tests.disk.disk import Disk
from tests.memory.streams_memory import MemoryStreamStore
from tests.sim.checkers import INFINITE
from tests.whole.asking import ask
from tests.whole.faults import Nemesis
from tests.whole.loop import LIFE, Life, VirtualLoop
from tests.whole.network import Network
from tests.whole.store import SimulatedStore
from tests.whole.world import simulated

FAULTS_S, HEALED_S, PATIENCE_S = 12.0, 12.0, 6.0
LATE_S = 5.0
"""The deadline, the longest pause, and a margin."""
PORT = 8000


@dataclass(slots=True)
class Outcome:
    """Result of a run."""

    seed: int
    problems: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    operations: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    """Counts of checks and of events."""
    virtual_s: float = 0.0
    trace: str = ""


class Host:
    """A machine: its disk and its clock survive its processes."""

    def __init__(self, name: str, run: "Run") -> None:
        self.name, self._run = name, run
        self.store_id = f"disk-{name}"
        self.address = f"10.0.0.{name[1:]}"
        self.disk = Disk()
        self.life: Life | None = None
        self.node: Node | None = None
        self.store: SimulatedStore | None = None
        self.ahead_us = 0
        self.rate = 1.0
        """Rate of its clock."""
        self.is_lost = False
        """Whether its disk has lost acknowledged data, and its node has detected that."""

    @property
    def up(self) -> bool:
        """Say whether a process runs."""
        return self.life is not None

    def start(
        self, founders: tuple[Founder, ...], factor: int | None, join: tuple[str, ...] = ()
    ) -> None:
        """Start a node. join: URLs of members that are asked to take it into their group."""
        self.life = Life(self.address, self.ahead_us, self.rate)
        context = copy_context()
        context.run(LIFE.set, self.life)
        data = self._run.directory / self.name
        data.mkdir(exist_ok=True)
        config = Config(
            data=data, listen_host=self.address, listen_port=PORT, peer_host=self.address,
            peer_port=PORT + 1, gossip=Address(self.address, PORT + 2),
            advertise=Address(self.address, PORT), peer_advertise=Address(self.address, PORT + 1),
            gossip_advertise=Address(self.address, PORT + 2), node_id=self.name,
            bootstrap=founders, join=join, slots=4, replication_factor=factor, insecure=True,
            repair_interval_s=20.0,
        )  # fmt: skip
        self.store = SimulatedStore(self.disk, self.store_id, self._run.rng)

        async def main() -> None:
            node = self.node = Node(config, self.store, MemoryStreamStore())
            try:
                await node.start()
            except StoreDamaged as error:
                self.end()
                self._run.damaged(self, error)
                return
            self._run.started(self)
            await node.stopping.wait()
            await node.drained()
            await node.stop()
            self.end()

        self._run.keep(self._run.loop.create_task(main(), context=context))

    def end(self) -> None:
        """End the process at once."""
        if self.life is None or self.store is None:
            return
        self.life.alive = False
        self._run.loop.graveyard.append((self.life, self.node))
        self.disk = self.store.lose_power()
        self.life = self.node = self.store = None
        self._run.network.lost(self.address)


class Run:
    """The world of one seed."""

    nemesis: type[Nemesis] = Nemesis
    declaration: Mapping[str, Any] = {}
    """Declaration of the factory of its documents, apart from the path."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.rng = Random(seed)
        self.directory = directory
        self.loop = VirtualLoop()
        self.network = self.loop.network = Network(self.loop, self.rng)
        self.size = self.rng.choice((3, 3, 5))
        self.factor = 3 if self.size == 5 and self.rng.random() < 0.5 else None
        self.hosts = [Host(f"n{number}", self) for number in range(1, self.size + 1)]
        self.founders = self.founders_of(self.hosts)
        self.ops: list[Op] = []
        self.outcome = Outcome(seed)
        self.links = [f"/notes/{each}" for each in range(4)]
        self._tasks: list[asyncio.Task[Any]] = []

    def founders_of(self, hosts: list[Host]) -> tuple[Founder, ...]:
        """Return the founders of a group of these hosts."""
        return tuple(Founder(each.name, each.address, PORT) for each in hosts)

    @property
    def operations(self) -> int:
        """Return the number of its clients' requests."""
        return len(self.ops)

    @property
    def story(self) -> Any:
        """Return the history of the run, which is equal for equal seeds."""
        return self.ops

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task of a node; a task that fails is a problem."""
        self._tasks.append(task)

        def done(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and task.exception() is not None:
                self.outcome.problems.append(f"a node ended by itself: {task.exception()!r}")

        task.add_done_callback(done)

    def start(self, host: Host) -> None:
        """Start a host that is down."""
        if not host.up and not host.is_lost:
            host.start(self.founders, self.factor)

    def ended(self, data: Path, error: BaseException) -> None:
        """Start a process again that has ended itself because of its disk, as a supervisor does."""
        host = next(each for each in self.hosts if each.name == data.name)
        self.outcome.faults["ended by itself"] += 1
        host.end()
        self.loop.call_later(1.0, self.again, host, context=Context())

    def started(self, host: Host) -> None:
        """Do nothing: a start has found its disk to be whole."""

    def damaged(self, host: Host, error: StoreDamaged) -> None:
        """Report a start that has found data missing, which no fault here may cause."""
        self.outcome.problems.append(f"{host.name}: {error}")

    def again(self, host: Host) -> None:
        """Start a host that was ended."""
        self.start(host)

    # The course of a run

    async def main(self) -> None:
        """Found a group, run clients and faults, heal it, and judge."""
        for host in self.hosts:
            self.start(host)
        await self._declared()
        clients = [
            asyncio.create_task(self._client(f"c{number}", Random(self.rng.random())))
            for number in range(4)
        ]
        nemesis = self.nemesis(self)
        striking = asyncio.create_task(nemesis.run())
        await asyncio.sleep(FAULTS_S)
        nemesis.over = True
        await striking
        nemesis.heal()
        await asyncio.sleep(HEALED_S / 2)
        await asyncio.gather(*clients)
        await asyncio.sleep(HEALED_S / 2)
        await self._judge()

    async def _declared(self) -> None:
        for _ in range(200):
            status, _, _ = await self._ask(self.hosts[0], "POST", "/core/factories",
                                           {"path": "/notes", **self.declaration})  # fmt: skip
            if status in (200, 201, 409):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the group was not founded")

    async def _client(self, name: str, rng: Random) -> None:
        tags: dict[str, tuple[str, int]] = {}
        number = 0
        end = self.loop.time() + FAULTS_S + HEALED_S / 3
        while self.loop.time() < end:
            number += 1
            kind = rng.choices(["put", "append", "cas", "delete", "read"], [4, 5, 3, 1, 9])[0]
            link = rng.choice(self.links)
            if kind == "cas" and link not in tags:
                kind = "put"
            host = rng.choice(self.hosts)
            op = Op(kind, link, f"{name}.{number}", host.name, self.loop.time())
            self.ops.append(op)
            await self._do(op, host, tags)
            await asyncio.sleep(rng.random() * 0.05)

    async def _do(self, op: Op, host: Host, tags: dict[str, tuple[str, int]]) -> None:
        verb = {"read": "GET", "delete": "DELETE", "append": "PATCH"}.get(op.kind, "PUT")
        headers = {"Docstore-Timeout-Ms": "2000"}
        if op.kind == "cas":
            headers["If-Match"], op.expected = tags[op.link]
        body = None if verb in ("GET", "DELETE") else {"uid": op.uid}
        try:
            async with asyncio.timeout(PATIENCE_S):
                status, fields, page = await self._ask(host, verb, op.link, body, headers)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            op.end = INFINITE
            return
        op.status, op.end = status, self.loop.time()
        if status == 500:
            self.outcome.problems.append(f"500 for {op.kind}: {page!r}")
        if op.end - op.start > LATE_S:
            self.outcome.stuck.append(f"{op.kind} took {op.end - op.start:.1f} s")
        version = fields.get("docstore-version")
        if version is not None and status in (200, 201, 404):
            op.version = int(version)
        elif status == 404:
            op.version = -1
        if status in (200, 201) and "etag" in fields:
            tags[op.link] = (fields["etag"], op.version or 0)

    async def _ask(
        self, host: Host, verb: str, path: str, body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], Any]:  # fmt: skip
        return await ask((host.address, PORT), verb, path, body, headers)

    async def _told(self, host: Host, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return (status, page) of one request, (0, None) without an answer."""
        headers = {"Docstore-Timeout-Ms": "2000"}
        try:
            async with asyncio.timeout(PATIENCE_S):
                status, _, page = await self._ask(host, verb, path, body, headers)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return 0, None
        if status == 500:
            self.outcome.problems.append(f"500 for {verb} {path}: {page!r}")
        return status, page

    def bury(self) -> None:
        """Drop the tasks of ended lives without warnings."""
        _say_nothing_of_tasks(self.loop)
        self.loop.over = True
        with _unwinding():
            self.loop.graveyard.clear()
            self._tasks.clear()
            self.loop.close()
            gc.collect()

    # The verdict

    async def _judge(self) -> None:
        for host in self.hosts:
            self.start(host)
        standing = [host for host in self.hosts if not host.is_lost]
        await asyncio.sleep(3.0)
        by_link: dict[str, list[Op]] = defaultdict(list)
        for op in self.ops:
            by_link[op.link].append(op)
        for index, link in enumerate(self.links):
            stored = await self._history(standing[index % len(standing)], link)
            wrong = judge(by_link[link], stored)
            self.outcome.problems += [f"{link}: {each}" for each in wrong]
        await self._compare(standing[0])

    async def _history(self, host: Host, link: str) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        path: str | None = f"{link}/versions?limit=500"
        while path:
            status, _, page = await self._ask(host, "GET", path)
            if status == 404:
                return found
            if status != 200:
                self.outcome.stuck.append(f"{link} cannot be read: {status}")
                return found
            found |= {each["documentVersion"]: each for each in page["versions"]}
            path = page.get("nextPageLink")
        return found

    async def _compare(self, host: Host) -> None:
        """Check that all replicas of a slot hold the same, soon after all is healed."""
        status, _, page = await self._ask(host, "GET", "/core/management/digests")
        seen: dict[str, set[str]] = defaultdict(set)
        for digests in (page if status == 200 else {}).values():
            for slot, entry in digests.items():
                seen[slot].add(str(entry))
        for slot, different in seen.items():
            if len(different) > 1:
                self.outcome.stuck.append(f"replicas of slot {slot} differ: {different}")


@contextmanager
def _quiet() -> Iterator[None]:
    before = structlog.get_config()
    logging.disable(logging.CRITICAL)
    structlog.configure(processors=[_drop])
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        structlog.configure(**before)


def _drop(_: Any, method: str, event: Any) -> Any:
    raise structlog.DropEvent


def _say_nothing_of_tasks(loop: VirtualLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]


@contextmanager
def _unwinding() -> Iterator[None]:
    """Ignore tasks of killed processes that fail at their end because the loop is closed."""
    before = sys.unraisablehook

    def hook(about: Any) -> None:
        if not isinstance(about.exc_value, RuntimeError):
            before(about)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def run(seed: int, kind: Callable[[int, Path], Run] = Run) -> Outcome:
    """Run a seed; equal arguments give equal outcomes. kind: the kind of run."""
    with tempfile.TemporaryDirectory(prefix="docstore-whole-") as directory, _quiet():
        world = kind(seed, Path(directory))
        loop = world.loop
        loop.set_exception_handler(
            lambda _, about: world.outcome.problems.append(
                f"{about.get('message')}: {about.get('exception')!r}"
            )
        )
        try:
            with simulated(loop, Random(seed + 1), world.ended):
                loop.run_until_complete(world.main())
        except Exception as error:  # noqa: BLE001 - any error is a problem of the run
            world.outcome.problems.append(f"{type(error).__name__}: {error}")
        outcome = world.outcome
        outcome.operations, outcome.virtual_s = world.operations, loop.time()
        outcome.trace = hashlib.sha256(repr(world.story).encode()).hexdigest()
        for host in world.hosts:
            host.end()
        loop.set_exception_handler(lambda _, about: None)
        asyncio.set_event_loop(None)
        world.bury()
        return outcome
