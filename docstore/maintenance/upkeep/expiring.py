"""Documents whose time is over are deleted (rule D5).

The owner of a slot looks once a second which of its documents have a `documentExpirationTimeMicros`
that is past for sure, by the clocks of a majority (rule D6). It deletes them as
any client would, on condition that they have not changed; so an expiry is a decided row like every
other deletion, and replicas never have to agree about the time.
"""

import asyncio
from collections.abc import Callable

import structlog

from docstore.documents.eventual.lineage import lineage_of
from docstore.documents.view import ReplicaView
from docstore.errors import DocstoreError
from docstore.maintenance.upkeep.background import Background
from docstore.model.document import Row, expiry_us, tag_of
from docstore.model.fences import OF_THE_STORE
from docstore.model.operation import Answer, Conditions, Operation
from docstore.model.service import LINEARIZABLE, PRIMARY, Level
from docstore.storage.store import Expired, Store

Place = tuple[int, int, int]
"""When a document's time is over, its slot, and the number of its row."""
BEGINNING: Place = (0, -1, -1)
INTERVAL_S = 1.0
ROWS_AT_ONCE = 256
TIMEOUT_S = 5.0

log = structlog.get_logger("docstore.maintenance.upkeep.expiring")


class Expiring:
    """Looks for what is over, and deletes it."""

    def __init__(
        self,
        view: ReplicaView,
        store: Store,
        submit: Callable[[Operation, float], "asyncio.Future[Answer]"],
    ) -> None:
        self.expired = 0
        self._view = view
        self._store = store
        self._submit = submit
        self._seen = {LINEARIZABLE: BEGINNING, PRIMARY: BEGINNING}
        """How far everything has been tried once, in the order of their times."""
        self._again = self._seen.copy()
        self._background = Background("expiring", self._turn)

    def start(self) -> None:
        """Begin to look."""
        self._background.start()

    async def stop(self) -> None:
        """Stop where it is."""
        await self._background.stop()

    async def _turn(self) -> None:
        await asyncio.sleep(INTERVAL_S)
        try:
            for level in (LINEARIZABLE, PRIMARY):
                if self._seen[level] != BEGINNING:
                    await self._look_back(level)
                # At once again while there is more than one look can take.
                while after := await self._look(level, self._seen[level]):
                    self._seen[level] = after
        except DocstoreError as error:
            log.warning("looking for what has expired failed", error=str(error))

    async def _look_back(self, level: Level) -> None:
        """Try again what was seen before, a page at a time.

        Some cannot be deleted for now, as those of a slot without a quorum, and must not keep the
        others waiting.
        """
        began = self._again[level]
        self._again[level] = await self._look(level, began) or BEGINNING
        if began == self._again[level]:  # All that is over is on one page.
            self._seen[level] = BEGINNING

    async def _look(self, level: Level, after: Place) -> Place | None:
        """Delete a page of documents; return where there may be more. PRIMARY: or EVENTUAL."""
        past_us = self._view.past_us()
        [result] = await self._store.read([Expired(past_us, ROWS_AT_ONCE, level, after=after)])
        if not isinstance(result, list):
            return None  # Damaged: its readers get an error, and it is repaired.
        ours = [row for row in result if self._is_ours(row, level)]
        answers = await asyncio.gather(*(self._delete(row, level) for row in ours))
        self.expired += sum(answer.is_success for answer in answers)
        if len(result) < ROWS_AT_ONCE:
            return None
        last = result[-1]
        return expiry_us(last.state), last.slot, last.n

    def _is_ours(self, row: Row, level: Level) -> bool:
        if level < LINEARIZABLE:
            return self._view.owners.executes(row.slot, PRIMARY) == self._view.members.me
        return self._view.owners.owns(row.slot)

    def _delete(self, row: Row, level: Level) -> "asyncio.Future[Answer]":
        if level < LINEARIZABLE:
            level = lineage_of(row).level
        unchanged = Conditions(match=[tag_of(row, level)])
        operation = Operation(
            verb="DELETE", link=row.link, conditions=unchanged, level=level, fence=OF_THE_STORE
        )
        return self._submit(operation, TIMEOUT_S)
