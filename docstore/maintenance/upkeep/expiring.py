"""Deletes expired documents (rule D5).

Once a second the owner of a slot finds its documents whose `documentExpirationTimeMicros` is past
by the clocks of a majority (rule D6). It deletes them as a client does, on condition that they are
unchanged. So an expiry is a decided row like any deletion, and replicas need no common clock.
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
"""(expiration time of a document, its slot, the number of its row)."""
BEGINNING: Place = (0, -1, -1)
INTERVAL_S = 1.0
ROWS_AT_ONCE = 256
TIMEOUT_S = 5.0

log = structlog.get_logger("docstore.maintenance.upkeep.expiring")


class Expiring(Background):
    """Finds expired documents and deletes them."""

    def __init__(
        self,
        view: ReplicaView,
        store: Store,
        submit: Callable[[Operation, float], "asyncio.Future[Answer]"],
    ) -> None:
        super().__init__("expiring", self._turn)
        self.expired = 0
        self._view = view
        self._store = store
        self._submit = submit
        self._seen = {LINEARIZABLE: BEGINNING, PRIMARY: BEGINNING}
        """Level -> place up to which the deletion of all expired documents was tried once."""
        self._again = self._seen.copy()

    async def _turn(self) -> None:
        await asyncio.sleep(INTERVAL_S)
        try:
            for level in (LINEARIZABLE, PRIMARY):
                if self._seen[level] != BEGINNING:
                    await self._look_back(level)
                # Do not pause while there is more than one page.
                while after := await self._look(level, self._seen[level]):
                    self._seen[level] = after
        except DocstoreError as error:
            log.warning("looking for what has expired failed", error=str(error))

    async def _look_back(self, level: Level) -> None:
        """Retry the documents whose deletion was tried before, a page at a time.

        Some of them cannot be deleted now, such as those of a slot without a quorum. They must not
        delay other documents.
        """
        began = self._again[level]
        self._again[level] = await self._look(level, began) or BEGINNING
        if began == self._again[level]:  # All expired documents are on one page.
            self._seen[level] = BEGINNING

    async def _look(self, level: Level, after: Place) -> Place | None:
        """Delete a page of documents; return its end if more may follow.

        level: PRIMARY includes EVENTUAL.
        """
        past_us = self._view.past_us()
        [result] = await self._store.read([Expired(past_us, ROWS_AT_ONCE, level, after=after)])
        if not isinstance(result, list):
            return None  # The slot is damaged; repair refills it.
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
