"""Expiry at levels 1 and 2: losing branches, and versions superseded long ago."""

from collections.abc import Callable

from docstore.documents.core import Core
from docstore.documents.eventual.branches import Branches
from docstore.documents.eventual.documents import Documents
from docstore.documents.peers import NEVER
from docstore.model.document import Row
from docstore.storage.replication_log import Aged, BranchStatus
from docstore.storage.store import Corrupt, Result

SWEEP_INTERVAL_S = 60.0
SWEEP_ROWS = 500


class BranchExpiry:
    def __init__(self, core: Core, documents: Documents) -> None:
        self.core = core
        self.outbox = core.outbox
        self.documents = documents
        self._swept_at = core.now

    def tick(self) -> None:
        if self.core.now - self._swept_at < SWEEP_INTERVAL_S:
            return
        self._swept_at = self.core.now
        config = self.core.config
        self._sweep(BranchStatus.LOSER, config.retention.conflicts_s, self._drop_losers)
        if config.retention.history_s > 0:
            self._sweep(BranchStatus.PAST, config.retention.history_s, self.documents.prune)

    def _sweep(
        self, standing: BranchStatus, older_than_s: float, then: Callable[[list[Row]], None]
    ) -> None:
        before_us = self.core.past_us() - int(older_than_s * 1e6)

        def found(result: Result) -> None:
            if isinstance(result, Corrupt) or not result:
                return
            then(result)
            if len(result) == SWEEP_ROWS:
                self._swept_at = NEVER  # More versions are old enough: continue at the next tick.

        self.outbox.read(Aged(standing, before_us, SWEEP_ROWS), found)

    def _drop_losers(self, rows: list[Row]) -> None:
        for link in sorted({row.link for row in rows}):
            self.documents.load(link, self._drop_old)

    def _drop_old(self, branches: Branches | None) -> None:
        if branches is not None and branches.losers:
            self.documents.drop_losers(branches)
