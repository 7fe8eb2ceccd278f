"""A schema becomes stricter again and again, while documents are written and nodes fail.

Once a declaration is acknowledged, no node acknowledges what it forbids.
"""

import asyncio
from random import Random
from typing import Any

from tests.whole.faults import Nemesis
from tests.whole.run import FAULTS_S, HEALED_S, Run

ENOUGH = 1_000_000


class Declaring(Run):
    """One client that declares, and four that write."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.least = 0
        """Least value that the acknowledged schema allows; 0 for none."""
        self.declared = self.refused = self.written = 0

    @property
    def operations(self) -> int:
        return self.refused + self.written

    async def main(self) -> None:
        for host in self.hosts:
            self.start(host)
        await self._declared()
        rngs = [Random(self.rng.random()) for _ in range(5)]
        clients = [self._declare(rngs[0]), *(self._write(rng) for rng in rngs[1:])]
        tasks = [asyncio.create_task(client) for client in clients]
        nemesis = Nemesis(self)
        striking = asyncio.create_task(nemesis.run())
        await asyncio.sleep(FAULTS_S)
        nemesis.over = True
        await striking
        nemesis.heal()
        await asyncio.gather(*tasks)

    def _is_over(self) -> bool:
        return self.loop.time() > FAULTS_S + HEALED_S / 2

    async def _declare(self, rng: Random) -> None:
        while not self._is_over():
            least = self.least + 1
            schema = {"properties": {"n": {"minimum": least}}, "required": ["n"]}
            declaration = {"path": "/notes", "schema": schema}
            status, page = await self._told(
                rng.choice(self.hosts), "PUT", "/core/factories/notes", declaration
            )
            if status in (200, 201):
                self.least = least
                self.declared += 1
            elif status not in (0, 503, 504):
                self.outcome.problems.append(f"a declaration was answered {status}: {page!r}")
            await asyncio.sleep(rng.random() * 0.3)

    async def _write(self, rng: Random) -> None:
        while not self._is_over():
            least, start = self.least, self.loop.time()
            n = rng.choice((least - 1, least - 1, ENOUGH))
            link = f"/notes/{rng.randrange(8)}"
            status, page = await self._told(rng.choice(self.hosts), "PUT", link, {"n": n})
            if n < least and least > 0 and status in (200, 201):
                self.outcome.problems.append(f"{n} was accepted at {start}, where {least} is least")
            if n == ENOUGH and status == 422:
                self.outcome.problems.append(f"{n} was refused at {start}: {page!r}")
            self.refused += status == 422
            self.written += status in (200, 201)
            await asyncio.sleep(rng.random() * 0.02)
