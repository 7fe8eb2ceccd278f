"""Jobs by which the writer's thread brings the tables up to the journal, and their waiters."""

import asyncio
from math import inf

from docstore.errors import DiskFull, StoreError
from docstore.storage.backlog import Batch
from docstore.storage.ballast import Room
from docstore.storage.database import NO_ROOM, WRITER, FileThreads
from docstore.storage.ring import Ring
from docstore.storage.writing import Writer

ROOM_PAUSE_S = 1.0
"""Seconds between attempts to create a journal file while there is no room for one."""


class FollowJobs:
    """Commits transactions of the tables, creates files of the journal and reserves the ballast."""

    def __init__(self, file: FileThreads, writer: Writer, ring: Ring, ballast: Room) -> None:
        self._file = file
        self._writer = writer
        self._ring = ring
        self._ballast = ballast
        self._make_from = -inf

    async def apply(self, batch: Batch) -> None:
        """Commit a transaction of the tables. Raises DiskFull, StoreBroken."""
        await self._file.run(
            WRITER,
            lambda _: self._writer.follow(batch.writes, batch.line, durably=batch.durably),
        )

    async def apply_last(self, batch: Batch) -> None:
        """Commit a transaction of the tables, on the ballast's space if the disk has no other."""
        try:
            await self.apply(batch)
        except DiskFull:
            if not self._ballast.release():
                raise
            await self.apply(batch)

    async def make_file(self, now: float) -> None:
        """Create the next file of the journal, if it needs one and there is room for it."""
        name = self._ring.wanted()
        if name is None or now < self._make_from:
            return
        try:
            await self._file.run(WRITER, lambda _: self._ring.make(name))
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._make_from = asyncio.get_running_loop().time() + ROOM_PAUSE_S
        else:
            self._ring.made(name)

    async def reserve(self) -> bool:
        """Reserve the ballast. Return whether there was room for it."""
        return await self._file.run(WRITER, lambda _: self._ballast.reserve())


class FollowWaits:
    """Callers that wait until the tables have followed an entry, by its number."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, number: int) -> asyncio.Future[None]:
        """Return a future that is done once the tables have followed entry `number`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((number, future))
        return future

    def resolve(self, followed: int) -> None:
        """Wake the callers that wait for an entry up to number `followed`."""
        waiting, self._waiting = self._waiting, []
        for number, future in waiting:
            if number > followed:
                self._waiting.append((number, future))
            elif not future.done():
                future.set_result(None)

    def fail(self, error: StoreError) -> None:
        """Wake all callers with an error."""
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting = []
