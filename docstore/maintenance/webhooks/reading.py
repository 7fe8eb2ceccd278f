"""Reads the batches of a subscription: first the current documents, if wanted, then changes.

The documents are those of a cut, read in pages (`reads/scans/queries.py`), and the changes are the
feed of the same path after the cut. So a receiver gets the state, and then each change once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from docstore.errors import SnapshotGone
from docstore.model import document_members
from docstore.model.document import Row
from docstore.model.service import LINEARIZABLE
from docstore.query.cut import Cut, unpack_part
from docstore.query.statements import ENTER
from docstore.reads.listings import Listings
from docstore.reads.positions import Positions
from docstore.reads.scans.feed import ChangeFilter, Feed
from docstore.reads.scans.queries import GroupQueries
from docstore.reads.scans.scanner import Scans
from docstore.services.registry import FACTORIES, Registry
from docstore.services.subscriptions import Mark, Replay, SubscriptionState
from docstore.subscriptions.events import BatchReceived, HistoryGone

TIMEOUT_S = 10.0


class ChangeReader:
    """Reads the batches of all subscriptions of a node."""

    def __init__(
        self,
        feed: Feed,
        scans: Scans,
        queries: GroupQueries,
        listings: Listings,
        registry: Registry,
        positions: Positions,
    ) -> None:
        self._feed = feed
        self._scans = scans
        self._queries = queries
        self._listings = listings
        self._registry = registry
        self._positions = positions

    async def read(
        self, about: SubscriptionState, mark: Mark, rows: int
    ) -> BatchReceived | HistoryGone:
        """Return the next batch after a mark. Raises DocstoreError, mostly Unavailable."""
        cut = unpack_part(await self._positions.opened(mark.position, TIMEOUT_S))
        pack = await self._positions.packing(TIMEOUT_S, reads_all=not about.user)
        if cut.cluster != self._scans.cluster:  # Row numbers of another group mean other rows.
            why = "its position is of the group from whose backup this group was restored"
            return await self._gone(why, pack)
        try:
            if mark.replay is not None:
                return await self._documents(about, cut, mark, mark.replay, rows)
            wanted = ChangeFilter([f"{about.path}/"], about.where, about.before)
            stretch = await self._feed.read(wanted, cut, rows)
        except SnapshotGone as error:
            return await self._gone(str(error), pack)
        until = Mark(pack(stretch.until) if stretch.until != cut else mark.position)
        return BatchReceived(stretch.lines, stretch.rows, until)

    async def _gone(self, why: str, pack: Callable[[Cut], str]) -> HistoryGone:
        return HistoryGone(why, pack(await self._scans.earliest(TIMEOUT_S)))

    async def _documents(
        self, about: SubscriptionState, cut: Cut, mark: Mark, replay: Replay, rows: int
    ) -> BatchReceived:
        path = about.path
        if not replay.factory:
            replay = Replay((await self._factories(path))[0])
        is_document = replay.factory != path and not replay.factory.startswith(f"{path}/")
        quoted = path.replace("'", "''")
        asked = {
            "prefix": f"{replay.factory}/", "where": about.where, "versions": "latest",
            "filter": f"documentSelfLink in ('{quoted}')" if is_document else "",
            "deleted": False, "orderBy": "",
        }  # fmt: skip
        after = (replay.link, replay.version) if replay.link else None
        found, place, _ = await self._queries.find(asked, cut, after, rows, TIMEOUT_S)
        wanted = [(slot, link, version) for link, version, slot in found]
        read = await self._queries.read(wanted, cut, TIMEOUT_S) if wanted else []
        if len(read) < len(found):
            place = (read[-1].link, read[-1].version)
        if place is not None:
            until: Replay | None = Replay(replay.factory, *place)
        else:
            until = _behind(replay.factory, await self._factories(path))
        event = {"event": ENTER} if about.where else {}
        lines = b"".join(_line(row, event) for row in read)
        return BatchReceived(lines, len(read), Mark(mark.position, until))

    async def _factories(self, path: str) -> list[str]:
        """Return the factory at or above a path, and the level 3 factories below it."""
        declared = await self._listings.all(FACTORIES, level=LINEARIZABLE, timeout_s=TIMEOUT_S)
        for _, _, row in declared:
            if row is not None:
                self._registry.publish(row)
        service_at = self._registry.service_at
        below = [
            each
            for each in sorted(self._registry.declared())
            if each.startswith(f"{path}/")
            and (service := service_at(each)) is not None
            and service.options.level == LINEARIZABLE
        ]
        return [path if service_at(path) is not None else path.rpartition("/")[0], *below]


def _behind(factory: str, factories: Sequence[str]) -> Replay | None:
    """Return the beginning of the factory after this one, None after the last one."""
    first, *below = factories
    left = below if factory == first else [each for each in below if each > factory]
    return Replay(left[0]) if left else None


def _line(row: Row, event: dict[str, str]) -> bytes:
    """Return a document in the format of a feed's line."""
    said: dict[str, Any] = {**event, "slot": row.slot, "seq": row.n}
    said |= {each.name: getattr(row, each.column) for each in document_members.COLUMNS}
    said |= {"deleted": row.deleted, "body": orjson.Fragment(row.state)}
    return orjson.dumps(said) + b"\n"
