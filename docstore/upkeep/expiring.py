"""Documents whose time is over are deleted (rule D5).

Who owns a slot looks once a second which of its documents have a `documentExpirationTimeMicros`
in the past, by its own clock, held back while that runs ahead of the others'. It deletes them as
any client would, on condition that they have not changed; so an expiry is a decided row like every
other deletion, and replicas never have to agree about the time.
"""

import asyncio
from collections.abc import Callable

import structlog

from docstore.converge.lineage import lineage_of
from docstore.errors import DocstoreError
from docstore.model.document import Row, tag_of
from docstore.model.operation import Answer, Conditions, Operation
from docstore.model.service import LINEARIZABLE, PRIMARY, Level
from docstore.protocol.view.replica import ReplicaView
from docstore.storage.store import Expired, Store
from docstore.upkeep.background import Background

INTERVAL_S = 1.0
ROWS_AT_ONCE = 256
TIMEOUT_S = 5.0

log = structlog.get_logger("docstore.upkeep.expiring")


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
            # At once again while there is more than one look can take.
            while await self._look(LINEARIZABLE) + await self._look(PRIMARY) >= ROWS_AT_ONCE:
                pass
        except DocstoreError as error:
            log.warning("looking for what has expired failed", error=str(error))

    async def _look(self, level: Level) -> int:
        """Delete up to a page of documents; return how many were deleted. PRIMARY: or EVENTUAL."""
        now_us = self._view.wall_now_us()
        [result] = await self._store.read([Expired(now_us, ROWS_AT_ONCE, level)])
        if not isinstance(result, list):
            return 0  # Damaged: whoever reads it is told so, and it is repaired.
        ours = [row for row in result if self._is_ours(row, level)]
        answers = await asyncio.gather(*(self._delete(row, level) for row in ours))
        deleted = sum(answer.is_success for answer in answers)
        self.expired += deleted
        return deleted

    def _is_ours(self, row: Row, level: Level) -> bool:
        if level < LINEARIZABLE:
            return self._view.owners.executes(row.slot, PRIMARY) == self._view.members.me
        return self._view.owners.owns(row.slot)

    def _delete(self, row: Row, level: Level) -> "asyncio.Future[Answer]":
        if level < LINEARIZABLE:
            level = lineage_of(row).level
        unchanged = Conditions(match=[tag_of(row, level)])
        operation = Operation(verb="DELETE", link=row.link, conditions=unchanged, level=level)
        return self._submit(operation, TIMEOUT_S)
