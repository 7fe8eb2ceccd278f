"""A journal and the tables that follow it, on one simulated disk: cut, failing, and without room.

It runs the steps of a node's store (`journalling.py`), one call after the other: a script commits,
the tables follow by some transactions, some of these are synced. At whatever call the power is
cut, the next start finds all acknowledged batches, or one more.
"""

import sqlite3
from collections.abc import Callable, Sequence
from random import Random
from typing import cast

from docstore.errors import DiskFull, StoreError
from docstore.storage import entries
from docstore.storage.backlog import Backlog, Batch
from docstore.storage.journal import PAGE
from docstore.storage.starting import Sizes, start
from docstore.storage.store import Write
from tests.disk.connection import Connection
from tests.disk.disk import Disk, Failed
from tests.disk.failures import Played, Raises
from tests.disk.files import DiskOfFiles
from tests.disk.power import Outcome
from tests.disk.script import NO_FILE, batches, content, expected
from tests.disk.shared import SharedVfs
from tests.disk.vfs import Vfs

SIZES = Sizes(file_bytes=8 * PAGE, files_max=3)


class Journalled:
    """An open store on a disk; the work of its threads is done by calls."""

    vfs: type[Vfs | SharedVfs] = Vfs
    sizes = SIZES

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.now = 0.0
        self._vfs = self.vfs(disk)
        try:
            self.connection = Connection(self._vfs)
            try:
                started = start(self._raw, NO_FILE, DiskOfFiles(disk), "store", self.sizes)
            except BaseException:
                self.connection.close()
                raise
        except BaseException:
            self._vfs.unregister()
            raise
        self.writer = started.writer
        self.boot = started.boot
        self.backlog = Backlog(started.ring, started.line, started.boot, self.now)

    @property
    def _raw(self) -> sqlite3.Connection:
        return cast("sqlite3.Connection", self.connection)

    def commit(self, writes: Sequence[Write]) -> None:
        """Return when `writes` are acknowledged. Raises OSError, StoreError."""
        body = entries.packed(writes)
        if not self.backlog.fits(body):
            self.follow(1 << 30)
            batch = self.backlog.straight(writes)
            self._run(batch)
            self.backlog.went_straight(batch, self.now)
            return
        while (entry := self.backlog.next(body)) is None:
            self.follow(1)
        self.backlog.ring.files.write(entry.file, entry.offset, entry.parts)
        self.backlog.durable(entry, writes)

    def mark(self) -> None:
        """Write the entry that vouches for the last one."""
        entry = self.backlog.mark()
        if entry is not None:
            self.backlog.ring.files.write(entry.file, entry.offset, entry.parts)
            self.backlog.durable(entry, ())

    def follow(self, most: int) -> None:
        """Let the tables follow by `most` transactions at most, until they have everything."""
        for _ in range(most):
            batch = self.backlog.batch(self.now)
            if batch is None:
                break
            self._run(batch)
            self.backlog.followed(batch, self.now)
            name = self.backlog.ring.wanted()
            if name is not None:
                self.backlog.ring.make(name)
                self.backlog.ring.made(name)

    def _run(self, batch: Batch) -> None:
        self.writer.follow(batch.writes, batch.line, durably=batch.durably)

    def finish(self) -> None:
        """Close in order."""
        self.follow(1 << 30)
        self._run(self.backlog.closing())
        self.give_back()

    def give_back(self) -> None:
        """Close without an end of the journal, as a killed process does."""
        self.disk.before = lambda call: None
        self.connection.close()
        self._vfs.unregister()


Makes = Callable[[Disk], Journalled]


class Smallest(Journalled):
    """A store whose journal has the fewest files: one is written while the other is flushed."""

    sizes = Sizes(file_bytes=SIZES.file_bytes, files_max=2)


class Watched(Journalled):
    """A store with a reader of its tables, which keeps each snapshot for long."""

    vfs = SharedVfs

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self._reader = Connection(self._vfs)
        self._looks = 0

    def follow(self, most: int) -> None:
        """Let the tables follow; one time of four the reader takes a snapshot just before."""
        if self._looks % 4 == 0:
            self._reader.execute("COMMIT" if self._looks else "SELECT 1")
            self._reader.execute("BEGIN")
            content(self._reader)
        self._looks += 1
        super().follow(most)

    def give_back(self) -> None:
        """Close the reader, and the store as a killed process does."""
        self._reader.close()
        super().give_back()


