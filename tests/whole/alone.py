"""The whole group loses power, and one node after the other comes back alone.

It cannot learn what a majority has decided, not even of the factories. At levels 1 and 2 documents
are written and read nevertheless.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from docstore.model.service import LEVELS
from tests.whole.run import Host, Run

ARRIVED_S, PATIENCE_S = 2.0, 20.0


class AloneAtLevel2(Run):
    """Documents that the first live replica writes."""

    declaration: Mapping[str, Any] = {"options": LEVELS[1]}

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.written = 0

    @property
    def operations(self) -> int:
        return self.written

    async def main(self) -> None:
        for host in self.hosts:
            self.start(host)
        await self._declared()
        await asyncio.sleep(ARRIVED_S)
        for host in self.hosts:
            host.end()
        for host in self.hosts:
            self.start(host)
            await self._write(host)
            host.end()

    async def _write(self, host: Host) -> None:
        """Put a document, and find it, once the node has begun."""
        link, deadline = f"/notes/{host.name}", self.loop.time() + PATIENCE_S
        answer: tuple[int, Any] = (0, None)
        while answer[0] not in (200, 201) and self.loop.time() < deadline:
            answer = await self._told(host, "PUT", link, {"by": host.name})
            await asyncio.sleep(0.1)
        if answer[0] not in (200, 201):
            self.outcome.problems.append(f"{host.name} alone answers {answer}")
            return
        self.written += 1
        status, page = await self._told(host, "GET", link)
        if (status, (page or {}).get("by")) != (200, host.name):
            self.outcome.problems.append(f"{host.name} alone has {status} {page}")


class AloneAtLevel1(AloneAtLevel2):
    """Documents that every node writes on its own."""

    declaration: Mapping[str, Any] = {"options": LEVELS[0]}
