"""Users' processes: they hold leases, locks, elections and roles by the product's client.

Each is on a machine of its own, whose clock runs up to 2 % too fast or too slow and shows any wall
time. A process may be paused, killed or cut off. Beliefs are checked after each of its steps, since
a belief begins only at a step (decision 34).
"""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any

from docstore.client import ClientError
from docstore.services.leases import Behavior
from tests.whole.loop import LIFE, Life
from tests.whole.witness import SimulatedClient

ROLES, COUNT = "r", 3
AGAIN_S = 0.6
LATE_MAX_S = 3.0
"""Greatest delay of a write that is late on purpose."""


class Process:
    """One process of a user. Subclasses define what it does."""

    def __init__(self, name: str, address: str, run: Any) -> None:
        self.name, self.address, self.run = name, address, run
        self.rng = Random(run.rng.random())
        self.rate = run.rate()
        self.ahead_us = 0
        self.life: Life | None = None
        self.client: SimulatedClient | None = None
        self.is_over = False
        """Whether it was asked to end by itself."""
        self._lives = self._names = 0
        self._held: dict[str, Callable[[], bool]] = {}
        """Thing that it may hold exclusively -> whether it believes so."""

    # Defined by subclasses

    async def take_part(self, client: SimulatedClient) -> None:
        """Hold something for a while, once."""
        raise NotImplementedError

    def things(self) -> list[str]:
        """Return what it wants to hold exclusively."""
        return []

    # Lives

    @property
    def up(self) -> bool:
        """Say whether it runs, or is paused."""
        return self.life is not None

    def start(self) -> None:
        """Begin, without memory."""
        if self.up:
            return
        self._lives += 1
        self._held = {}
        self.life = Life(self.address, self.ahead_us, self.rate)
        self.life.stepped = partial(self.run.witness.check, self.run.witness.of.after_actor, self)
        context = copy_context()
        context.run(LIFE.set, self.life)
        self.run.keep(self.run.loop.create_task(self._main(), context=context))

    def kill(self) -> None:
        """End at once."""
        if self.life is not None and self.client is not None:
            self.life.alive = False
            self.client.forget()
            self.run.loop.graveyard.append((self.life, self.client))
            self.life = self.client = None
            self.run.network.lost(self.address)

    async def _main(self) -> None:
        self.client = SimulatedClient(self.run.urls, self.run.witness)
        async with self.client as client:
            while not self.is_over:
                try:
                    await self.take_part(client)
                except ClientError:
                    self.run.witness.of.count("given up")
                await asyncio.sleep(self.rng.random() * AGAIN_S)
        self.life = self.client = None

    # Beliefs

    def beliefs(self) -> list[str]:
        """Return what it believes at this moment to hold exclusively, by its own clock."""
        token = LIFE.set(self.life)
        try:
            return [thing for thing, holds in self._held.items() if holds()]
        finally:
            LIFE.reset(token)

    def believes_in(self, thing: str, holds: Callable[[], bool]) -> None:
        """Register the check of whether it believes to hold a thing."""
        self._held[thing] = holds

    def new_name(self) -> str:
        """Return an unused name for a candidate."""
        self._names += 1
        return f"{self.name}.{self._lives}.{self._names}"

    def won(self, thing: str) -> None:
        """Note that it has its turn."""
        self.run.witness.of.count("turns won")
        self.run.won[thing] = self.run.loop.now

    async def act(self, holds: Callable[[], bool], fence: Callable[[], str]) -> None:
        """Write under a fence for a while, or until the turn is over; writes may come late."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.rng.choice((0.5, 3.0, 9.0)) * self.rng.random()
        while holds() and loop.time() < end and not self.is_over:
            late_s = self.rng.choice((0.0, self.rng.random() * LATE_MAX_S))
            self.run.write_late(f"/t/{self.rng.randrange(2)}", fence(), late_s)
            await asyncio.sleep(0.1 + self.rng.random() * 0.8)


class Locking(Process):
    """Wants a lock, holds it, and gives it back."""

    thing = "/core/locks/l"

    def things(self) -> list[str]:
        """Return the one thing."""
        return [self.thing]

    async def take_part(self, client: SimulatedClient) -> None:
        """Hold the lock once."""
        lock = client.lock("l", candidate=self.new_name(), ttl_s=self.run.ttl_s)
        self.believes_in(self.thing, lock.held)
        async with lock:
            self.won(self.thing)
            await self.act(lock.held, lock.fence)


class Electing(Process):
    """Campaigns, leads, and resigns or hands over."""

    thing = "/core/elections/e"

    def things(self) -> list[str]:
        """Return the one thing."""
        return [self.thing]

    async def take_part(self, client: SimulatedClient) -> None:
        """Lead once."""
        election = client.election("e", candidate=self.new_name(), ttl_s=self.run.ttl_s)
        self.believes_in(self.thing, election.leads)
        async with election:
            await election.campaign(self.name)
            self.won(self.thing)
            await self.act(election.leads, election.fence)
            queue = (await client.get(self.thing)).value["queue"]
            if queue and election.leads() and self.rng.random() < 0.5:
                await election.transfer(self.rng.choice(queue)["candidate"])


class Leasing(Process):
    """Attaches documents to a lease, which must end with it."""

    async def take_part(self, client: SimulatedClient) -> None:
        """Have a lease once."""
        behavior = str(self.rng.choice(list(Behavior)))
        loop = asyncio.get_running_loop()
        end = loop.time() + self.rng.choice((1.0, 6.0)) * self.rng.random()
        async with client.lease(ttl_s=self.run.ttl_s, behavior=behavior) as lease:
            while not lease.lost.is_set() and loop.time() < end and not self.is_over:
                await client.put(f"/a/{self.rng.randrange(6)}", {"by": self.name}, lease=lease)
                await asyncio.sleep(self.rng.random() * 0.5)


class Leading(Process):
    """Takes part in some roles, most of the time."""

    def things(self) -> list[str]:
        """Return all roles."""
        return [f"/core/roles/{ROLES}#{number}" for number in range(COUNT)]

    async def take_part(self, client: SimulatedClient) -> None:
        """Take part as a member once."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.rng.choice((2.0, 10.0)) * self.rng.random()
        async with client.role(ROLES, roles=COUNT) as role:
            for number, thing in enumerate(self.things()):
                self.believes_in(thing, partial(role.leads, number))
            while loop.time() < end and not role.is_over and not self.is_over:
                await self._lead(role)
                await asyncio.sleep(0.1 + self.rng.random() * 0.4)

    async def _lead(self, role: Any) -> None:
        """Write in the name of one of the roles that are led."""
        led = [number for number in range(COUNT) if role.leads(number)]
        if led:
            number = self.rng.choice(led)
            late_s = self.rng.choice((0.0, self.rng.random() * LATE_MAX_S))
            self.run.write_late(f"/t/{self.rng.randrange(2)}", role.fence(number), late_s)
            self.won(self.things()[number])
