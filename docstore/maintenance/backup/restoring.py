"""The data directory of a founder, made of a chain of backups: for a node that was never started.

Each slot's log is as it was at the last cut, row by row, with the numbers that it had. On top lies
a term that no node has had, under an epoch that the old group will not come to: whoever goes on
writes under a greater one. The disk has a name of its own, and the group that it founds as well
(`maintenance/restored.py`), so neither is ever taken for what the backup was made of.

The file gets its name last. Until then no node starts here, and a restore begins anew.
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
from docstore.maintenance.backup.anew import begun_anew, is_of_records, next_row
from docstore.maintenance.backup.directory import make, sync
from docstore.maintenance.backup.manifest import BackupFile, Manifest
from docstore.maintenance.backup.verifying import blocks_of, chain_in
from docstore.maintenance.restored import Restored, forget, unfinished_in
from docstore.model.document import Ballot, Ballots, Row, ballot_added
from docstore.reads.blocks import BadBackup, Block, Branch, LogChunk
from docstore.storage import tables
from docstore.storage.database_threads import configure
from docstore.storage.replication_log import Arrive, BranchStatus
from docstore.storage.store import Append, SaveSlot, SlotRecord, Write
from docstore.storage.transactions import transaction, translating
from docstore.storage.writing import Writer, node_line
from docstore.wire.link_messages import PROTOCOL

RESTORE = "restore"
"""Owner of the last term of each log. A node may have this name too: its epoch is another one."""
JUMP = 1_000_000
"""Added to the greatest epoch of a backup: so many terms the old group has left after it."""
CACHE_KIB = 64 << 10
HARMLESS = frozenset({"lost+found"})
"""What a directory has that is a disk of its own."""

Tell = Callable[[Manifest, BackupFile], None]
"""Told of each file that has been taken in."""


@dataclass(slots=True)
class _RestoredLog:
    """What is known of a slot so far."""

    kept: int = 0
    floor: int = -1
    end: int = 0
    updated_us: int = 0
    ballots: Ballots = ()

    def extend(self, stretch: LogChunk, *, is_first: bool) -> None:
        """Take the next rows; they have been held against each other already.

        is_first: the slot is read from its beginning, which says what had been let go of.
        """
        if is_first:
            self.kept, self.floor = stretch.kept, stretch.floor
        for row in stretch.rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Take the next row."""
        if not self.ballots or self.ballots[-1][0] != row.ballot:
            self.ballots = ballot_added(self.ballots, row.ballot, row.n)
        self.end, self.updated_us = row.n, row.updated_us

    def record(self, slot: int, ballot: Ballot, end: int) -> SlotRecord:
        """Return what the disk keeps of the slot. end: up to where rows are of the old group."""
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
    """What is known of all slots so far."""

    logs: dict[int, _RestoredLog] = field(default_factory=dict)
    of_records: dict[str, Row] = field(default_factory=dict)
    """The newest rows of documents that begin anew."""
    branches: int = 0

    def take(self, block: Block, before: Manifest | None, *, is_last: bool) -> list[Write]:
        """Return what is to be written of a block. before: the backup before its own."""
        rows = [row for stretch in block.log for row in stretch.rows]
        for stretch in block.log:
            is_first = before is None or before.ends[stretch.slot] == 0
            self.logs.setdefault(stretch.slot, _RestoredLog()).extend(stretch, is_first=is_first)
        self.of_records.update((row.link, row) for row in rows if is_of_records(row.link))
        # What has no log is in each backup as a whole.
        branches = block.branches if is_last else ()
        return [*([Append(rows)] if rows else []), *map(self._arrive, branches)]

    def _arrive(self, branch: Branch) -> Write:
        self.branches += 1
        return Arrive(branch.row._replace(n=self.branches), BranchStatus(branch.standing))

    def finish(self, last: Manifest, ballot: Ballot) -> Iterator[Write]:
        """Yield what is to be written at the end: what begins anew, and the slots' records."""
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
    """Make a data directory of the backups in a directory; return of what, and how many rows.

    Raises BadBackup, BadConfig, DiskFull, StoreBroken, OSError; then the directory is as empty as
    it was.
    """
    chain = chain_in(directory)
    last = chain[-1]
    make(data)
    _insist_on_empty(data)
    if last.stored_protocol > PROTOCOL:
        raise BadBackup(
            f"{directory} has what protocol {last.stored_protocol} has added, and this version"
            f" reads up to {PROTOCOL}: restore it with the version that wrote it, or a later one"
        )
    restored = Restored(last.id, last.group, last.slots, last.cut, last.stored_protocol)
    file = unfinished_in(data)
    try:
        rows = _written(file, directory, chain, tell)
        _sync(file)
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
    """Raise BadConfig if there is anything but a restore that came to no end."""
    if unfinished_in(data).exists():  # It may have come as far as to say what it is of.
        forget(data)
        _remove(unfinished_in(data))
    there = sorted({each.name for each in data.iterdir()} - HARMLESS)
    if there:
        raise BadConfig(f"data: {data} is not empty: it has {there[0]}")


def _written(file: Path, directory: Path, chain: Sequence[Manifest], tell: Tell) -> int:
    """Fill the file; return how many rows it has of the group."""
    ballot = (max(each.epoch for each in chain) + JUMP, RESTORE)
    group, rows = _Group(), 0
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with translating(), closing(sqlite3.connect(file, isolation_level=None)) as connection:
        configure(connection, CACHE_KIB, "OFF", writes=True)  # It is synced once it is whole.
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
            connection.execute(tables.UPDATE_NODE, never_started.columns())
        writer.copy_back("TRUNCATE")
    return rows + group.branches


def _sync(file: Path) -> None:
    opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove(file: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{file}{end}").unlink(missing_ok=True)
