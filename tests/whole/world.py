"""Replacements of a node's surroundings: time, chance, gossip's sockets, the end of the process.

The product has no switches for this; the names that its shells use are replaced during a run.
"""

import asyncio
import time as real_time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

import docstore.client.boot_clock
import docstore.client.documents
import docstore.client.elections
import docstore.client.leases
import docstore.client.membership
import docstore.http.ids
import docstore.http.leases
import docstore.http.reply
import docstore.maintenance.upkeep.resync
import docstore.node.members.founding
import docstore.node.members.lookup
import docstore.node.members.membership
import docstore.node.node
import docstore.runtime.links.peers
import docstore.runtime.stepping
import gossip.agent
import gossip.clock
from tests.whole.asking import ask
from tests.whole.loop import LIFE, VirtualLoop

EPOCH_S = 1_700_000_000


class VirtualTime:
    """The module `time`, on the loop's clock, and wrong where a host's clock is wrong."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.time()

    def clock_gettime(self, _: int) -> float:
        return self._loop.time()

    def perf_counter(self) -> float:
        return self._loop.time()

    def time(self) -> float:
        return self.time_ns() / 1e9

    def time_ns(self) -> int:
        life = LIFE.get()
        ahead_us = life.clock_ahead_us if life else 0
        return int((EPOCH_S + self._loop.time()) * 1e6 + ahead_us) * 1000

    def __getattr__(self, name: str) -> Any:
        return getattr(real_time, name)


class Chance:
    """The modules `secrets`, `random` and `uuid`, from a seed."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def randbits(self, bits: int) -> int:
        return self._rng.getrandbits(bits)

    def token_bytes(self, count: int) -> bytes:
        return self._rng.randbytes(count)

    def random(self) -> float:
        return self._rng.random()

    def uuid4(self) -> UUID:
        return UUID(int=self._rng.getrandbits(128), version=4)

    def Random(self, *seed: Any) -> Random:  # noqa: N802 - the name of the class
        return Random(*seed) if seed else Random(self._rng.random())


class SimulatedTransport:
    """Gossip's sockets, on the simulated network."""

    def __init__(
        self,
        config: Any,
        on_datagram: Callable[..., None],
        on_request: Callable[..., Awaitable[bytes | None]],
        permits: Callable[[str], bool],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.seal: Any = None
        self._on_datagram, self._on_request = on_datagram, on_request
        self._address = ("", 0)
        self._network: Any = None

    async def start(self, bind: tuple[str, int]) -> tuple[str, int]:
        self._network = asyncio.get_running_loop().network  # type: ignore[attr-defined]
        self._address = bind
        self._network.bind(bind, self._on_datagram, self._on_request)
        return bind

    async def stop(self) -> None:
        self._network.unbind(self._address)

    def send(self, to: tuple[str, int], datagram: bytes) -> None:
        self._network.throw(self._address, to, datagram)

    def drain(self) -> None:
        """Do nothing: datagrams are delivered at once."""

    async def ask(self, to: tuple[str, int], body: bytes, *, timeout_s: float) -> Any:
        async with asyncio.timeout(timeout_s):
            return await self._network.ask(self._address[0], to, body), None


async def management_page(at: tuple[str, int], over_http: object) -> Any:
    """Return a node's own status, over the simulated network."""
    try:
        async with asyncio.timeout(docstore.node.members.lookup.PATIENCE_S):
            _, _, page = await ask(at, "GET", "/core/management")
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("it ended half-way") from error
    return page


@contextmanager
def simulated(loop: VirtualLoop, rng: Random, ended: Callable[..., None]) -> Iterator[None]:
    """Run nodes in this loop's world. ended: called when a process would end itself."""
    time, chance = VirtualTime(loop), Chance(rng)
    with ExitStack() as stack:
        for module in (
            docstore.runtime.stepping,
            docstore.node.members.membership, docstore.maintenance.upkeep.resync, docstore.http.ids,
            docstore.http.leases, docstore.http.reply,
            docstore.client.boot_clock, gossip.clock, gossip.agent,
        ):  # fmt: skip
            stack.enter_context(patch.object(module, "time", time))
        for module in (docstore.node.members.founding, gossip.agent):
            stack.enter_context(patch.object(module, "secrets", chance))
        for module in (docstore.runtime.links.peers, gossip.agent):
            stack.enter_context(patch.object(module, "random", chance))
        for module in (docstore.client.elections, docstore.client.membership):
            stack.enter_context(patch.object(module, "uuid", chance))
        for module in (docstore.client.documents, docstore.client.leases):
            stack.enter_context(patch.object(module, "uuid4", chance.uuid4))
        stack.enter_context(patch.object(docstore.client.elections, "_numbers", count(1)))
        stack.enter_context(patch.object(gossip.agent, "Transport", SimulatedTransport))
        stack.enter_context(patch.object(docstore.node.node, "end_process", ended))
        lookup = docstore.node.members.lookup
        stack.enter_context(patch.object(lookup, "management_page", management_page))
        yield
