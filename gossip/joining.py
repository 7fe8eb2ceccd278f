"""Waiting for a join: which seeds have answered, and when that is enough. A shell."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from gossip.errors import JoinFailed, NameConflict
from gossip.member import Address


@dataclass(frozen=True, slots=True)
class JoinReport:
    """How the seeds of one join answered. Seeds in neither list are still being tried."""

    ok: list[Address] = field(default_factory=list)
    failed: dict[Address, str] = field(default_factory=dict)


class Joining:
    """One call of `Agent.join`."""

    def __init__(self, name: str, seeds: Sequence[Address]) -> None:
        self._name = name
        self._seeds = frozenset(seeds)
        self._report = JoinReport()
        self.is_over = False
        self._decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self, seed: Address, failure: str) -> None:
        """Note a seed's answer. `failure` is "" if it sent its table, else the reason why not."""
        if seed not in self._seeds:
            return
        if failure:
            self._report.failed[seed] = failure
            return
        self._report.failed.pop(seed, None)
        self._report.ok.append(seed)
        if not self._decided.done():
            self._decided.set_result(None)

    def conflict(self, name: str, holder: Address) -> None:
        """Fail if it is our own name that a live process holds."""
        if name == self._name and not self._decided.done():
            host, port = holder
            self._decided.set_exception(
                NameConflict(
                    f"a live process at {host}:{port} has the name {name} already: use another name"
                )
            )

    async def wait(self, timeout_s: float) -> JoinReport:
        """Return once one seed answered. Raises JoinFailed, NameConflict."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._decided
        except TimeoutError:
            reasons = [f"{host}:{port} {why}" for (host, port), why in self._report.failed.items()]
            tried = "; ".join(reasons) or f"{len(self._seeds)} seeds were given"
            raise JoinFailed(f"no seed answered within {timeout_s} s: {tried}") from None
        finally:
            self.is_over = True
        return self._report
