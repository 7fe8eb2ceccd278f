"""Commits go into the journal, and the tables follow: the shell around `backlog.py`.

A thread of its own (`journal_thread.py`) writes the entries, one at a time. The tables follow in
the writer's thread (`follow_jobs.py`). The event loop makes all decisions.

The store is broken for good if the journal cannot be written, or if the tables cannot be written
for any reason but a full disk. It calls `broken` at once, since perhaps no caller waits for a
commit.

If the tables find no room, the store is full until there is room for the ballast again. The store
releases the ballast, and the tables continue with that room. It still takes commits while most of
the ballast is left, and promises longer; it refuses others before it writes anything. If the
ballast was not enough, the store breaks after a while. The journal still has all entries, and the
next start takes them in once an operator has made room.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial

import structlog

from docstore.errors import DiskFull, StoreBroken, StoreError
from docstore.storage import entries
from docstore.storage.backlog import Backlog, Batch
from docstore.storage.ballast import Room
from docstore.storage.database import FileThreads
from docstore.storage.follow_jobs import FollowJobs, FollowWaits
from docstore.storage.fullness import Fullness
from docstore.storage.journal_thread import JournalWriter
from docstore.storage.ring import Entry
from docstore.storage.starting import Started
from docstore.storage.store import Then, Write
from docstore.storage.tail import Wait

log = structlog.get_logger("docstore.storage")

FOLLOW_S = 0.5
"""Seconds for which commits gather for one transaction of the tables, if no caller waits."""
HURRY_S, HURRY_ROWS = 0.05, 200
"""Least seconds between two transactions while callers wait and more than HURRY_ROWS rows do."""
FLUSH_S = 1.0
FULL_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class _Submitted:
    writes: Sequence[Write]
    body: bytes
    then: Then
    at: float


@dataclass(slots=True)
class JournalMeasures:
    """Counters since the start; docs/metrics.md explains each."""

    entries: int = 0
    bytes: int = 0
    transactions: int = 0
    straight: int = 0
    write_seconds: float = 0.0
    wait_seconds: float = 0.0

    def metrics(self, backlog: Backlog, *, is_full: bool) -> dict[str, float]:
        return {
            "docstore_journal_entries_total": float(self.entries),
            "docstore_journal_bytes_total": float(self.bytes),
            "docstore_journal_transactions_total": float(self.transactions),
            "docstore_journal_straight_total": float(self.straight),
            "docstore_journal_write_seconds_total": self.write_seconds,
            "docstore_journal_wait_seconds_total": self.wait_seconds,
            "docstore_journal_behind_rows": float(backlog.rows),
            "docstore_journal_behind_bytes": float(backlog.bytes),
            "docstore_journal_unflushed_bytes": float(backlog.unflushed_bytes),
            "docstore_journal_full": float(is_full),
        }


class Journalling:
    """Makes batches durable in the journal, and has the tables follow."""

    def __init__(
        self,
        file: FileThreads,
        started: Started,
        journal: JournalWriter,
        ballast: Room,
        *,
        broken: Callable[[BaseException], None],
    ) -> None:
        """Start.

        journal: writes to the files of the ring; `close` closes it. broken: callback with a failure
        outside of a commit.
        """
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self.backlog = Backlog(started.ring, started.line, started.boot, self._loop.time())
        self.overlay = self.backlog.overlay
        self._counted = JournalMeasures()
        self._file = file
        self._jobs = FollowJobs(file, started.writer, started.ring, ballast)
        self._fullness = Fullness(ballast, _say_whether_full)
        self._broken = broken
        self._journal = journal
        self._error: StoreError | None = None
        self._submitted: _Submitted | None = None
        self._is_writing = False
        self._waits = FollowWaits()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.Handle | None = None
        self._planned_at = 0.0  # A handle of uvloop for now does not know its time.
        self._began_at = -HURRY_S
        self._handed_at = 0.0
        self._is_closing = False
        if self.is_full:
            self._plan()

    @property
    def is_full(self) -> bool:
        """Return whether the disk is full; callers must then make no rows."""
        return self._fullness.is_full

    # --- commits ------------------------------------------------------------------------------

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        """Begin to make `writes` durable, as `Store.submit` says."""
        assert self._submitted is None, "one batch at a time"
        submitted = _Submitted(writes, entries.packed(writes), then, self._loop.time())
        refusal = self._refusal(submitted)
        if refusal is not None:
            self._loop.call_soon(then, refusal)
            return
        self._submitted = submitted
        self._write()

    def _refusal(self, submitted: _Submitted) -> StoreError | None:
        """Return the reason why a commit must not begin, None if it may."""
        if self._error is not None:
            return self._error
        if self._is_closing:
            return StoreBroken("the store is closed")
        if self._fullness.is_unknown or self._may_take(submitted.writes, submitted.body):
            return None
        return DiskFull("the disk is full: there is no room for another commit")

    def _may_take(self, writes: Sequence[Write], body: bytes) -> bool:
        size = self.backlog.bytes + len(body)
        return not self.is_full or self._fullness.may_take(writes, size)

    def _refuse(self) -> bool:
        """Refuse the submitted commit if it must not begin. Return whether there was one."""
        submitted = self._submitted
        refusal = self._refusal(submitted) if submitted is not None else None
        if submitted is None or refusal is None:
            return False
        self._submitted = None
        submitted.then(refusal)
        return True

    def _write(self) -> None:
        """Write the submitted commit, if it is next and the ring has room for it."""
        submitted = self._submitted
        if submitted is None or self._is_writing or self._error is not None:
            return
        if self._fullness.is_unknown or self._refuse():
            return
        fits = self.backlog.fits(submitted.body)
        entry = self.backlog.next(submitted.body) if fits else None
        if entry is None:
            self._plan(hurry=True)
            return
        self._submitted = None
        self._counted.wait_seconds += self._loop.time() - submitted.at
        self._hand_over(entry, submitted.writes, submitted.then)

    def _hand_over(  # Tests replace this.
        self, entry: Entry, writes: Sequence[Write], then: Then | None
    ) -> None:
        assert self._error is None, "nothing is written after a failure"
        self._is_writing = True
        self._counted.entries += 1
        self._counted.bytes += sum(map(len, entry.parts))
        self._handed_at = self._loop.time()
        self._journal.write(entry, partial(self._written, entry, writes, then))

    def _written(
        self, entry: Entry, writes: Sequence[Write], then: Then | None, failure: Exception | None
    ) -> None:
        self._is_writing = False
        self._counted.write_seconds += self._loop.time() - self._handed_at
        if failure is not None:
            broken = StoreBroken(f"writing to the journal failed: {failure!r}")
            self._break(broken, is_told=then is not None)
        else:
            try:
                # Before the acknowledgement, so that a read after it finds the rows.
                self.backlog.durable(entry, writes)
                self._plan()
            except Exception as error:  # noqa: BLE001 - else all callers would wait for ever
                self._break(error, is_told=then is not None)
        if then is not None:
            then(self._error)
        self._write()

    def measures(self) -> dict[str, float]:
        return self._counted.metrics(self.backlog, is_full=self.is_full)

    # --- the tables follow --------------------------------------------------------------------

    async def followed(self, wait: Wait) -> None:
        """Return once the tables have followed an entry. Raises StoreBroken."""
        if self._error is not None:
            raise self._error
        future = self._waits.add(wait.number)
        self._plan(hurry=wait.hurry)
        await future

    def hurry(self) -> None:
        """Have the tables follow soon."""
        self._plan(hurry=True)

    def _plan(self, *, hurry: bool = False) -> None:
        """Set the timer for the next transaction of the tables."""
        if self._task is not None or self._error is not None or self._is_closing:
            return  # At its end, the running task plans again.
        now = self._loop.time()
        at = now + (FOLLOW_S if self.backlog.writes else FLUSH_S)
        if self.backlog.is_due or self._is_straight:
            at = now
        elif hurry:
            at = max(now, self._began_at + (HURRY_S if self.backlog.rows > HURRY_ROWS else 0))
        if self._timer is not None:
            if self._planned_at <= at:
                return
            self._timer.cancel()
        self._planned_at = at
        # Run it in a context of its own, not in that of the request that happens to start it.
        self._timer = self._loop.call_at(at, self._begin, context=self._context)

    def _begin(self) -> None:
        self._timer = None
        self._began_at = self._loop.time()
        self._task = self._loop.create_task(self._follow())

    @property
    def _is_straight(self) -> bool:
        return self._submitted is not None and not self.backlog.fits(self._submitted.body)

    async def _follow(self) -> None:
        """Have the tables follow the entries that are due, or that callers wait for."""
        try:
            await self._follow_what_is_due()
        except Exception as error:  # noqa: BLE001 - acknowledged entries would be lost
            self._break(error)
        finally:
            self._task = None
        is_done = self.backlog.is_empty and self.backlog.is_flushed and not self.is_full
        if not is_done or self._submitted is not None:
            self._plan(hurry=bool(self._waits) or self._fullness.is_stuck)

    @property
    def _is_over(self) -> bool:
        """Return whether the store is broken or closing, so that no new work begins."""
        return self._error is not None or self._is_closing

    async def _follow_what_is_due(self) -> None:
        is_first = True
        while not self._is_over and (is_first or self.backlog.is_due or self._is_straight):
            is_first = False
            batch = self.backlog.batch(self._loop.time())
            if batch is not None:
                await self._apply(batch)
            elif self._is_straight and not self._is_writing:
                await self._go_straight()
            else:
                await self._make_a_file()
                self._write()
                break
        if self.is_full and self.backlog.is_empty and not self._is_over:
            await self._take_ballast()
        is_idle = self.backlog.is_empty and not self._is_writing and not self._is_over
        if is_idle and self._may_take((), b""):
            mark = self.backlog.mark()
            if mark is not None:
                self._hand_over(mark, (), None)

    async def _apply(self, batch: Batch) -> None:  # Tests replace this.
        """Commit a transaction of the tables, or make room for it."""
        try:
            await self._jobs.apply(batch)
        except DiskFull:
            await self._without_room()
            return
        self._fullness.found_room()
        self.backlog.followed(batch, self._loop.time())
        self._counted.transactions += 1
        self._waits.resolve(self.overlay.followed)
        await self._make_a_file()
        self._write()

    async def _make_a_file(self) -> None:
        if not self.is_full and not self._is_over:
            await self._jobs.make_file(self._loop.time())

    async def _go_straight(self) -> None:
        """Commit a batch that is too large for the journal into the tables alone."""
        submitted = self._submitted
        assert submitted is not None
        batch = self.backlog.straight(submitted.writes)
        full: DiskFull | None = None
        try:
            await self._jobs.apply(batch)
            self.backlog.went_straight(batch, self._loop.time())
            self._counted.straight += 1
        except DiskFull as error:
            full = error  # The transaction was rolled back and not acknowledged.
        self._submitted = None
        submitted.then(full)

    # --- no room, and the end -----------------------------------------------------------------

    async def _without_room(self) -> None:
        """Make room for acknowledged entries, or refuse the waiting commit. Raises StoreBroken."""
        if not self._fullness.found_none(self._loop.time()):
            self._write()
            await asyncio.sleep(FULL_PAUSE_S)

    async def _take_ballast(self) -> None:
        """End the full state once there is room for the ballast."""
        self._fullness.begin_to_reserve()
        there_is = await self._jobs.reserve()
        self._fullness.reserved(there_is=there_is)
        self._write()

    def _break(self, error: BaseException, *, is_told: bool = False) -> None:  # Tests replace this.
        """Refuse everything from now on. is_told: a commit already reports the error."""
        if self._error is not None:
            return
        broken = (
            error
            if isinstance(error, StoreBroken)
            else StoreBroken(f"writing to the tables failed: {error!r}")
        )
        self._error = broken
        self._file.refuse(broken)
        is_told |= self._refuse()
        self._waits.fail(broken)
        if not is_told:
            self._broken(broken)

    async def close(self) -> None:
        """Finish the work under way, and refuse all other commits.

        The tables then lack nothing and need no journal, unless the disk has no room to write that.
        """
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        while self._task is not None:
            await asyncio.wait([self._task])
        self._refuse()
        self._journal.close()
        await asyncio.sleep(0)  # The thread's last callback runs now.
        try:
            if self._error is None:
                while (batch := self.backlog.batch(self._loop.time())) is not None:
                    await self._jobs.apply_last(batch)
                    self.backlog.followed(batch, self._loop.time())
                self._waits.resolve(self.overlay.followed)
                await self._jobs.apply_last(self.backlog.closing())
        except StoreError as error:
            # The journal has all entries, and the next start reports the error.
            self._break(error, is_told=True)


def _say_whether_full(is_full: bool) -> None:
    if is_full:
        log.warning("the disk is full: writes are refused until the ballast fits in again")
    else:
        log.warning("there is room on the disk again: it takes writes")
