"""Elections and locks: the holder, looked up without a request, under a lease.

    async with client.lock("billing") as lock:
        await client.put("/invoices/7", invoice, fence=lock.fence())

    async with client.election("scheduler", candidate="host-7") as election:
        await election.campaign({"url": "http://host-7:9000"})
        while election.leads():
            ...

This process is the holder while two conditions hold: the group has decided so (with a token), and
the lease of the candidate is proven to live. It stops being the holder *before* it sends the
request that gives the lock up, so a lost answer leaves no process that takes itself for the holder.
A request without an answer is repeated until its outcome is known. The requests of a candidate are
numbered, so that a late one changes nothing: a late campaign would make a holder that does not know
of it.
"""

import asyncio
import hashlib
import itertools
import os
import re
import socket
import uuid
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import orjson

from docstore.client.documents import DocumentRequests
from docstore.client.errors import (
    BadAddress,
    ClientError,
    Lost,
    RequestFailed,
    Unanswered,
    Unreachable,
)
from docstore.client.leases import LEAVE_S, Lease

JSON = {"Content-Type": "application/json"}
WAIT_S = 20
"""Seconds that one request waits to become the holder; then it is sent again."""
PAUSE_S = 0.1
SCOPE_BYTES_MAX = 200
"""Longest scope of a Fence; a longer name is replaced by its SHA-256."""
BUSY = (429, 503)
GONE = (404, 409)
"""Codes of a resignation that mean: not queued any more. They count as success."""


BEHIND = "@"
"""Separator in `resume` between the last version and a position of the feed before the next."""
OUT = frozenset({"not-holder", "other-token"})
"""Codes of a retried transfer that was carried out already."""
_numbers = itertools.count(1)
"""Number of the newest request of this process: one process sends all requests of a candidate."""


class _Campaign(NamedTuple):
    """A campaign that may have been carried out."""

    value: Any
    body: bytes


@dataclass(frozen=True, slots=True)
class ElectionState:
    """An election as a version of its document shows it.

    leader: "" for none; value: its proclaimed value. waiting: the others, in their order.
    resume: `since` of an observer that goes on behind this version.
    """

    leader: str
    value: Any
    token: int
    waiting: tuple[str, ...]
    version: int
    resume: str = ""


class Candidacy:
    """A place in the queue of one election or lock, under one lease."""

    campaigns, resigns, scope = "", "", ""

    def __init__(
        self,
        client: DocumentRequests,
        name: str,
        *,
        candidate: str,
        lease: Lease | None,
        ttl_s: float,
    ) -> None:
        """candidate: "" for a name of its own. lease: one that is shared; None for one of ttl_s."""
        if not name or "/" in name:
            raise BadAddress(f"{name!r} is no name: it is one segment of a path")
        self.name = name
        self.candidate = candidate or f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self._client = client
        self._link = f"/core/{self.scope}/{name}"
        self._owned = client.lease(ttl_s=ttl_s, holder=self.candidate) if lease is None else None
        self._lease = self._owned or lease
        self._token: int | None = None
        self._ended = asyncio.Event()
        """Set while the turn is not ours."""
        self._is_open = self._is_queued = False
        self._pending: _Campaign | None = None
        """A campaign of which it is not known whether it holds."""

    async def __aenter__(self) -> Self:
        """Obtain a lease."""
        if self._owned is not None:
            await self._owned.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *rest: object
    ) -> None:
        """Give the turn up, or the place in the queue; then end the lease if it is ours."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._resign()
        except (ClientError, TimeoutError):
            pass  # The end of the lease does it.
        finally:
            if self._owned is not None:
                await self._owned.__aexit__(kind, error, *rest)

    @property
    def lease(self) -> Lease:
        """Return what this stands and falls with."""
        assert self._lease is not None
        return self._lease

    @property
    def token(self) -> int:
        """Return the fencing token of our turn. Raises Lost if it is not ours any more."""
        if self._token is None:
            raise Lost(f"{self.candidate} has no turn at {self._link}")
        return self._token

    def fence(self) -> str:
        """Return the `Fence` of what is written during our turn. Raises Lost."""
        scope = f"{self.scope}/{quote(self.name, safe='')}"
        if len(scope) > SCOPE_BYTES_MAX:
            scope = f"{self.scope}/{hashlib.sha256(self.name.encode()).hexdigest()}"
        return f"{scope}:{self.token}"

    def _holds(self) -> bool:
        return self._token is not None and self.lease.held()

    def _give_up(self) -> int | None:
        """Believe no more, before a request that says so is sent; return the token."""
        token, self._token = self._token, None
        self._ended.set()
        return token

    async def lost(self) -> None:
        """Return when this candidate does not hold any more."""
        while self._holds():
            ends = [asyncio.ensure_future(each.wait()) for each in (self.lease.lost, self._ended)]
            await asyncio.wait(
                ends, timeout=self.lease.left_s(), return_when=asyncio.FIRST_COMPLETED
            )
            for each in ends:
                each.cancel()

    # Requests

    async def _campaign(self, value: Any = None) -> int:
        """Return the token once it is our turn. Raises Lost when the lease ends first."""
        if self._owned is not None and not self._is_open:
            raise RuntimeError(f"{self._link}: a candidate has a lease within `async with` only")
        if self._holds():
            return self.token
        if self._pending is not None and self._pending.value != value:
            await self._resign()
        if self._pending is None:
            body = self._body(self.campaigns, lease=self.lease.link, value=value)
            self._pending = _Campaign(value, body)
        body, self._is_queued = self._pending.body, True
        try:
            page = await self._ask(body, wait_s=WAIT_S)
            while not page["won"]:
                await asyncio.sleep(PAUSE_S)  # A node that stops, or is full, answers at once.
                page = await self._ask(body, wait_s=WAIT_S)
        except RequestFailed:  # It is known that this candidate is in no queue.
            self._pending, self._is_queued = None, False
            raise
        self._pending = None
        self._token = token = int(page["token"])
        self._ended.clear()
        return token

    async def _resign(self) -> None:
        """Be neither holder nor in the queue, once this returns."""
        token = self._give_up()
        if not self._is_queued:
            return
        try:
            if self._pending is not None:
                page = await self._ask(self._pending.body)
                token = int(page["token"]) if page["won"] else None
            named = {"lease": self.lease.link} if token is None else {"token": token}
            await self._ask(self._body(self.resigns, **named))
        except RequestFailed as error:
            if error.status not in GONE:
                raise
        self._pending, self._is_queued = None, False

    def _body(self, kind: str, **members: Any) -> bytes:
        asked = {"kind": kind, "candidate": self.candidate, "number": next(_numbers), **members}
        return orjson.dumps(asked)

    async def _ask(
        self, body: bytes, *, wait_s: int = 0, done: Collection[str] = ()
    ) -> dict[str, Any]:
        """Ask until it is known what became of a request. Raises Lost, RequestFailed.

        done: codes of refusals that, after a doubt, say that it has been carried out.
        """
        headers = JSON | ({"Prefer": f"wait={wait_s}"} if wait_s else {})
        is_in_doubt = False
        while True:
            try:
                _, _, content = await self._client.request(
                    "PATCH", quote(self._link), body, headers, wait_s=wait_s
                )
            except RequestFailed as error:
                if error.status == 410:
                    raise Lost(f"{self.candidate} has lost its lease: {error}") from error
                if is_in_doubt and error.problem.get("errorCode") in done:
                    return {}
                if error.status not in BUSY and error.outcome != "unknown":
                    raise
                is_in_doubt = is_in_doubt or error.outcome == "unknown"
            except Unanswered:
                is_in_doubt = True
            except Unreachable:
                pass
            else:
                page: dict[str, Any] = orjson.loads(content)
                return page
            if not self.lease.held():
                raise Lost(f"the lease of {self.candidate} could not be kept alive")
            await asyncio.sleep(PAUSE_S)


class Lock(Candidacy):
    """Held by one at a time; made by `Client.lock`, and held within its `async with`."""

    campaigns, resigns, scope = "AcquireRequest", "ReleaseRequest", "locks"

    async def __aenter__(self) -> Self:
        """Wait until this process holds the lock. Raises Lost."""
        await super().__aenter__()
        try:
            await self._campaign()
        except BaseException as error:
            await super().__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *rest: object
    ) -> None:
        """Release it. Raises Lost if it was lost before.

        An exception of the block is raised as it is, with a note of the loss.
        """
        was_held = self.held()
        await super().__aexit__(kind, error, *rest)
        if not was_held:
            lost = f"the lock {self.name} was lost before the end of its block"
            if error is None:
                raise Lost(f"{lost}: what was done since then another holder may have done too")
            error.add_note(lost)

    def held(self) -> bool:
        """Say whether the lock is ours at this moment; a look at the clock."""
        return self._holds()


class Election(Candidacy):
    """One candidate of an election, or an observer of it; made by `Client.election`."""

    campaigns, resigns, scope = "CampaignRequest", "ResignRequest", "elections"

    def leads(self) -> bool:
        """Say whether this candidate leads at this moment; a look at the clock."""
        return self._holds()

    async def campaign(self, value: Any = None) -> int:
        """Return the token once this candidate leads; value: what it proclaims. Raises Lost."""
        return await self._campaign(value)

    async def proclaim(self, value: Any) -> None:
        """Proclaim another value. Raises Lost, RequestFailed when it leads no more."""
        await self._ask(self._body("ProclaimRequest", token=self.token, value=value))

    async def resign(self) -> None:
        """Stop to lead, or to wait; the next of the queue leads."""
        await self._resign()

    async def transfer(self, to: str) -> None:
        """Stop to lead, for the candidate `to`, who must be waiting.

        Raises RequestFailed (409 not-queued) if it is not: then this candidate still leads.
        """
        body = self._body("TransferRequest", token=self.token, to=to)
        token = self._give_up()
        try:
            await self._ask(body, done=OUT)
        except RequestFailed as error:
            if error.problem.get("errorCode") == "not-queued":
                self._token = token  # It is known that nothing has changed.
                self._ended.clear()
            raise
        self._is_queued = False

    async def observe(self, *, since: str | None = None) -> AsyncIterator[ElectionState]:
        """Yield the election as it is, then each version of it, in order and once, for ever.

        since: `resume` of a state that was seen before; then the versions after it are yielded, and
        none is missed or comes twice. A token of a feed, or a time, is taken as well.
        Raises ValueError for an empty one, RequestFailed (410) when history ends behind it.
        """
        if since is None:
            position = await self._now()
            state = await self._read()
            seen = state.version
            yield replace(state, resume=f"{seen}{BEHIND}{position}")
        else:
            version, _, behind = since.partition(BEHIND)
            is_ours = bool(re.fullmatch("-?[0-9]+", version)) and bool(behind)
            seen, position = (int(version), behind) if is_ours else (-1, since)
        if not position:
            raise ValueError("since is empty: give `resume` of a state, or leave since out")
        async for found in self._client.changes(self._link, since=position):
            for number, each in enumerate(found.changes, 1):
                position = found.next if number == len(found.changes) else position
                state = _state_of(each, each["body"])
                if state.version > seen:
                    seen = state.version
                    yield replace(state, resume=f"{seen}{BEHIND}{position}")
            position = found.next

    async def _now(self) -> str:
        asked = orjson.dumps({"prefix": self._link, "since": "latest"})
        _, _, content = await self._client.request(
            "POST", "/core/changes", asked, JSON, only_reads=True
        )
        since: str = orjson.loads(content.splitlines()[-1])["next"]
        return since

    async def _read(self) -> ElectionState:
        try:
            document = await self._client.get(self._link)
        except RequestFailed as error:
            if error.status != 404:
                raise
            return ElectionState("", None, 0, (), -1)
        return _state_of(document.value, document.value)


def _state_of(row: dict[str, Any], body: dict[str, Any] | None) -> ElectionState:
    version = int(row["documentVersion"])
    if row.get("deleted") or body is None:
        return ElectionState("", None, 0, (), version)
    holder = body["holder"] or {"candidate": "", "value": None}
    waiting = tuple(each["candidate"] for each in body["queue"])
    return ElectionState(holder["candidate"], holder["value"], body["token"], waiting, version)
