"""Leases of this process, kept alive in the background; proofs show whether they are held.

    async with client.lease(ttl_s=10.0) as lease:
        await client.put("/workers/a", {"host": "here"}, lease=lease)   # goes when the lease ends
        while lease.held():                                             # looks at the clock
            ...

`held()` is true for two thirds of the TTL after the last keep-alive that was answered, counted from
when it was sent (`ownership/proof.py`); `lost` is set once the lease is over for ever. A keep-alive
is one request to one node; if it is not answered, the next request goes to another node. A write or
a message may arrive after the lease has ended: guard it with a Fence, whose token comes from a
lock, an election or a role; a lease alone has none.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Self
from urllib.parse import quote
from uuid import uuid4

import orjson

from docstore.client.boot_clock import boot_clock, drop_in_child
from docstore.client.errors import ClientError
from docstore.client.requests import Requests
from docstore.ownership.proof import RATE_ERROR, Proof
from docstore.sessions.holder import Happening, Holder, KeepAlive, LeaseLost

LEASES = "/core/leases"
JSON = {"Content-Type": "application/json"}
ANSWER_SHARE = 0.25
"""Fraction of the TTL to wait for the answer to a keep-alive; then another node is asked."""
ANSWER_LEAST_S = 0.25
WHOLE_S = 3_600.0
LEAVE_S = 3.0
"""Seconds for the request that ends a lease; without an answer the lease expires."""


class Lease:
    """A lease; `async with` creates it and ends it."""

    def __init__(
        self, keeper: "LeaseKeepers", ttl_s: float, *, behavior: str, holder: str, name: str
    ) -> None:
        self.id = name or uuid4().hex
        self.ttl_s = ttl_s
        self.lost = asyncio.Event()
        """Set once the lease is over for ever, ended by its owner or released by this process."""
        self._keeper = keeper
        self._behavior = behavior
        self._holder = holder
        self._proof: Proof | None = None

    @property
    def link(self) -> str:
        """Return the link of its document."""
        return f"{LEASES}/{self.id}"

    def held(self) -> bool:
        """Say whether this process holds the lease now, by its clock; any thread may ask."""
        return self._proof is not None and self._proof.is_valid(self._keeper.clock())

    def left_s(self) -> float:
        """Return for how many seconds the lease is held without another answer; else 0."""
        return 0.0 if self._proof is None else max(0.0, self._proof.until - self._keeper.clock())

    def kept_s(self) -> float:
        """Return for how many seconds its owner certainly keeps the lease, even if not held."""
        if self._proof is None:
            return 0.0
        until = self._proof.stamp + self.ttl_s * (1.0 - RATE_ERROR)
        return max(0.0, until - self._keeper.clock())

    async def grant(self) -> None:
        """Create the lease, and keep it alive from now on. Raises ClientError.

        Raises ValueError if `held()` could be true for too long, given the greatest error of
        clocks.
        """
        asked = {
            "documentSelfLink": self.id, "ttlMs": round(self.ttl_s * 1000),
            "behavior": self._behavior, "holder": self._holder,
        }  # fmt: skip
        # The first attempt may have created it, and the owner counts from then.
        stamp = self._keeper.clock()
        await self._keeper.make(asked)
        self.keep(stamp)

    async def adopt(self) -> None:
        """Keep an existing lease alive. Raises ClientError."""
        stamp = self._keeper.clock()
        page = await self._keeper.ask_once(self.link)
        self.ttl_s = page["ttlMs"] / 1000
        self.keep(stamp)

    def keep(self, stamp: float) -> None:
        """Start the proof of the lease, and keep the lease alive.

        stamp: when the request that granted the lease was sent.
        """
        self._proof = self._keeper.hold(self, stamp)

    async def release(self) -> None:
        """End the lease, here and at its owner, which removes attached documents at once."""
        self._keeper.let_go(self)
        with suppress(ClientError, TimeoutError):  # Without an answer the lease expires.
            async with asyncio.timeout(LEAVE_S):
                await self._keeper.end(self.link)

    async def __aenter__(self) -> Self:
        """Create the lease, and keep it alive."""
        await self.grant()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """End the lease."""
        await self.release()


class LeaseKeepers:
    """Keeps all leases of one client alive."""

    def __init__(self, client: Requests) -> None:
        self.clock = boot_clock()
        self._client = client
        self._holder = Holder()
        drop_in_child(self._holder)
        self._leases: dict[str, Lease] = {}
        self._news = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._first = 0

    async def make(self, asked: dict[str, object]) -> None:
        """Create a lease under an id of ours, so that the request may be repeated.

        Raises ClientError.
        """
        body = orjson.dumps(asked)
        await self._client.request("POST", LEASES, body, JSON, only_reads=True)

    async def ask_once(self, link: str) -> dict[str, int]:
        """Send one keep-alive for an existing lease. Raises ClientError."""
        body = orjson.dumps({"kind": "KeepAliveRequest"})
        _, _, content = await self._client.request(
            "PATCH", quote(link), body, JSON, only_reads=True
        )
        return dict(orjson.loads(content))

    async def end(self, link: str) -> None:
        """End a lease whose holder has stopped."""
        await self._client.json("DELETE", quote(link))

    def hold(self, lease: Lease, stamp: float) -> Proof:
        """Keep a granted lease alive; return its proof."""
        proof = self._holder.hold(lease.id, lease.ttl_s, stamp)
        self._leases[lease.id] = lease
        if self._keeping is None:
            self._keeping = asyncio.get_running_loop().create_task(self._keep())
        self._news.set()
        return proof

    def let_go(self, lease: Lease) -> None:
        """Stop holding a lease."""
        self._tell(self._holder.release(lease.id))

    async def stop(self) -> None:
        """Stop holding all leases, which then expire."""
        self._holder.drop_all()
        tasks = [each for each in (self._keeping, *self._asking) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lease in self._leases.values():
            lease.lost.set()

    async def _keep(self) -> None:
        """Send the keep-alives that are due, without end."""
        while True:
            self._news.clear()
            for due in self._holder.due(self.clock()):
                if isinstance(due, KeepAlive):
                    task = asyncio.get_running_loop().create_task(self._ask(due))
                    self._asking.add(task)
                    task.add_done_callback(self._asking.discard)
            # If no lease is held, nothing is due before `_news` is set.
            left_s = min(max(0.0, self._holder.next_at() - self.clock()), WHOLE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._news.wait()

    async def _ask(self, asked: KeepAlive) -> None:
        """Keep leases alive with one request to one node: it is sent once, so has one stamp."""
        held = [self._leases[each] for each in asked.leases if each in self._leases]
        if not held:
            return
        ttl_s = min(lease.ttl_s for lease in held)
        timeout_s = max(ANSWER_LEAST_S, ttl_s * ANSWER_SHARE)
        body = orjson.dumps({"leases": asked.leases})
        headers = JSON | {"Docstore-Timeout-Ms": str(max(1, int(timeout_s * 1000)))}
        url = self._client.urls[self._first % len(self._client.urls)]
        alive: Sequence[str] = ()
        gone: Iterable[str] = ()
        stamp = self.clock()
        try:
            _, _, content = await self._client.once(
                url, "POST", f"{LEASES}/keep-alive", body, headers, timeout_s=timeout_s
            )
            page = orjson.loads(content)
            alive, gone = page["alive"], page["gone"]
        except ClientError:
            self._first += 1
        else:
            self._first += bool(page["unknown"])
        now = self.clock()
        self._tell(
            self._holder.answered(asked, stamp=stamp, now=now, alive=set(alive), gone=set(gone))
        )
        self._news.set()

    def _tell(self, happened: Iterable[Happening]) -> None:
        for each in happened:
            if isinstance(each, LeaseLost):
                lease = self._leases.pop(each.lease, None)
                if lease is not None:
                    lease.lost.set()
