"""Limit bulk work on this node: rows read and documents written a second, by job.

A job names a rate itself, or an operator sets one: `/core/spark/quotas/<job>` holds for one job,
`/core/spark/quotas/default` for each job without a quota of its own. The lower rate applies, on
each node separately. Quotas are documents, so all nodes learn of them; each node reads them again
after `KNOWN_S`.
"""

import asyncio
from collections import OrderedDict
from typing import Any
from urllib.parse import quote

from docstore.errors import BadRequest
from docstore.http.backend import Backend
from docstore.model import json
from docstore.model.operation import Operation
from docstore.services.registry import QUOTAS

READS, WRITES = "rowsPerSecond", "writesPerSecond"
KNOWN_S = 5.0
"""Seconds for which a node uses a quota before it reads it again."""
TIMEOUT_S = 2.0
JOBS_MAX = 1000
BURST_S = 0.2
"""Burst of a job, in seconds of its rate."""


class RateLimiter:
    """Delays jobs that exceed a rate (a leaky bucket as a meter, ITU-T I.371)."""

    def __init__(self) -> None:
        self._free_at: OrderedDict[str, float] = OrderedDict()

    async def wait(self, job: str, rate: float, amount: float) -> None:
        """Wait until the job may have `amount` more at `rate` a second; 0 is no limit."""
        if rate <= 0:
            return
        now = asyncio.get_running_loop().time()
        free_at = max(self._free_at.pop(job, now), now - BURST_S) + amount / rate
        self._free_at[job] = free_at
        if len(self._free_at) > JOBS_MAX:
            self._free_at.popitem(last=False)
        await asyncio.sleep(max(0.0, free_at - now))


class Quotas:
    """Rates of jobs, from requests and from quotas."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._limiter = RateLimiter()
        self._known: OrderedDict[str, tuple[float, dict[str, Any] | None]] = OrderedDict()

    async def rate(self, job: str, kind: str, asked: float = 0.0) -> float:
        """Return the units of a kind that a job may have a second; 0 is no limit."""
        quota = (await self._read(job)) if job else None
        if quota is None:
            quota = await self._read("default")
        allowed = (quota or {}).get(kind, 0)
        sane = isinstance(allowed, int | float) and not isinstance(allowed, bool) and allowed > 0
        rates = [rate for rate in (asked, float(allowed) if sane else 0.0) if rate > 0]
        return min(rates, default=0.0)

    async def wait(self, job: str, kind: str, rate: float, amount: float) -> None:
        """Wait until a job may have `amount` more units of a kind."""
        await self._limiter.wait(f"{kind} {job}", rate, amount)

    async def _read(self, name: str) -> dict[str, Any] | None:
        """Return a quota, None if there is none; the last known one if its owner is away."""
        now = asyncio.get_running_loop().time()
        read_at, known = self._known.get(name, (-KNOWN_S, None))
        if now - read_at < KNOWN_S:
            return known
        operation = Operation(verb="GET", link=f"{QUOTAS.path}/{quote(name, safe='')}")
        answer = await self._backend.submit(operation, TIMEOUT_S)
        if answer.status == 200 and answer.row is not None:
            try:
                known = json.parse_object(answer.row.state)
            except BadRequest:
                known = None
        elif answer.status in (404, 410):
            known = None
        self._known[name] = (now, known)
        if len(self._known) > JOBS_MAX:
            self._known.popitem(last=False)
        return known
