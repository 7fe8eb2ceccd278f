"""Vote: three to seven processes of an application elect one of them as leader, without nodes.

    members = {"a": ("10.0.0.1", 7000), "b": ("10.0.0.2", 7000), "c": ("10.0.0.3", 7000)}
    async with Voting("a", members, state="/var/lib/job/vote.json", secret=b"...") as voting:
        async for _ in voting:
            while voting.leads():
                await do_a_little(token=voting.generation)

Call `leads()` just before each action that only the leader may take. It compares the clock, and
sends no request. A request or file may arrive after the leadership has ended: send `generation`
with it, and let the receiver reject a smaller one than it has seen.

The rules are in ownership/elector.py; here are a socket, a clock, a file and one task.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Self, assert_never

from docstore.client import voting_state
from docstore.client.boot_clock import boot_clock, drop_in_child
from docstore.client.errors import StateUnusable
from docstore.client.voting_datagrams import NAME_BYTES_MAX, opened, sealed
from docstore.ownership.by_vote import Recency, Times
from docstore.ownership.elector import RHO, Elector
from docstore.ownership.elector_messages import (
    Changed,
    Effect,
    Event,
    SaveVote,
    Send,
    Tick,
    Transfer,
)

Address = tuple[str, int]
TICKS_PER_HEARTBEAT = 4
WAITING_MAX = 1_000
"""Datagrams that wait while the disk is busy; further ones are dropped."""
LOOK_UP_S = 30.0
"""Pause between two look-ups of the members' names, which find a member that has moved."""


