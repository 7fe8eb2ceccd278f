"""Rates that several requests share: a job's rows in a second, on this node."""

import asyncio
from collections import OrderedDict

JOBS_MAX = 1000
BURST_S = 0.2
"""What may come at once, in seconds of the rate."""


class Pace:
    """A bucket for each job that asks for a rate (a leaky bucket as a meter, ITU-T I.371)."""

    def __init__(self) -> None:
        self._free_at: OrderedDict[str, float] = OrderedDict()

    async def wait(self, job: str, rate: float, amount: float) -> None:
        """Wait until `amount` more may pass at `rate` a second; 0 is no bound."""
        if rate <= 0:
            return
        now = asyncio.get_running_loop().time()
        free_at = max(self._free_at.pop(job, now), now - BURST_S) + amount / rate
        self._free_at[job] = free_at
        if len(self._free_at) > JOBS_MAX:
            self._free_at.popitem(last=False)
        await asyncio.sleep(max(0.0, free_at - now))
