"""Scans on this node: cuts of the group, and pages of this node's replica.

A cut has the rows that the owners have decided, after a linearizable read in each slot, so it holds
every update acknowledged before. Any replica whose disk has reached the cut can serve a slot: the
rows are the same on all.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from docstore.documents.events import SlotCorrupted
from docstore.documents.parts import span_of
from docstore.documents.view import LogView
from docstore.errors import BadRequest, Conflict, NotFound, SnapshotGone, Unavailable
from docstore.model import json
from docstore.model.operation import Operation
from docstore.query.cut import Cut, cut_of, is_token, unpack_cut, unpack_part
from docstore.query.names import moment_of
from docstore.reads.scans.barrier import Barrier
from docstore.reads.scans.pool import PROCESSES, ScanPool
from docstore.reads.scans.slot_positions import SlotPositions
from docstore.runtime.driver import Driver
from docstore.runtime.links.rpc import Rpc
from docstore.services.registry import SNAPSHOTS
from docstore.storage.store import Corrupt, Rows, Store

POLL_S = 0.02
FOLLOW_S = 2.0
"""Seconds to wait until durable rows are in the node's file."""

Ends = Sequence[tuple[int, int]]
"""(slot, row) up to which each slot is wanted."""


class Scans:
    """Cuts, and the pages of a scan."""

    def __init__(
        self, driver: Driver, store: Store, rpc: Rpc, file: Path, segments_bytes: int
    ) -> None:
        self._driver = driver
        self._view = driver.view
        self._members, self._owners = driver.view.members, driver.view.owners
        self._store = store
        self._pool = ScanPool(file, PROCESSES, segments_bytes)
        self.counters: Counter[str] = Counter()
        self._barrier = Barrier(driver, rpc, self._confirmed)
        self.positions = SlotPositions(driver, store, rpc)

    @property
    def slots(self) -> int:
        return self._members.configuration.slots

    @property
    def is_full(self) -> bool:
        return self._store.is_full

    async def stop(self) -> None:
        await self._pool.stop()

    @property
    def cluster(self) -> str:
        return self._members.configuration.cluster_id

    async def cut(self, as_of: str, timeout_s: float) -> Cut:
        """Return the cut of "latest", "barrier", a time (ISO 8601), a token, or a named snapshot.

        Only the token of a document's feed gives a cut that is not whole.
        Raises BadRequest, Conflict, NotFound, SnapshotGone, Unavailable.
        """
        if is_token(as_of):
            cut = unpack_part(as_of)
            self._check(cut)
            return cut
        if as_of == "barrier":
            stood = await self._barrier.cut(self.slots, timeout_s)
            found = {slot: (each.last_epoch, each.n) for slot, each in stood.items()}
            return cut_of(self.cluster, self.slots, found)
        at_us = None if as_of == "latest" else moment_of(as_of)
        if at_us is None and as_of != "latest":
            return await self._named(as_of, timeout_s)
        positions = await self.positions.of_all(at_us, timeout_s)
        gone = {slot: each.first_us for slot, each in positions.items() if each.n < each.kept}
        if gone:  # The latest of these times is the first one that has a cut.
            slot = max(gone, key=gone.__getitem__)
            raise _gone(slot, gone[slot])
        found = {slot: (each.epoch, each.n) for slot, each in positions.items()}
        return cut_of(self.cluster, self.slots, found)

    async def earliest(self, timeout_s: float) -> Cut:
        """Return the cut at which the history of each slot begins. Raises Unavailable."""
        positions = await self.positions.of_all(None, timeout_s)
        kept = {slot: (each.epoch, each.kept) for slot, each in positions.items()}
        return cut_of(self.cluster, self.slots, kept)

    async def _named(self, name: str, timeout_s: float) -> Cut:
        link = f"{SNAPSHOTS}/{name}"
        answer = await self._driver.submit(Operation(verb="GET", link=link), timeout_s)
        if answer.status == 404 or answer.row is None:
            raise NotFound(f"{name[:80]!r} is neither a time nor the name of a snapshot")
        if not answer.is_success:
            raise Unavailable(answer.detail)
        cut = unpack_cut(str(json.load(answer.row.state).get("cut", "")))
        self._check(cut)
        return cut

    async def _confirmed(self, slots: Sequence[int], timeout_s: float) -> list[int]:
        """Return the slots that this node owns, as a quorum confirms after the call."""
        index = await self._driver.read_index(slots, timeout_s)
        return [slot for slot in index if self._owners.owns(slot)]

    def layout(self) -> dict[str, Any]:
        """Return the owner and the replicas of each slot, as indices into `nodes`."""
        placement = self._members.placement
        names = list(self._members.configuration.names)
        numbers = {name: number for number, name in enumerate(names)}
        return {
            "nodes": names,
            "configuration": self._members.configuration.id,
            "clusterId": self._members.configuration.cluster_id,
            "owners": [
                numbers.get(self._owners.owner_of(slot) or "", -1) for slot in range(self.slots)
            ],
            "replicas": [
                [numbers[each] for each in placement.replicas(slot) if each in numbers]
                for slot in range(self.slots)
            ],
        }

    async def arrived(self, spans: Ends, timeout_s: float) -> tuple[list[int], list[int]]:
        """Wait until rows are in this node's file, which scanning processes read.

        spans: slots that are wanted up to a row. Return the slots without a complete replica here,
        and those that did not arrive in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        logs = self._view.logs  # Looked up for a thousand slots: a call for each costs more.
        while True:
            elsewhere, late = [], []
            for slot, until in spans:
                log = logs.get(slot)
                if log is None or not log.full:
                    elsewhere.append(slot)
                elif log.decided < until or log.durable < until:
                    late.append(slot)
            if not late or elsewhere or loop.time() >= deadline:
                return elsewhere, late or await self._not_in_file(spans)
            await asyncio.sleep(POLL_S)

    async def _not_in_file(self, spans: Ends) -> list[int]:  # Tests replace this.
        """Wait until the file has these rows; return the slots that still lack rows."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FOLLOW_S
        while True:
            behind = self._store.behind([slot for slot, _ in spans])
            late = [slot for slot, until in spans if slot in behind and until >= behind[slot]]
            if not late or loop.time() >= deadline:
                return late
            self._store.hurry()
            await asyncio.sleep(POLL_S)

    def shown(self, slot: int) -> int:
        """Return the last decided row of a slot that scanning processes can read."""
        until = self._view.readable_until(slot)
        behind = self._store.behind((slot,)).get(slot, until + 1)
        if until >= behind:
            self._store.hurry()
        return min(until, behind - 1)

    def in_file(self) -> dict[int, int]:
        """Return the last decided row of each slot here that is in the file now."""
        found = {
            slot: min(log.decided, log.durable) for slot, log in self._view.logs.items() if log.full
        }
        behind = self._store.behind(found)
        return found | {slot: min(found[slot], n - 1) for slot, n in behind.items()}

    async def batch_end(self, slot: int, n: int) -> int:
        [result] = await self._store.read([Rows(slot, n, n)])
        return n if isinstance(result, Corrupt) or not result else span_of(result[0])[1]

    async def page(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Return fields and payload of a page. Raises BadRequest, SnapshotGone, Unavailable."""
        # Each damaged slot invalidates the segments cached before.
        damages = self._view.counters["faulty"]
        slots = _slots_of(question)
        fields, payload = await self._ask_process({**question, "damages": damages}, slots)
        self.counters["pages"] += 1
        self.counters["bytes"] += len(payload)
        self.counters["rows"] += 0 if question["skipped"] else fields.get("rows", 0)
        self.counters["slots"] += len(slots)
        return fields, payload

    async def look(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        found = await self._ask_process(question, _slots_of(question))
        self.counters["searches"] += 1
        return found

    async def index(self, question: dict[str, Any]) -> dict[str, Any]:
        """Have a scanning process index rows; return what it says."""
        fields, _ = await self._ask_process(question, _slots_of(question))
        return fields

    async def stored(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        fields, payload = await self._ask_process(question, _slots_of(question))
        self.counters["stored_rows"] += fields["rows"]
        self.counters["stored_bytes"] += len(payload)
        return fields, payload

    async def _ask_process(
        self, question: dict[str, Any], slots: Sequence[int]
    ) -> tuple[dict[str, Any], bytes]:
        """Return the answer of a scanning process, if the slots stay on this node meanwhile.

        The process reads only the file: if a slot left this node or was refilled, the answer could
        lack rows without an error.
        """
        before = self._standing(slots)
        fields, payload = await self._pool.ask(question)
        if None in before or self._standing(slots) != before:
            raise Unavailable("slots have left this node: ask another one")
        if fields.get("error") == "damaged":
            self._driver.feed(SlotCorrupted(fields["slot"]))
        _insist_found(fields)
        return fields, payload

    def _standing(self, slots: Sequence[int]) -> list[tuple[LogView, int] | None]:
        """Return for each slot a value that changes when it loses rows; None if it is not here."""
        logs = self._view.logs
        return [
            (log, log.cuts) if (log := logs.get(slot)) is not None and log.full else None
            for slot in slots
        ]

    def _check(self, cut: Cut) -> None:
        """Reject a cut of another group. Raises BadRequest, Conflict."""
        if cut.cluster != self.cluster:
            raise Conflict("this cut is of another group: send one of this group")
        if cut.slots != self.slots:
            raise BadRequest(
                f"a cut must have the {self.slots} slots of the group; got {cut.slots}"
            )


def _slots_of(question: Mapping[str, Any]) -> list[int]:
    return [span[0] for span in question["cut" if "cut" in question else "ranges"]]


def _insist_found(fields: Mapping[str, Any]) -> None:
    match fields.get("error"):
        case None:
            return
        case "trimmed":
            raise _gone(fields["slot"], fields["firstTimeMicros"])
        case "malformed":
            raise BadRequest(fields["detail"])
        case "damaged":
            raise Unavailable(
                f"slot {fields['slot']} is damaged on this node, and is being repaired: ask another"
            )
        case code:
            raise Unavailable(f"the scan failed: {code} {fields.get('detail', '')}")


def _gone(slot: int, first_us: int) -> SnapshotGone:
    if not first_us:
        return SnapshotGone(f"slot {slot} is kept from its newest row on")
    first = datetime.fromtimestamp(first_us / 1e6, UTC).isoformat()
    return SnapshotGone(f"slot {slot} is kept from {first} on")
