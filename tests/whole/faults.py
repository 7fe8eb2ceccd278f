"""Faults of whole nodes, drawn from the seed; then everything heals."""

import asyncio
from contextvars import copy_context
from itertools import permutations
from typing import Any

from tests.whole.loop import LIFE

KINDS = (
    "crash", "crash", "pause", "cut", "oneway", "isolate", "full", "slow", "eio", "clock", "stop",
)  # fmt: skip


class Nemesis:
    """Strikes at random hosts of a run."""

    kinds = KINDS
    every_s = 1.2

    def __init__(self, run: Any) -> None:
        self._run = run
        self.over = False

    async def run(self) -> None:
        """Strike until it is over."""
        while not self.over:
            await asyncio.sleep(0.1 + self._run.rng.random() * self.every_s)
            kind = self._run.rng.choice(self.kinds)
            self._run.outcome.faults[kind] += 1
            host = self._run.rng.choice(self._run.hosts)
            getattr(self, f"_{kind}")(host, self._lasting())

    def _lasting(self) -> float:
        return self._run.rng.choice((0.2, 0.8, 2.0)) * self._run.rng.random()

    def _crash(self, host: Any, lasts_s: float) -> None:
        host.end()
        self._run.loop.call_later(lasts_s, self._run.again, host)

    def _stop(self, host: Any, lasts_s: float) -> None:
        if host.node is not None and host.life is not None:
            context = copy_context()
            context.run(LIFE.set, host.life)
            self._run.loop.call_soon(host.node.drain, context=context)
            self._run.loop.call_later(3.0 + lasts_s, self._run.again, host)

    def _pause(self, host: Any, lasts_s: float) -> None:
        life = host.life
        if life is not None and not life.paused:
            life.paused = True
            self._run.loop.call_later(lasts_s, self._run.loop.resume, life)

    def _cut(self, host: Any, lasts_s: float) -> None:
        other = self._run.rng.choice([each for each in self._run.hosts if each is not host])
        self._sever({(host.address, other.address), (other.address, host.address)}, lasts_s)

    def _oneway(self, host: Any, lasts_s: float) -> None:
        other = self._run.rng.choice([each for each in self._run.hosts if each is not host])
        self._sever({(host.address, other.address)}, lasts_s)

    def _isolate(self, host: Any, lasts_s: float) -> None:
        pairs = permutations([each.address for each in self._run.hosts], 2)
        self._sever({pair for pair in pairs if host.address in pair}, lasts_s)

    def _sever(self, links: set[tuple[str, str]], lasts_s: float) -> None:
        self._run.network.cut(links)
        self._run.loop.call_later(lasts_s, self._run.network.mend, links)

    def _full(self, host: Any, lasts_s: float) -> None:
        store = host.store
        if store is not None:
            store.full = True
            self._run.loop.call_later(lasts_s, setattr, store, "full", False)

    def _slow(self, host: Any, lasts_s: float) -> None:
        store = host.store
        if store is not None:
            store.slowness = 40.0
            self._run.loop.call_later(lasts_s, setattr, store, "slowness", 1.0)

    def _eio(self, host: Any, lasts_s: float) -> None:
        if host.store is not None:
            host.store.failing = True

    def _clock(self, host: Any, lasts_s: float) -> None:
        host.ahead_us = self._run.rng.choice((-3_600_000_000, 0, 3_600_000_000))
        if host.life is not None:
            host.life.clock_ahead_us = host.ahead_us

    def heal(self) -> None:
        """End all faults, start all hosts."""
        self._run.network.mend(set(self._run.network.cuts))
        for host in self._run.hosts:
            if host.life is not None and host.life.paused:
                self._run.loop.resume(host.life)
            if host.store is not None:
                host.store.full = host.store.failing = False
                host.store.slowness = 1.0
            if host.node is None or not host.node.stopping.is_set():
                self._run.start(host)
