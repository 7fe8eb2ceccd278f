"""What is needed of the past, as this node knows it: read again and again, for whoever lets go."""

import asyncio
from math import inf

import structlog

from docstore.driver import Driver
from docstore.errors import BadRequest, DocstoreError
from docstore.model import json
from docstore.protocol.events import NeedsRead
from docstore.reads.listings import Listings
from docstore.scans.cut import unpack_cut
from docstore.services.registry import SNAPSHOTS
from docstore.stepping import clock
from docstore.upkeep.background import Background

INTERVAL_S = 2.0
TIMEOUT_S = 10.0

log = structlog.get_logger("docstore.upkeep.needs")


class NeedsReader:
    """Looks at all snapshots of the group, and tells the protocol what they need."""

    def __init__(self, driver: Driver, listings: Listings) -> None:
        self._driver = driver
        self._listings = listings
        self._background = Background("needs", self._turn)
        driver.feed(NeedsRead(-inf, {}))  # There may be some: nothing is known of any yet.

    def start(self) -> None:
        """Begin to look, unless that has begun."""
        self._background.start()

    async def stop(self) -> None:
        """Stop looking."""
        await self._background.stop()

    async def _turn(self) -> None:
        try:
            await self.look()
        except DocstoreError as error:
            log.info("snapshots are not known", error=str(error))
        await asyncio.sleep(INTERVAL_S)

    async def look(self) -> None:
        """Read all snapshots. Raises Unavailable."""
        asked_at = clock()
        found = await self._listings.all(SNAPSHOTS, level=3, timeout_s=TIMEOUT_S)
        cuts: dict[int, int] = {}
        for link, _, row in found:
            try:
                token = json.load(row.state).get("cut", "") if row else ""
                positions = unpack_cut(str(token)).positions
            except BadRequest:
                log.warning("a snapshot that cannot be read keeps nothing", link=link)
                continue
            for slot, (_, n) in enumerate(positions):
                cuts[slot] = min(n, cuts.get(slot, n))
        self._driver.feed(NeedsRead(asked_at, cuts))
