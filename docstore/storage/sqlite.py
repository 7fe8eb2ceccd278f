"""Storage of a node: a journal, and one SQLite file that follows it.

A commit is durable once its entry is in the journal (`journalling.py`). Reads merge the entries
that the file lacks (`overlay.py`).

The file has one writer and three readers, each on a thread of its own (`database_threads.py`).
Every call costs one hop to a thread and back, however many statements it needs. Point reads, pages
of a log and listings have different readers, so that neither a copy to a replica nor a digest over
a whole slot delays a GET.

The lock of the file (`database.py`) keeps a second process away: two nodes on one disk would both
use its promises.
"""

import asyncio
import sqlite3
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from docstore.errors import DiskFull
from docstore.model.document import Row
from docstore.storage import listing, reading, starting
from docstore.storage.ballast import Ballast
from docstore.storage.database import WRITER, Database
from docstore.storage.disk_files import DiskFiles
from docstore.storage.journal_thread import JournalThread
from docstore.storage.journalling import Journalling
from docstore.storage.overlaid import Overlaid
from docstore.storage.starting import Sizes, Started
from docstore.storage.store import LONG, Bounds, Query, Recovered, Result, Then, Write
from docstore.storage.writing import Writer

_CACHE_KIB = {WRITER: 32 << 10, "reader": 16 << 10, "pager": 4 << 10, "lister": 8 << 10}
"""Modest sizes, since the kernel caches the file as well."""


class SqliteStore:
    """A `Store` in the file `path`, with its journal and its ballast next to it."""

    def __init__(self, path: str | Path, *, sizes: Sizes | None = None) -> None:
        """Do nothing yet. sizes: of the journal."""
        self.broken: Callable[[BaseException], None] = unheard
        self._file: Database[Write] = Database(path, _CACHE_KIB, "FULL")
        self._sizes = sizes or Sizes()
        self._ballast = Ballast(Path(f"{path}.ballast"), self._sizes.ballast_bytes)
        self._files: DiskFiles | None = None
        self._started: Started | None = None
        self._journalling: Journalling | None = None
        self._answers: Overlaid | None = None

    async def open(self) -> Recovered:
        """Open or create the file and its journal, count the boot, and return the content.

        Raises StoreBroken when another process has the file, it belongs to another program or
        cannot be read; its subclass StoreDamaged when an acknowledged write is gone; DiskFull when
        there is no room for a start. Nothing stays open then.
        """
        try:
            try:
                return await self._opened()
            except DiskFull:
                if not self._ballast.release():
                    raise
                return await self._opened()
        except DiskFull as error:
            needed, free = -(-self._sizes.start_bytes >> 20), self._ballast.free_bytes() >> 20
            raise DiskFull(
                f"{self._file.path}: no room for a start, which takes {needed} MiB:"
                f" {free} MiB are free ({error})"
            ) from error

    async def _opened(self) -> Recovered:
        try:
            async with self._file.opening(self._prepared):
                self._begin()
                return await self.recover()
        except BaseException:
            self._forget()
            raise

    def _prepared(self, connection: sqlite3.Connection) -> Writer:
        if not starting.has_journal(connection):
            self._insist_on_room()
        self._files = DiskFiles(Path(f"{self._file.path}.journal"))
        self._started = starting.start(
            connection, self._file.log, self._files, uuid.uuid4().hex, self._sizes
        )
        return self._started.writer

    def _insist_on_room(self) -> None:
        """Raise DiskFull, and reserve nothing, if a new store would have no room for writes."""
        rest = self._sizes.start_bytes - self._sizes.ballast_bytes
        if not self._ballast.reserve() or self._ballast.free_bytes() < rest:
            self._ballast.release()
            raise DiskFull("the disk has no room for a journal and its ballast")

    def _begin(self) -> None:
        assert self._started is not None
        journal = JournalThread(self._started.ring.files)
        self._journalling = Journalling(
            self._file, self._started, journal, self._ballast, broken=self._tell
        )
        self._file.before_closing(self._journalling.close)
        self._answers = Overlaid(
            self._journalling.overlay, _Tables(self._file), self._journalling.followed
        )

    @property
    def is_full(self) -> bool:
        """Return whether the disk is full; callers must then make no rows."""
        return self._journalling is not None and self._journalling.is_full

    def _tell(self, error: BaseException) -> None:
        self.broken(error)

    @property
    def _journal(self) -> Journalling:
        assert self._journalling is not None, "not open"
        return self._journalling

    @property
    def _all(self) -> Overlaid:
        assert self._answers is not None, "not open"
        return self._answers

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        self._journal.submit(writes, then)

    async def commit(self, writes: Sequence[Write]) -> None:
        await committed(self.submit, writes)

    def behind(self, slots: Iterable[int]) -> dict[int, int]:
        return self._journal.overlay.behind(slots)

    def hurry(self) -> None:
        self._journal.hurry()

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        return await self._all.read(queries)

    async def recover(self) -> Recovered:
        return await self._all.recover()

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        return await self._all.links(prefix, after, limit, until, level=level)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        return await self._all.count(prefix, until, level=level)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        return await self._all.below(prefix, slots)

    async def with_agenda(self, prefix: str, slots: Collection[int]) -> list[Row]:
        return await self._all.with_agenda(prefix, slots)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        return await self._all.digests(slots)

    def measures(self) -> dict[str, float]:
        """Return the metrics of the journal while it is open."""
        if self._journalling is None or self._started is None:
            return {}
        return {
            **self._journalling.measures(),
            "docstore_journal_replayed": float(self._started.replayed),
        }

    async def close(self) -> None:
        try:
            await self._file.close()
        finally:
            self._forget()

    def _forget(self) -> None:
        """Return to the state before `open`."""
        if self._files is not None:
            self._files.close()
        self._files = self._started = self._journalling = self._answers = None


class _Tables:
    """The file alone: `Tables`."""

    def __init__(self, file: Database[Write]) -> None:
        self._file = file

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        is_long = any(isinstance(query, LONG) for query in queries)
        return await self._file.run(
            "pager" if is_long else "reader", lambda file: reading.answer(file, queries)
        )

    async def recover(self) -> Recovered:
        return await self._file.run("lister", reading.recovered)

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        return await self._file.run(
            "lister", lambda file: listing.links(file, prefix, after, limit, until, level=level)
        )

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        return await self._file.run(
            "lister", lambda file: listing.count(file, prefix, until, level=level)
        )

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        return await self._file.run("lister", lambda file: listing.below(file, prefix, slots))

    async def with_agenda(self, prefix: str, slots: Collection[int]) -> list[Row]:
        return await self._file.run("lister", lambda file: listing.with_agenda(file, prefix, slots))

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        return await self._file.run("lister", lambda file: listing.digests(file, slots))


async def committed(
    submit: Callable[[Sequence[Write], Then], None], writes: Sequence[Write]
) -> None:
    """Return once `writes` are durable. Raises the error that `submit` reports.

    A driver submits a batch with a callback instead, which costs neither a task nor a future.
    """
    stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def then(error: Exception | None) -> None:
        if stored.done():
            return  # The caller was cancelled.
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)

    submit(writes, then)
    await stored


def unheard(error: BaseException) -> None:
    """Raise the error in the loop. `Store.broken` is this function until the node sets it."""
    raise error
