"""Commits go into the journal, and the tables follow: the shell around `backlog.py`.

An entry is written by a thread of its own (`journal_thread.py`), one at a time. The tables follow
in the writer's thread. All that is decided is decided in the loop.

What can go wrong, and what is done: the journal cannot be written, or the tables cannot be, for any
reason but room: the store is broken for good, and whoever runs it is told at once, since perhaps
nobody waits for a commit. The tables find no room: the store is full until there is enough for the
ballast, which is given back, and the tables go on with that. Commits are still taken as long as
most of it is left, promises longer, and refused before anything is written. If it was not enough
the store breaks after a while: the journal has everything, and the next start takes it in once an
operator has made room.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from math import inf

import structlog

from docstore.errors import DiskFull, StoreBroken, StoreError
from docstore.storage import entries
from docstore.storage.backlog import Backlog, Batch
from docstore.storage.ballast import Room
from docstore.storage.database import NO_ROOM, WRITER, FileThreads
from docstore.storage.fullness import Fullness
from docstore.storage.journal_measures import JournalMeasures
from docstore.storage.journal_thread import JournalWriter
from docstore.storage.ring import Entry
from docstore.storage.starting import Started
from docstore.storage.store import Then, Write
from docstore.storage.tail import Wait

log = structlog.get_logger("docstore.storage")

FOLLOW_S = 0.5
"""So long commits gather for one transaction of the tables while nobody waits for them."""
HURRY_S, HURRY_ROWS = 0.05, 200
"""Those who wait may start a transaction only so often, while so many rows are behind."""
FLUSH_S = 1.0
FULL_PAUSE_S = 0.1
ROOM_PAUSE_S = 1.0
"""While there is none for a file of the journal, it is looked for so often."""


@dataclass(frozen=True, slots=True)
class _Submitted:
    writes: Sequence[Write]
    body: bytes
    then: Then
    at: float


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

        journal: over the files of the ring; ours to close. broken: told of whatever fails outside
        of a commit.
        """
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self.backlog = Backlog(started.ring, started.line, started.boot, self._loop.time())
        self.overlay = self.backlog.overlay
        self._counted = JournalMeasures()
        self._file = file
        self._writer = started.writer
        self._ballast = ballast
        self._fullness = Fullness(ballast, _say_whether_full)
        self._broken = broken
        self._journal = journal
        self._error: StoreError | None = None
        self._submitted: _Submitted | None = None
        self._is_writing = False
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.Handle | None = None
        self._planned_at = 0.0  # Handles of uvloop do not know theirs if it is now.
        self._began_at = -HURRY_S
        self._handed_at = 0.0
        self._make_from = -inf
        self._is_closing = False
        if self.is_full:
            self._plan()

    @property
    def is_full(self) -> bool:
        """Return whether the disk is: no rows should be made."""
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
        """Return why a commit is not begun, if it is not."""
        if self._error is not None:
            return self._error
        if self._is_closing:
            return StoreBroken("the store is closed")
        if self._fullness.is_unknown or self._may_take(submitted.writes, submitted.body):
            return None
        return DiskFull("there is no room for what was written before")

    def _may_take(self, writes: Sequence[Write], body: bytes) -> bool:
        size = self.backlog.bytes + len(body)
        return not self.is_full or self._fullness.may_take(writes, size)

    def _refuse(self) -> bool:
        """Refuse what was submitted and may not begin; return whether there is any."""
        submitted = self._submitted
        refusal = self._refusal(submitted) if submitted is not None else None
        if submitted is None or refusal is None:
            return False
        self._submitted = None
        submitted.then(refusal)
        return True

    def _write(self) -> None:
        """Write what was submitted, if it is its turn and there is a place."""
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

    def _hand_over(  # Seam.
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
            broken = StoreBroken(f"writing to the journal: {failure!r}")
            self._break(broken, is_told=then is not None)
        else:
            try:
                # Before anybody is told, so that whoever reads what he was told of finds it.
                self.backlog.durable(entry, writes)
                self._plan()
            except Exception as error:  # noqa: BLE001 - else all would wait for it for ever
                self._break(error, is_told=then is not None)
        if then is not None:
            then(self._error)
        self._write()

    def measures(self) -> dict[str, float]:
        """Return counters and gauges (docs/metrics.md)."""
        return self._counted.told(self.backlog, is_full=self.is_full)

    # --- the tables follow --------------------------------------------------------------------

    async def followed(self, wait: Wait) -> None:
        """Return once the tables have followed an entry. Raises StoreBroken."""
        if self._error is not None:
            raise self._error
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((wait.number, future))
        self._plan(hurry=wait.hurry)
        await future

    def hurry(self) -> None:
        """Have the tables follow soon."""
        self._plan(hurry=True)

    def _plan(self, *, hurry: bool = False) -> None:
        """See to it that the tables go on, in time."""
        if self._task is not None or self._error is not None or self._is_closing:
            return  # It looks again at its end.
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
        # In a context of its own: it is not done for the request that happened to start it.
        self._timer = self._loop.call_at(at, self._begin, context=self._context)

    def _begin(self) -> None:
        self._timer = None
        self._began_at = self._loop.time()
        self._task = self._loop.create_task(self._follow())

    @property
    def _is_straight(self) -> bool:
        return self._submitted is not None and not self.backlog.fits(self._submitted.body)

    async def _follow(self) -> None:
        """Have the tables go on, as far as anything is due or waited for."""
        try:
            await self._follow_what_is_due()
        except Exception as error:  # noqa: BLE001 - what is acknowledged would be lost
            self._break(error)
        finally:
            self._task = None
        is_done = self.backlog.is_empty and self.backlog.is_flushed and not self.is_full
        if not is_done or self._submitted is not None:
            self._plan(hurry=bool(self._waiting) or self._fullness.is_stuck)

    @property
    def _is_over(self) -> bool:
        """Return whether nothing new is begun: it is broken, or the rest is done by `close`."""
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

    async def _apply(self, batch: Batch) -> None:  # Seam.
        """Do a transaction of the tables; come back without it when there was no room."""
        try:
            await self._run(batch)
        except DiskFull:
            await self._without_room()
            return
        self._fullness.found_room()
        self.backlog.followed(batch, self._loop.time())
        self._counted.transactions += 1
        self._pass_waiting()
        await self._make_a_file()
        self._write()

    async def _make_a_file(self) -> None:
        """Make the next file of the journal, if there should be one and there is room for it."""
        ring = self.backlog.ring
        name = ring.wanted()
        if name is None or self.is_full or self._is_over or self._loop.time() < self._make_from:
            return
        try:
            await self._file.run(WRITER, lambda _: ring.make(name))
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._make_from = self._loop.time() + ROOM_PAUSE_S
        else:
            ring.made(name)

    async def _run(self, batch: Batch) -> None:
        await self._file.run(
            WRITER,
            lambda _: self._writer.follow(batch.writes, batch.line, durably=batch.durably),
        )

    async def _go_straight(self) -> None:
        """Commit what is too large for the journal into the tables alone."""
        submitted = self._submitted
        assert submitted is not None
        batch = self.backlog.straight(submitted.writes)
        full: DiskFull | None = None
        try:
            await self._run(batch)
            self.backlog.went_straight(batch, self._loop.time())
            self._counted.straight += 1
        except DiskFull as error:
            full = error  # Nothing of it is kept, and nothing was said.
        self._submitted = None
        submitted.then(full)

    def _pass_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for number, future in waiting:
            if number > self.overlay.followed:
                self._waiting.append((number, future))
            elif not future.done():
                future.set_result(None)

    # --- no room, and the end -----------------------------------------------------------------

    async def _without_room(self) -> None:
        """Make room for what is acknowledged, or refuse what waits. Raises StoreBroken."""
        if not self._fullness.found_none(self._loop.time()):
            self._write()
            await asyncio.sleep(FULL_PAUSE_S)

    async def _take_ballast(self) -> None:
        """Be full no more once there is room for the ballast."""
        self._fullness.begin_to_reserve()
        there_is = await self._file.run(WRITER, lambda _: self._ballast.reserve())
        self._fullness.reserved(there_is=there_is)
        self._write()

    def _break(self, error: BaseException, *, is_told: bool = False) -> None:  # Seam.
        """Refuse everything from now on; is_told: whether a commit says so."""
        if self._error is not None:
            return
        broken = error if isinstance(error, StoreBroken) else StoreBroken(f"the tables: {error!r}")
        self._error = broken
        self._file.refuse(broken)
        is_told |= self._refuse()
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(broken)
        self._waiting = []
        if not is_told:
            self._broken(broken)

    async def close(self) -> None:
        """Finish what is under way, refuse what is not begun.

        The tables have everything then and need no journal, unless there is no room for it.
        """
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        while self._task is not None:
            await asyncio.wait([self._task])
        self._refuse()
        self._journal.close()
        await asyncio.sleep(0)  # What the thread said last is heard.
        try:
            if self._error is None:
                await self._finish()
        except StoreError as error:
            # The journal has it all, and the next start says what is wrong.
            self._break(error, is_told=True)

    async def _finish(self) -> None:
        while (batch := self.backlog.batch(self._loop.time())) is not None:
            await self._run_to_the_end(batch)
            self.backlog.followed(batch, self._loop.time())
        self._pass_waiting()
        await self._run_to_the_end(self.backlog.closing())

    async def _run_to_the_end(self, batch: Batch) -> None:
        """Do a transaction of the tables with the ballast's room, if there is no other."""
        try:
            await self._run(batch)
        except DiskFull:
            if not self._ballast.release():
                raise
            await self._run(batch)


def _say_whether_full(is_full: bool) -> None:
    if is_full:
        log.warning("the disk is full: writes are refused until the ballast fits in again")
    else:
        log.warning("there is room again: the disk takes writes")
