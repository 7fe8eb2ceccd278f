"""Elections and locks, whose holder checks without a request that it still holds.

    async with client.lock("billing") as lock:
        await client.put("/invoices/7", invoice, fence=lock.fence())

    async with client.election("scheduler", candidate="host-7") as election:
        await election.campaign({"url": "http://host-7:9000"})
        while election.leads():
            ...

This process is the holder while the group has decided so (with a token) and a proof shows that the
lease of the candidate is alive. It stops being the holder *before* it sends the request that gives
the lock up, so that a lost answer leaves no process that takes itself for the holder. A request
without an answer is repeated until its outcome is known. The requests of a candidate are numbered,
so that the group ignores a late one; a late campaign would make a process the holder that does not
know of it.
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
KEY_BYTES_MAX = 512
"""Longest name of an election or lock that the id of a lease begins with."""
BUSY = (429, 503)
GONE = (404, 409)
"""Statuses of a resignation that count as success: the candidate is not in the queue."""


BEHIND = "@"
"""Separator in `resume` between a version and a feed position before the next version."""
OUT = frozenset({"not-holder", "other-token"})
"""Codes that a repeated transfer gets if its first attempt was carried out."""
_numbers = itertools.count(1)
"""Numbers of requests: they order a candidate's requests, which all come from one process."""


class _Campaign(NamedTuple):
    """A campaign request whose outcome is unknown."""

    value: Any
    body: bytes


@dataclass(frozen=True, slots=True)
class ElectionState:
    """State of an election in one version of its document.

    leader: "" for none; value: its proclaimed value. waiting: the other candidates in order.
    resume: `since` for an observer that continues after this version.
    """

    leader: str
    value: Any
    token: int
    waiting: tuple[str, ...]
    version: int
    resume: str = ""


def _lease_beside(name: str) -> str:
    """Return an id for a lease in the slot of an election or lock: their partition keys are equal.

    "" for a name that is too long: then the lease has any id, and campaigns take longer.
    """
    if len(name.encode()) > KEY_BYTES_MAX:
        return ""
    return f"{name.partition('~')[0]}~{uuid.uuid4().hex}"


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
        """candidate: "" for a new name. lease: a shared lease; None for a new one of `ttl_s`."""
        if not name or "/" in name:
            raise BadAddress(f"name must be one path segment, without /; got {name!r}")
        self.name = name
        self.candidate = candidate or f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self._client = client
        self._link = f"/core/{self.scope}/{name}"
        self._owned = None
        if lease is None:
            self._owned = client.lease(ttl_s=ttl_s, holder=self.candidate, name=_lease_beside(name))
        self._lease = self._owned or lease
        self._token: int | None = None
        self._ended = asyncio.Event()
        """Set while this candidate is not the holder."""
        self._is_open = self._is_queued = False
        self._pending: _Campaign | None = None
        """The campaign whose outcome is unknown, None if there is none."""

    async def __aenter__(self) -> Self:
        """Obtain a lease."""
        if self._owned is not None:
            await self._owned.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *rest: object
    ) -> None:
        """Release the turn or leave the queue, then end the lease unless it is shared."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._resign()
        except (ClientError, TimeoutError):
            pass  # The end of the lease releases the turn.
        finally:
            if self._owned is not None:
                await self._owned.__aexit__(kind, error, *rest)

    @property
    def lease(self) -> Lease:
        """Return the lease on which this candidacy depends."""
        assert self._lease is not None
        return self._lease

    @property
    def token(self) -> int:
        """Return the fencing token of our turn. Raises Lost if the turn is over."""
        if self._token is None:
            raise Lost(
                f"{self.candidate} is no longer in the queue of {self._link}; enter it again"
            )
        return self._token

    def fence(self) -> str:
        """Return the `Fence` for writes during our turn. Raises Lost if the turn is over."""
        scope = f"{self.scope}/{quote(self.name, safe='')}"
        if len(scope) > SCOPE_BYTES_MAX:
            scope = f"{self.scope}/{hashlib.sha256(self.name.encode()).hexdigest()}"
        return f"{scope}:{self.token}"

    def _holds(self) -> bool:
        return self._token is not None and self.lease.held()

    def _give_up(self) -> int | None:
        """Stop holding, before the request that says so is sent; return the token."""
        token, self._token = self._token, None
        self._ended.set()
        return token

    async def lost(self) -> None:
        """Wait until this candidate no longer holds."""
        while self._holds():
            ends = [asyncio.ensure_future(each.wait()) for each in (self.lease.lost, self._ended)]
            await asyncio.wait(
                ends, timeout=self.lease.left_s(), return_when=asyncio.FIRST_COMPLETED
            )
            for each in ends:
                each.cancel()

    # Requests to the group

    async def _campaign(self, value: Any = None, *, is_patient: bool = True) -> int:
        """Return the token once it is our turn. Raises Lost if the lease ends before.

        is_patient: whether to wait for the turn; otherwise raises TimeoutError.
        """
        if self._owned is not None and not self._is_open:
            raise RuntimeError(
                f"{self._link}: a candidate has a lease only within `async with`; enter it first"
            )
        if self._holds():
            return self.token
        if self._pending is not None and self._pending.value != value:
            await self._resign()
        if self._pending is None:
            body = self._body(self.campaigns, lease=self.lease.link, value=value)
            self._pending = _Campaign(value, body)
        body, self._is_queued = self._pending.body, True
        try:
            page = await self._ask(body, wait_s=WAIT_S if is_patient else 0)
            while not page["won"]:
                if not is_patient:
                    raise TimeoutError
                # A node that stops or is full answers without waiting.
                await asyncio.sleep(PAUSE_S)
                page = await self._ask(body, wait_s=WAIT_S)
        except RequestFailed:  # The group rejected the campaign, so this candidate is in no queue.
            self._pending, self._is_queued = None, False
            raise
        self._pending = None
        self._token = token = int(page["token"])
        self._ended.clear()
        return token

    async def _resign(self) -> None:
        """Return once this candidate neither holds nor is in the queue."""
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
        """Repeat a request until its outcome is known. Raises Lost, RequestFailed.

        done: codes of rejections that mean success if an earlier attempt had an unknown outcome.
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
                    raise Lost(f"the lease of {self.candidate} has ended: {error}") from error
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
    """Lock that one candidate holds at a time; made by `Client.lock`, held within `async with`."""

    campaigns, resigns, scope = "AcquireRequest", "ReleaseRequest", "locks"
    wait_s: float | None = None
    """Greatest time to wait for the lock, 0 to try once; None for no limit."""

    async def __aenter__(self) -> Self:
        """Wait until this process holds the lock. Raises Lost, TimeoutError after `wait_s`."""
        await super().__aenter__()
        try:
            async with asyncio.timeout(self.wait_s or None):
                await self._campaign(is_patient=self.wait_s != 0)
        except BaseException as error:
            await super().__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *rest: object
    ) -> None:
        """Release the lock. Raises Lost if it was lost before.

        An exception of the block is raised unchanged, with a note of the loss.
        """
        was_held = self.held()
        await super().__aexit__(kind, error, *rest)
        if not was_held:
            lost = f"the lock {self.name} was lost before the end of its block"
            if error is None:
                raise Lost(f"{lost}: what was done since then another holder may have done too")
            error.add_note(lost)

    def held(self) -> bool:
        """Say whether this process holds the lock now, by its clock."""
        return self._holds()


