"""The indexes of a node: which there are, and the rounds in which they follow the decided rows.

A scanning process does the work (`following.py`); the node only tells it, now and then, which rows
its file of documents has. No write waits for an index, and a query needs none.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from docstore.documents.view import ReplicaView
from docstore.errors import DocstoreError
from docstore.model.service import LINEARIZABLE
from docstore.query.indexes import declared_indexes
from docstore.reads.scans.following import delete
from docstore.reads.scans.scanner import Scans
from docstore.services.registry import Registry

log = structlog.get_logger("docstore.indexes")

FOLLOW_S = 0.5
"""Seconds between two rounds: rows of one page of the file are best indexed at once."""


class Indexing:
    """Has the file of indexes follow the documents of this node."""

    def __init__(
        self,
        registry: Registry,
        scans: Scans,
        view: ReplicaView,
        store: tuple[str, int],
        file: Path,
    ) -> None:
        """store: the identity of the store, and the number of its start."""
        self._registry = registry
        self._scans = scans
        self._view = view
        self.store = store
        self._file = file
        self._reached: dict[int, int] = {}
        """Slot -> row up to which all indexes have it."""
        self._wanted: Sequence[tuple[str, str]] | None = None
        self.built: Mapping[tuple[str, str], int] = {}
        """(prefix, index) -> number of slots that it has."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def names(self, prefix: str) -> list[str]:
        """Return the declared indexes of a factory."""
        return [name for its, name in self._declared() if its == prefix]

    def _declared(self) -> Iterator[tuple[str, str]]:
        for service in self._registry.services():
            options = service.options
            if options.indexes and options.level == LINEARIZABLE:
                for index in declared_indexes(options.indexes):
                    yield f"{options.path}/", index.name

    async def _run(self) -> None:
        while True:
            is_late = False
            try:
                is_late = await self._follow()
            except DocstoreError as error:  # The process ended, or slots left this node: again.
                log.info("the indexes will follow later", why=str(error))
            await asyncio.sleep(0 if is_late else FOLLOW_S)

    async def _follow(self) -> bool:
        """Index what is new; return whether there is more."""
        wanted = list(self._declared())
        if wanted != self._wanted:
            self._wanted, self.built = wanted, {}
            self._reached.clear()
            if not wanted:
                await asyncio.to_thread(delete, self._file)
        if not wanted:
            return False
        held = [slot for slot, its in self._view.logs.items() if its.full]
        ends = {slot: self._scans.in_file(slot) for slot in held}
        cut = [(slot, n) for slot, n in ends.items() if self._reached.get(slot) != n]
        if not cut:
            return False
        fields = await self._scans.index(
            {"indexes": "follow", "cut": cut, "store": self.store, "wanted": wanted, "held": held}
        )
        late = set(fields["late"])
        self._reached |= {slot: n for slot, n in cut if slot not in late}
        self.built = {(prefix, name): slots for prefix, name, slots in fields["built"]}
        if why := fields.get("why", ""):
            log.warning("the indexes do not follow", why=why)
        return bool(late) and not why
