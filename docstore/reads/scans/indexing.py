"""The indexes of a node: which there are, and the rounds in which they follow the decided rows.

A scanning process does the work (`following.py`); the node only tells it, now and then, which rows
its file of documents has. No write waits for an index, and a query needs none.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from docstore.documents.view import LogView, ReplicaView
from docstore.errors import DocstoreError
from docstore.model.service import LINEARIZABLE
from docstore.query.indexes import declared_indexes
from docstore.reads.scans.following import delete
from docstore.reads.scans.scanner import Scans
from docstore.services.registry import Registry

log = structlog.get_logger("docstore.indexes")

FOLLOW_S, FOLLOW_MAX_S = 0.5, 2.0
"""Least and greatest pause between two rounds, in seconds: a round costs time of its own."""
AGAIN_S = 10.0
"""Seconds after a round that could not write the file."""
ROWS_A_S = 1_000.0
"""The pause is a second longer for each of this number of rows in the round before."""


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
        self._logs: dict[int, tuple[LogView, int]] = {}
        """Slot -> its log when it was indexed, and how often it had lost rows."""
        self._wanted: Sequence[tuple[str, str]] | None = None
        self._built: Mapping[tuple[str, str], int] = {}
        """(prefix, index) -> number of slots that it has."""
        self._rounds = self._rows = 0
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
            pause_s = FOLLOW_S
            try:
                pause_s = await self._follow()
            except DocstoreError as error:  # The process ended, or slots left this node: again.
                log.info("the indexes will follow later", why=str(error))
            await asyncio.sleep(pause_s)

    async def _follow(self) -> float:
        """Index what is new; return the seconds until the next round."""
        wanted = list(self._declared())
        if wanted != self._wanted:
            self._wanted, self._built = wanted, {}
            self._reached.clear()
            self._logs.clear()
            if not wanted and self._has_file():
                await asyncio.to_thread(delete, self._file)
        if not wanted or self._scans.is_full:
            return FOLLOW_S
        reached, ends, every = self._reached, self._scans.in_file(), self._view.logs
        logs = {slot: (every[slot], every[slot].cuts) for slot in ends}
        cut = [
            (slot, n)
            for slot, n in ends.items()
            if reached.get(slot) != n or self._logs.get(slot) != logs[slot]
        ]
        rows = sum(max(0, n - reached.get(slot, 0)) for slot, n in cut)
        is_same = logs.keys() == self._logs.keys()
        if not cut and is_same:
            return FOLLOW_S
        sure = [slot for slot, n in cut if self._is_sure(slot, n, logs[slot])]
        fields = await self._scans.index(
            {"indexes": "follow", "cut": cut, "store": self.store, "wanted": wanted,
             "held": [] if is_same else list(logs), "sure": sure}
        )  # fmt: skip
        late = set(fields["late"])
        for slot, _ in cut:
            reached.pop(slot, None)
        reached |= {slot: n for slot, n in cut if slot not in late}
        self._logs = logs
        if fields["built"]:
            self._built = {(prefix, name): slots for prefix, name, slots in fields["built"]}
        if why := fields.get("why", ""):
            log.warning("the indexes do not follow", why=why)
            self._wanted = None  # The file may have been deleted: nothing is sure.
            return AGAIN_S
        self._rounds += 1
        self._rows += rows
        return 0 if late else min(FOLLOW_MAX_S, FOLLOW_S + rows / ROWS_A_S)

    def _has_file(self) -> bool:
        return self._file.exists()

    def metrics(self) -> Mapping[str, float]:
        """Return name -> value, with the factory and the index as labels."""
        values = {
            "docstore_index_rounds_total": float(self._rounds),
            "docstore_index_rows_total": float(self._rows),
        }
        for (prefix, index), slots in self._built.items():
            factory, name = (_escaped(each) for each in (prefix.rstrip("/"), index))
            labels = f'factory="{factory}",index="{name}"'
            values[f"docstore_index_slots{{{labels}}}"] = float(slots)
        return values

    def _is_sure(self, slot: int, n: int, log: tuple[LogView, int]) -> bool:
        """Say whether a slot only has more rows than before, and lacks none behind its position."""
        reached = self._reached.get(slot)
        return reached is not None and log[0].kept <= reached <= n and self._logs.get(slot) == log


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