class Election(Candidacy):
    """A candidate of an election, or an observer; made by `Client.election`."""

    campaigns, resigns, scope = "CampaignRequest", "ResignRequest", "elections"

    def leads(self) -> bool:
        """Say whether this candidate leads now, by its clock."""
        return self._holds()

    async def campaign(self, value: Any = None) -> int:
        """Return the token once this candidate leads. Raises Lost.

        value: the value to proclaim.
        """
        return await self._campaign(value)

    async def proclaim(self, value: Any) -> None:
        """Proclaim another value.

        Raises Lost, or RequestFailed if this candidate no longer leads.
        """
        await self._ask(self._body("ProclaimRequest", token=self.token, value=value))

    async def resign(self) -> None:
        """Stop leading, or leave the queue; the next candidate then leads."""
        await self._resign()

    async def transfer(self, to: str) -> None:
        """Pass the lead on to the candidate `to`, which must be in the queue.

        Raises RequestFailed (409 not-queued) if it is not; then this candidate still leads.
        """
        body = self._body("TransferRequest", token=self.token, to=to)
        token = self._give_up()
        try:
            await self._ask(body, done=OUT)
        except RequestFailed as error:
            if error.problem.get("errorCode") == "not-queued":
                self._token = token  # The rejection means that nothing has changed.
                self._ended.clear()
            raise
        self._is_queued = False

    async def observe(self, *, since: str | None = None) -> AsyncIterator[ElectionState]:
        """Yield the present state of the election, then each later version in order, without end.

        since: `resume` of an earlier state; then the first state is that of the version after it,
        and no version is skipped or repeated. A token of a feed, or a time, is also accepted.
        Raises ValueError for an empty `since`, RequestFailed (410) if the history after it was
        compacted.
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
            raise ValueError("`since` must be the `resume` of a state, or left out; got ''")
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
