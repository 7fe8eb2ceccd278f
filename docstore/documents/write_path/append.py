"""Step 4c of the write path, on the owner: append the next version to its slot's log, in memory.

The end of the turn proposes the row (`propose.py`). The owner appends only if this disk and the
disks of a quorum have room.
"""

from docstore.documents.clients import DISK_FULL, REPLICAS_FULL, Inflight
from docstore.documents.core import Core
from docstore.documents.document_cache import CachedDocument
from docstore.documents.log import SlotLog
from docstore.documents.owners import first_alive
from docstore.documents.term import Term
from docstore.documents.write_path.handle import New
from docstore.model.document import Row, chain_digest
from docstore.model.identity import OperationIdentity
from docstore.ownership.quorum import is_quorum


class Appender:
    def __init__(self, core: Core) -> None:
        self.core = core

    def finds_room(self, log: SlotLog, inflight: Inflight) -> bool:
        """Say whether there is room for rows; if not, answer the operation.

        If another node with room should own the slot, return the operation to its entry node
        instead (rule O7).
        """
        if self.core.has_room and self.is_storable(log):
            return True
        if self.core.has_room:
            self.core.counters["refused_for_replicas_room"] += 1
            self.core.reply(inflight, REPLICAS_FULL)
            return False
        target = first_alive(self.core, log.slot)
        has_target = target is not None and self.core.may_own(target)
        self.core.reply(inflight, None if has_target else DISK_FULL)
        return False

    def is_storable(self, log: SlotLog) -> bool:  # Tests replace this.
        """Say whether a quorum of replicas has room for a row (rule O8)."""
        full = self.core.peers.full
        if not full:
            return True
        return is_quorum({each for voters in log.voting for each in voters} - full, log.voting)

    def next_time(self, log: SlotLog) -> int:
        """Return the time of the next rows of a log, later than the times of its rows."""
        return max(self.core.wall_now_us(), log.updated_us + 1)

    def append(
        self,
        log: SlotLog,
        term: Term,
        cached: CachedDocument,
        link: str,
        new: New,
        identity: OperationIdentity,
    ) -> Row:
        before = cached.newest
        digest = before.digest if before else b""
        row = Row(
            log.slot, log.end + 1, *term.ballot, link, new.version, new.action, log.updated_us,
            new.deleted, new.signature, identity.pack(),
            chain_digest(digest, link, new.version, new.deleted, new.state), new.state,
        )  # fmt: skip
        log.end = row.n
        log.pending[row.n] = row
        log.operations.note_identity(identity, row)
        if not term.fresh:
            self.core.logs.dirty.add(log.slot)
            if len(term.clients.updates) == 0:
                term.progress_at = self.core.now
        term.fresh.append(row)
        term.cache.renew(cached, row)
        self.core.counters["proposed"] += 1
        return row
