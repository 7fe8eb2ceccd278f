"""Reads the retention requirements of the group again and again, for the compactor."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import inf

import structlog

from docstore.documents.events import PinsRead
from docstore.documents.retention.pins import Pins
from docstore.errors import BadRequest, DocstoreError
from docstore.maintenance.upkeep.background import Background
from docstore.model import json
from docstore.model.document import Row
from docstore.model.service import Refusal
from docstore.query.cut import unpack_cut
from docstore.reads.listings import Listings
from docstore.runtime.driver import Driver
from docstore.runtime.stepping import clock
from docstore.services.declared import VERSIONS_MAX, path_of
from docstore.services.registry import FACTORIES, SNAPSHOTS, declared_in

INTERVAL_S = 2.0
TIMEOUT_S = 10.0

log = structlog.get_logger("docstore.maintenance.upkeep.pins")


class PinsReader(Background):
    """Reads all named snapshots and declarations, and feeds their requirements to the driver."""

    def __init__(self, driver: Driver, listings: Listings) -> None:
        super().__init__("needs", self._turn)
        self._driver = driver
        self._listings = listings
        self._declared: Mapping[str, int] = {}
        """Link -> version of the declarations from which `_counted` was made."""
        self._counted: Mapping[str, int] = {}
        # Nothing may be compacted before the first pins are known.
        driver.feed(PinsRead(Pins(-inf, {})))

    async def _turn(self) -> None:
        try:
            await self.look()
        except DocstoreError as error:
            log.info("retention requirements could not be read, retrying", error=str(error))
        await asyncio.sleep(INTERVAL_S)

    async def look(self) -> None:
        asked_at = clock()
        needs = Pins(asked_at, await self._cuts(), await self._versions())
        self._driver.feed(PinsRead(needs))

    async def _cuts(self) -> Mapping[int, int]:
        """Return slot -> the smallest position of a snapshot's cut."""
        cuts: dict[int, int] = {}
        for row in await self._rows(SNAPSHOTS):
            try:
                positions = unpack_cut(str(json.load(row.state).get("cut", ""))).positions
            except BadRequest:
                log.warning("a snapshot has no valid cut and keeps no history", link=row.link)
                continue
            for slot, (_, n) in enumerate(positions):
                cuts[slot] = min(n, cuts.get(slot, n))
        return cuts

    async def _versions(self) -> Mapping[str, int]:
        """Return factory -> number of versions that its documents keep, read after each change."""
        found = await self._listings.all(FACTORIES, level=3, timeout_s=TIMEOUT_S, expand=False)
        if {link: version for link, version, _ in found} != self._declared:
            rows = await self._rows(FACTORIES)
            self._declared = {row.link: row.version for row in rows}
            self._counted = counted_by(rows)
        return self._counted

    async def _rows(self, factory: str) -> list[Row]:
        found = await self._listings.all(factory, level=3, timeout_s=TIMEOUT_S)
        return [row for _, _, row in found if row is not None]


def counted_by(declarations: Iterable[Row]) -> dict[str, int]:
    """Return factory -> number of versions that its documents keep, for factories with a limit.

    A declaration that a later version of docstore wrote, and that this version cannot read, keeps
    all versions.
    """
    counted = {}
    for row in declarations:
        options = declared_in(row)
        if options is None:
            log.warning("an unreadable declaration keeps all versions", link=row.link)
            with suppress(Refusal):
                counted[path_of(json.load(row.state))] = VERSIONS_MAX
        elif options.versions:
            counted[options.path] = options.versions
    return counted
