"""Makes the data directory of a founder from a chain of backups.

Each slot's log has the rows of the last cut, with their numbers. At the end of the log a ballot is
recorded that no node ever had, under an epoch that the old group will not reach: owners of the new
group write under greater epochs. The disk and the new group get new ids
(`maintenance/restored.py`), so that neither is mistaken for the original disk or group. The file
gets its final name last. Until then no node starts in the directory, and a restore begins anew.
"""

import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from docstore.config import database_in
from docstore.errors import BadConfig
from docstore.maintenance.backup.directory import make
from docstore.maintenance.backup.manifest import BackupFile, Manifest
from docstore.maintenance.backup.reset_documents import begun_anew, is_of_records, next_row
from docstore.maintenance.backup.verifying import blocks_of, chain_in
from docstore.maintenance.restored import Restored, forget, unfinished_in
from docstore.model.document import Ballot, Ballots, Row, ballot_added
from docstore.model.durable_files import sync
from docstore.reads.blocks import BadBackup, Block, Branch, LogChunk
from docstore.storage import tables
from docstore.storage.database_threads import configure
from docstore.storage.packing import sealed
from docstore.storage.replication_log import Arrive, BranchStatus
from docstore.storage.store import Append, SaveSlot, SlotRecord, Write
from docstore.storage.transactions import transaction, translating
from docstore.storage.writing import Writer, node_line
from docstore.wire.link_messages import PROTOCOL

RESTORE = "restore"
"""Owner in the last ballot of each log. A node may have this name, but never this epoch."""
JUMP = 1_000_000
"""Number added to the greatest epoch of a backup, to pass the epochs that the old group may still
use."""
CACHE_KIB = 64 << 10
HARMLESS = frozenset({"lost+found"})
"""Names that an empty file system has in its root."""

Tell = Callable[[Manifest, BackupFile], None]
"""Called after each restored file."""


@dataclass(slots=True)
class _RestoredLog:
    """State of a slot from the chunks read so far."""

    kept: int = 0
    floor: int = -1
    end: int = 0
    updated_us: int = 0
    ballots: Ballots = ()

    def extend(self, stretch: LogChunk, *, is_first: bool) -> None:
        """Add the next rows, which were verified before.

        is_first: whether the chunk begins the slot, so that it tells which rows were compacted.
        """
        if is_first:
            self.kept, self.floor = stretch.kept, stretch.floor
        for row in stretch.rows:
            self.add(row)

    def add(self, row: Row) -> None:
        if not self.ballots or self.ballots[-1][0] != row.ballot:
            self.ballots = ballot_added(self.ballots, row.ballot, row.n)
        self.end, self.updated_us = row.n, row.updated_us

    def record(self, slot: int, ballot: Ballot, end: int) -> SlotRecord:
        """Return the record of the slot. end: the last row of the old group."""
        return SlotRecord(
            slot,
            promised=ballot,
            adopted=ballot,
            ballots=ballot_added(self.ballots, ballot, end + 1),
            kept=self.kept,
            floor=self.floor,
            decided=max(self.end, end),
        )


@dataclass(slots=True)
class _Group:
    """State of all slots from the blocks read so far."""

    logs: dict[int, _RestoredLog] = field(default_factory=dict)
    of_records: dict[str, Row] = field(default_factory=dict)
    """Newest rows of documents that must be reset."""
    branches: int = 0

    def take(self, block: Block, before: Manifest | None, *, is_last: bool) -> list[Write]:
        """Return the writes of a block.

        before: the previous backup in the chain. is_last: whether the block is from the last
        backup.
        """
        rows = [row for stretch in block.log for row in stretch.rows]
        for stretch in block.log:
            is_first = before is None or before.ends[stretch.slot] == 0
            self.logs.setdefault(stretch.slot, _RestoredLog()).extend(stretch, is_first=is_first)
        self.of_records.update((row.link, row) for row in rows if is_of_records(row.link))
        # Each backup has all branches, so the last one suffices.
        branches = block.branches if is_last else ()
        return [*([Append(rows)] if rows else []), *map(self._arrive, branches)]

    def _arrive(self, branch: Branch) -> Write:
        self.branches += 1
        return Arrive(branch.row._replace(n=self.branches), BranchStatus(branch.standing))

    def finish(self, last: Manifest, ballot: Ballot) -> Iterator[Write]:
        """Yield the last writes: the documents that are reset, and the records of slots."""
        epoch, owner = ballot
        for row in self.of_records.values():
            state = begun_anew(row, last.id)
            if state is not None:
                log = self.logs[row.slot]
                n, now_us = max(log.end, last.ends[row.slot]) + 1, log.updated_us + 1
                added = next_row(row, state, n=n, epoch=epoch, owner=owner, updated_us=now_us)
                log.end, log.updated_us = n, now_us
                yield Append([added])
        for slot, end in enumerate(last.ends):
            yield SaveSlot(self.logs.get(slot, _RestoredLog()).record(slot, ballot, end))


def restore(
    directory: Path, data: Path, tell: Tell = lambda manifest, part: None
) -> tuple[Restored, int]:
    """Restore a chain of backups into a data directory; return its origin, and the rows written.

    Raises BadBackup, BadConfig, DiskFull, StoreBroken, OSError, after emptying the data directory.
    """
    chain = chain_in(directory)
    last = chain[-1]
    make(data)
    _insist_on_empty(data)
    if last.stored_protocol > PROTOCOL:
        raise BadBackup(
            f"{directory} has additions of protocol {last.stored_protocol}, and this version"
            f" reads up to {PROTOCOL}: restore it with the version that wrote it, or a later one"
        )
    restored = Restored(last.id, last.group, last.slots, last.cut, last.stored_protocol)
    file = unfinished_in(data)
    try:
        rows = _written(file, directory, chain, tell)
        sync(file)
        restored.write(data)
        file.replace(database_in(data))
        sync(data)
    except BaseException:
        if file.exists():
            forget(data)
            _remove(file)
        raise
    return restored, rows


def _insist_on_empty(data: Path) -> None:
    """Raise BadConfig if the directory has more than an unfinished restore, which is deleted."""
    if unfinished_in(data).exists():
        forget(data)
        _remove(unfinished_in(data))
    there = sorted({each.name for each in data.iterdir()} - HARMLESS)
    if there:
        raise BadConfig(f"data: {data} is not empty: it has {there[0]}")


def _written(file: Path, directory: Path, chain: Sequence[Manifest], tell: Tell) -> int:
    ballot = (max(each.epoch for each in chain) + JUMP, RESTORE)
    group, rows = _Group(), 0
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with translating(), closing(sqlite3.connect(file, isolation_level=None)) as connection:
        # No sync for each write: the file is synced once, at the end.
        configure(connection, CACHE_KIB, "OFF", writes=True)
        writer = Writer(connection, Path(f"{file}-wal"))
        writer.prepare(uuid.uuid4().hex)
        for before, manifest in zip([None, *chain], chain, strict=False):
            for part in manifest.parts:
                for block in blocks_of(directory, manifest, part, before):
                    writer.commit(group.take(block, before, is_last=manifest is chain[-1]))
                    rows += sum(len(each.rows) for each in block.log)
                tell(manifest, part)
        writer.commit(list(group.finish(chain[-1], ballot)))
        with transaction(connection):
            never_started = node_line(connection)._replace(boot=0)
            connection.execute(tables.UPDATE_NODE, sealed(never_started))
        writer.copy_back("TRUNCATE")
    return rows + group.branches


def _remove(file: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{file}{end}").unlink(missing_ok=True)
