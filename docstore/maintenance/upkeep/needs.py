"""What is needed of the past, as this node knows it: read again and again, for whoever lets go."""

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

log = structlog.get_logger("docstore.maintenance.upkeep.needs")


class PinsReader:
    """Looks at all named snapshots and declarations of the group, and tells what they need."""

    def __init__(self, driver: Driver, listings: Listings) -> None:
        self._driver = driver
        self._listings = listings
        self._background = Background("needs", self._turn)
        self._declared: Mapping[str, int] = {}
        """Link -> the version of the declarations that `_counted` is of."""
        self._counted: Mapping[str, int] = {}
        driver.feed(PinsRead(Pins(-inf, {})))  # There may be some: nothing is known of any yet.

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
            log.info("it is not known what is needed", error=str(error))
        await asyncio.sleep(INTERVAL_S)

    async def look(self) -> None:
        """Read all of them. Raises Unavailable."""
        asked_at = clock()
        needs = Pins(asked_at, await self._cuts(), await self._versions())
        self._driver.feed(PinsRead(needs))

    async def _cuts(self) -> Mapping[int, int]:
        """Return slot -> the smallest cut of a snapshot."""
        cuts: dict[int, int] = {}
        for row in await self._rows(SNAPSHOTS):
            try:
                positions = unpack_cut(str(json.load(row.state).get("cut", ""))).positions
            except BadRequest:
                log.warning("a snapshot that cannot be read keeps nothing", link=row.link)
                continue
            for slot, (_, n) in enumerate(positions):
                cuts[slot] = min(n, cuts.get(slot, n))
        return cuts

    async def _versions(self) -> Mapping[str, int]:
        """Return factory -> how many versions its documents keep; read again if one has changed."""
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
    """Return factory -> how many versions its documents keep, of those that say so.

    One that a later version has written, and that is not understood here, keeps all of them.
    """
    counted = {}
    for row in declarations:
        options = declared_in(row)
        if options is None:
            log.warning("a declaration that is not understood keeps all versions", link=row.link)
            with suppress(Refusal):
                counted[path_of(json.load(row.state))] = VERSIONS_MAX
        elif options.versions:
            counted[options.path] = options.versions
    return counted