class Voting(asyncio.DatagramProtocol):
    """A member of a vote, for as long as the `async with` lasts."""

    def __init__(
        self,
        me: str,
        members: Mapping[str, Address],
        *,
        state: str | Path,
        secret: bytes = b"",
        times: Times | None = None,
        rho: float = RHO,
        bind: Address | None = None,
    ) -> None:
        """members, secret, times, rho: must be the same at all members.

        me: our name, one of `members`. state: a file of our own, on a disk that outlives this
        process. secret: with it, datagrams of other senders are ignored. bind: address to listen
        at, if it is not ours in `members`. rho: greatest error of a clock's rate. Raises ValueError
        for settings with which the members cannot vote.
        """
        if me not in members:
            raise ValueError(f"{me!r} must be one of the members {sorted(members)}")
        if not all(0 < len(name.encode()) <= NAME_BYTES_MAX for name in members):
            raise ValueError(f"the name of a member must have 1 to {NAME_BYTES_MAX} bytes")
        self._me, self._members, self._bind = me, dict(members), bind or members[me]
        self._path, self._secret = Path(state), secret
        self._times, self._rho = times or Times(), rho
        self._clock = boot_clock()
        self._made((0, ""))  # Raises errors of the group's settings at once.
        self._elector: Elector | None = None
        self._recency = Recency(0, 0)
        self._change, self._news = Changed(0, None), asyncio.Event()
        self._failed: StateUnusable | None = None
        self._waiting: asyncio.Queue[tuple[Event, asyncio.Future[bool] | None]] = asyncio.Queue()
        self._addresses: dict[str, Any] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._transport: asyncio.DatagramTransport | None = None
        self.ignored_count = 0
        """Datagrams that were ignored: damaged, of unknown senders, or too many."""

    async def __aenter__(self) -> Self:
        """Join the vote. Raises StateUnusable, and OSError if the address cannot be used."""
        stored = await asyncio.to_thread(voting_state.read, self._path, self._me)
        await self._keep(*stored)  # Finds out now if the disk cannot be written.
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=self._bind
        )
        self._elector = self._made(stored)
        self._elector.recency = self._recency
        self._change, self._failed = Changed(self._elector.generation, None), None
        drop_in_child(self)
        self._tasks = [asyncio.create_task(each) for each in (self._run(), self._look_up())]
        self._tick()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Leave the vote; a leader first asks the most recent of its followers to take over."""
        with contextlib.suppress(TimeoutError):  # A disk that hangs must not keep us from leaving.
            async with asyncio.timeout(self._times.patience_s):
                await self.transfer()
        self.drop_all()
        for each in self._tasks:
            each.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._transport is not None:
            self._transport.close()
        for bug in (end for end in ends if isinstance(end, Exception)):
            raise bug

    # Methods for applications

    def leads(self) -> bool:
        """Say whether this process leads now, by its clock; any thread may ask."""
        elector = self._elector
        return elector is not None and elector.leads(self._clock())

    @property
    def generation(self) -> int:
        """Return the latest known generation; while we lead, it is our fencing token."""
        return self._elector.generation if self._elector else self._change.generation

    @property
    def leader(self) -> str | None:
        """Return the leader as far as this member knows, None for none."""
        return self._elector.leader(self._clock()) if self._elector else None

    @property
    def recency(self) -> tuple[int, int]:
        """Return or set how recent our copy is, as (generation, number); the greatest wins."""
        return self._recency

    @recency.setter
    def recency(self, recency: tuple[int, int]) -> None:
        self._recency = Recency(*recency)
        if self._elector:
            self._elector.recency = self._recency

    async def transfer(self, to: str = "") -> bool:
        """Resign so that `to`, or the follower with the greatest recency, is a candidate at once.

        Returns False, and changes nothing, if this member does not lead or has no suitable
        follower.
        """
        if self._elector is None:
            return False
        is_begun: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((Transfer(to), is_begun))
        return await is_begun

    async def __aiter__(self) -> AsyncIterator[Changed]:
        """Yield the present leader, then each change; a slow reader gets only the latest.

        Ends with the `async with`. Raises StateUnusable once our votes cannot be stored.
        """
        seen: Changed | None = None
        while self._elector is not None:
            if self._change != seen:
                seen = self._change
                yield seen
            else:
                await self._news.wait()
        if self._failed:
            raise self._failed

    # Internal methods

    def drop_all(self) -> None:
        """Stop leading, at the end and in a forked child."""
        self._elector = None

    def _made(self, stored: tuple[int, str]) -> Elector:
        return Elector(
            self._me,
            [name for name in self._members if name != self._me],
            stored=stored,
            rng=Random(),
            times=self._times,
            now=self._clock(),
            rho=self._rho,
        )

    def _tick(self) -> None:
        if self._elector is not None:
            self._waiting.put_nowait((Tick(), None))
            pause_s = self._times.heartbeat_s / TICKS_PER_HEARTBEAT
            asyncio.get_running_loop().call_later(pause_s, self._tick)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Take the message of a member; count any other datagram."""
        received = opened(data, to=self._me, secret=self._secret)
        is_welcome = received is not None and received.sender in self._members
        if received is not None and is_welcome and self._waiting.qsize() < WAITING_MAX:
            self._waiting.put_nowait((received, None))
        else:
            self.ignored_count += 1

    async def _run(self) -> None:
        """Process events in order, each after the effects of the one before."""
        try:
            while self._elector is not None:
                event, is_begun = await self._waiting.get()
                effects = self._elector.step(event, self._clock())
                for effect in effects:
                    await self._perform(effect)
                if is_begun is not None and not is_begun.done():
                    is_begun.set_result(any(isinstance(effect, Send) for effect in effects))
        except StateUnusable as error:
            self._failed = error
        finally:
            self._end()

    def _end(self) -> None:
        """Stop voting and leading, and end every wait."""
        self.drop_all()
        self._news.set()
        while not self._waiting.empty():
            _, is_begun = self._waiting.get_nowait()
            if is_begun is not None and not is_begun.done():
                is_begun.set_result(False)

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case SaveVote(generation, voted_for):
                await self._keep(generation, voted_for)
            case Send(to, message):
                datagram = sealed(message, sender=self._me, to=to, secret=self._secret)
                if to in self._addresses and self._transport is not None:
                    self._transport.sendto(datagram, self._addresses[to])
            case Changed():
                self._change = effect
                self._news.set()
                self._news = asyncio.Event()
            case _:
                assert_never(effect)

    async def _keep(self, generation: int, voted_for: str) -> None:
        await asyncio.to_thread(
            voting_state.write, self._path, self._me, generation=generation, voted_for=voted_for
        )

    async def _look_up(self) -> None:
        """Look up the members' addresses at intervals; keep an old address if that fails."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        family = self._transport.get_extra_info("socket").family
        while True:
            for name, (host, port) in self._members.items():
                with contextlib.suppress(OSError):
                    found = await loop.getaddrinfo(
                        host, port, family=family, type=socket.SOCK_DGRAM
                    )
                    self._addresses[name] = found[0][4]
            await asyncio.sleep(LOOK_UP_S)