def watched(disk: Disk) -> Journalled:
    """Return a store with a reader on a new disk, one without a reader on a used disk."""
    return Journalled(disk) if disk.files else Watched(disk)


def _go_on(store: Journalled, rng: Random) -> None:
    """Do a part of a store's work beside its commits, or nothing."""
    chance = rng.random()
    if chance < 0.4:
        store.now += rng.random()
        store.follow(1)
    elif chance < 0.5:
        store.follow(1)
        store.mark()
    elif chance < 0.6:
        store.writer.copy_back("PASSIVE")


def found_on(disk: Disk, makes: Makes = Journalled) -> int:
    """Return the content that a start finds. Raises StoreError, OSError, sqlite3.Error."""
    store = makes(disk)
    try:
        return content(store.connection)
    finally:
        store.give_back()


def cut_at_random(seed: int, images: int, makes: Makes = Journalled) -> Outcome:
    """Play a script, and cut the power about `images` times on the way."""
    rng = Random(seed)
    script = batches(rng, 40)
    stages = expected(script)
    outcome = Outcome()
    disk = Disk()
    store = makes(disk)
    acknowledged = 0
    share = images / 300  # About 300 calls write or sync.

    def look(call: str) -> None:
        if call == "read" or rng.random() >= share:
            return
        for _ in range(max(1, round(share))):
            outcome.images += 1
            image = disk.cut(rng)
            judge(outcome, f"seed {seed}, {call}", image, stages, acknowledged, makes)
            if outcome.images % 10 == 0:  # The writes of one start may be cut as well.
                judge(outcome, f"again, seed {seed}", image.cut(rng), stages, acknowledged, makes)

    disk.before = look
    try:
        for number, batch in enumerate(script, 1):
            store.commit(batch)
            acknowledged = number
            _go_on(store, rng)
            if rng.random() < 0.05:  # A kill, and a start on its disk.
                store.give_back()
                store = makes(disk)
                disk.before = look
    except (StoreError, OSError, AssertionError) as error:
        outcome.odd.append(f"seed {seed}: {error!r}")
    store.give_back()
    return outcome


def judge(
    outcome: Outcome, where: str, image: Disk, stages: list[int], acknowledged: int, makes: Makes
) -> None:
    """Start on an image, and compare its content with the allowed ones."""
    try:
        found = found_on(image, makes)
    except (StoreError, OSError, sqlite3.Error) as error:
        outcome.odd.append(f"{where}: {error!r}")
        return
    if found in stages[acknowledged : acknowledged + 2]:
        return
    if found in stages[:acknowledged]:
        outcome.lost.append(f"{where}: at {stages.index(found)} of {acknowledged}")
    else:
        outcome.odd.append(f"{where}: a content that never was")


def fail_at(seed: int, nth: int, raises: Raises, makes: Makes = Journalled) -> Played:
    """Play a script whose `nth` call fails; return the problems of the content afterwards."""
    rng = Random(seed)
    script = batches(rng, 12)
    stages = expected(script)
    played = Played()
    disk = Disk()
    store = makes(disk)

    disk.before = played.failing(nth, raises)
    acknowledged = 0
    try:
        for number, batch in enumerate(script, 1):
            try:
                store.commit(batch)
            except DiskFull:
                store.commit(batch)  # It went into the tables alone, and nothing of it is there.
            acknowledged = number
            try:
                _go_on(store, rng)
            except DiskFull:
                store.follow(1 << 30)  # It is acknowledged, and goes in once there is room.
    except (StoreError, OSError):
        pass  # The process ends.
    disk.before = lambda call: None
    outcome = Outcome()
    for image in (disk.killed(), disk.cut(rng)):
        judge(outcome, f"call {nth}", image, stages, acknowledged, makes)
    if played.failed and acknowledged == len(script):
        store.follow(1 << 30)
        if content(store.connection) != stages[-1]:
            outcome.lost.append("something that found no room is not in the tables")
    store.give_back()
    played.problems += outcome.lost + outcome.odd
    return played


assert Failed, "what `raises` returns"
