"""Resynchronisation: the owner of each slot brings its replicas up to date, then all are compared.

A run belongs to the node that started it; its id begins with that node's id, so that any node can
find it. A second request for the same slots joins the run. The run takes the slots in small parts,
so that its page shows progress, and it can be throttled, paused and cancelled between two parts.

The owners do the work when a run asks them. They compare the digests of replicas with equal ends,
and have a replica refilled that differs from a majority.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from docstore.documents.events import ResyncAsked, SlotCorrupted
from docstore.documents.view import ReplicaView
from docstore.errors import NotFound, Unavailable
from docstore.runtime.links.rpc import Rpc
from docstore.storage.store import Store
from docstore.wire.requests import (
    ControlResync,
    DigestSlots,
    ReadResync,
    RefillSlot,
    ResyncShare,
    Share,
)

RUNS_KEPT = 32
SLOTS_AT_ONCE = 32
RUNNING, PAUSED = "RUNNING", "PAUSED"
UNDER_WAY = (RUNNING, PAUSED)
ACTIONS = ("pause", "resume", "cancel")
OWNER_TIMEOUT_S = 60.0
POLL_S = 0.01


def batched(slots: Sequence[int], count: int) -> Iterator[Sequence[int]]:
    for first in range(0, len(slots), count):
        yield slots[first : first + count]


@dataclass(slots=True)
class Run:
    """State of one resynchronisation."""

    id: str
    link: str | None
    slots: Sequence[int]
    slots_per_second: float = 0.0
    state: str = RUNNING
    synchronised: int = 0
    compared: int = 0
    copied: int = 0
    settled: int = 0
    started_us: int = 0
    finished_us: int = 0
    errors: list[str] = field(default_factory=list)
    part: Sequence[int] = ()
    """Slots of the part that owners are working on now."""
    going: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that is cleared while the run is paused."""

    def page(self, waits_for: str = "") -> dict[str, Any]:
        """Return the status as JSON. waits_for: the reason why the run cannot continue."""
        return {
            "kind": "SynchronizeStatus",
            "id": self.id,
            "documentSelfLink": self.link,
            "state": self.state,
            "slots": {"total": len(self.slots), "synchronised": self.synchronised},
            "slotsPerSecond": self.slots_per_second,
            "documents": {
                "compared": self.compared,
                "copied": self.copied,
                "settled": self.settled,
            },
            "startedTimeMicros": self.started_us,
            "finishedTimeMicros": self.finished_us,
            "waitsFor": waits_for,
            "errors": self.errors,
        }


class Resync:
    """Executes the runs that began on this node, and this node's share of other runs."""

    def __init__(
        self,
        view: ReplicaView,
        store: Store,
        rpc: Rpc,
        feed: Callable[[ResyncAsked | SlotCorrupted], None],
    ) -> None:
        self._me = view.members.me
        self._view = view
        self._members = view.members
        self._store = store
        self._rpc = rpc
        self._feed = feed
        self._runs: dict[str, Run] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        rpc.serve(ResyncShare, self._share_here)
        rpc.serve(ReadResync, self._status_here)
        rpc.serve(ControlResync, self._control_here)
        rpc.serve(DigestSlots, self._digests_here)
        rpc.serve(RefillSlot, self._refill_here)

    def start(self, link: str | None, slots: Sequence[int], slots_per_second: float = 0.0) -> str:
        """Start a run, or join a running one; return its id. slots_per_second: 0 for no limit."""
        for run in self._runs.values():
            if run.state in UNDER_WAY and run.link == link:
                return run.id
        run = Run(f"{self._me}.{time.time_ns() // 1000}", link, slots, slots_per_second)
        run.started_us = time.time_ns() // 1000
        run.going.set()
        self._runs[run.id] = run
        while len(self._runs) > RUNS_KEPT:
            old = next(each for each in self._runs.values() if each.state not in UNDER_WAY)
            del self._runs[old.id]
        task = asyncio.get_running_loop().create_task(self._run(run))
        self._tasks[run.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(run.id, None))
        return run.id

    def last_of(self, link: str) -> dict[str, Any] | None:
        """Return the page of the last run of a factory or a document that began on this node."""
        runs = [run for run in self._runs.values() if run.link == link]
        return self._page(runs[-1]) if runs else None

    def _page(self, run: Run) -> dict[str, Any]:
        """Return a run's page; it counts the slots without an owner if these delay the run."""
        owners = self._view.owners
        if not owners.vacant_among(run.part):
            return run.page()
        return run.page(f"{owners.vacant_among(run.slots)} slots have no owner now")

    async def status(self, run_id: str | None, timeout_s: float) -> dict[str, Any]:
        """Return the status of a run, from the node where it runs. Raises NotFound."""
        return await self._ask(run_id, ReadResync(run_id), timeout_s)

    async def control(self, run_id: str, action: str, timeout_s: float) -> dict[str, Any]:
        """Pause, resume or cancel a run on the node where it runs. Raises NotFound."""
        return await self._ask(run_id, ControlResync(run_id, action), timeout_s)

    async def _ask(
        self, run_id: str | None, request: ReadResync | ControlResync, timeout_s: float
    ) -> dict[str, Any]:
        home = self._me if run_id is None else run_id.rpartition(".")[0]
        page = None
        if home == self._me or home in self._members.peers:
            page = await self._rpc.call(home, request, timeout_s)
        if page is None:
            raise NotFound(f"there is no resync {run_id}")
        return dict(page)

    async def _control_here(self, asked: ControlResync) -> dict[str, Any] | None:
        run_id, action = asked.run_id, asked.action
        run = self._runs.get(run_id)
        if run is None:
            return None
        if run.state in UNDER_WAY:
            if action == "pause":
                run.going.clear()
                run.state = PAUSED
            elif action == "resume":
                run.going.set()
                run.state = RUNNING
            else:
                run.state = "CANCELLED"
                self._tasks[run_id].cancel()
        return self._page(run)

    async def wait(self, run_id: str, timeout_s: float) -> None:
        task = self._tasks.get(run_id)
        if task is not None:
            await asyncio.wait([task], timeout=timeout_s)

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def compare(self, slots: Sequence[int]) -> int:
        """Compare slots of this owner with their other replicas; return how many differed."""
        return (await self._own_share(slots)).settled

    async def _run(self, run: Run) -> None:
        began, done = time.monotonic(), 0
        try:
            for part in batched(run.slots, SLOTS_AT_ONCE):
                await run.going.wait()
                run.part = part
                await self._part(run, part)
                run.part = ()
                done += len(part)
                if run.slots_per_second > 0:
                    due = began + done / run.slots_per_second
                    await asyncio.sleep(due - time.monotonic())
            run.state = "FAILED" if run.errors else "FINISHED"
        finally:
            run.part, run.finished_us = (), time.time_ns() // 1000

    async def _part(self, run: Run, slots: Sequence[int]) -> None:
        """Have the owners of these slots do their shares of a run concurrently."""
        shares = self._view.owners.owners_of(slots)
        lost = len(slots) - sum(map(len, shares.values()))
        if lost:
            run.errors.append(f"{lost} slots have no owner now")
        await asyncio.gather(*(self._share(run, owner, part) for owner, part in shares.items()))

    async def _share(self, run: Run, owner: str, slots: list[int]) -> None:
        try:
            share = await self._rpc.call(owner, ResyncShare(slots), OWNER_TIMEOUT_S + 5)
        except Unavailable as error:
            run.errors.append(str(error))
            return
        run.synchronised += share.done
        run.compared += share.compared
        run.copied += share.copied
        run.settled += share.settled
        run.errors.extend(share.errors)

    async def _share_here(self, asked: ResyncShare) -> Share:
        return await self._own_share(asked.slots)

    async def _own_share(self, slots: Sequence[int]) -> Share:
        """Bring the replicas of this owner's slots up to date, and compare them."""
        lacking = sum(map(self._view.replication.lacking, slots))
        self._feed(ResyncAsked(slots))
        deadline = time.monotonic() + OWNER_TIMEOUT_S
        behind = self._behind(slots)
        while behind and time.monotonic() < deadline:
            await asyncio.sleep(POLL_S)
            behind = self._behind(slots)
        errors = [f"{count} slots of {peer} are behind" for peer, count in behind.items()]
        compared, differed, silent = await self._compare(slots)
        errors += [f"{member} did not answer: its replicas were not compared" for member in silent]
        settled = len(slots) if not behind else 0
        if differed:
            errors.append(f"{differed} replicas differed and are being refilled")
        return Share(settled, compared, lacking, differed, errors)

    def _behind(self, slots: Sequence[int]) -> Counter[str]:
        """Return connected replica -> number of slots in which it lags behind this owner."""
        return Counter(peer for slot in slots for peer in self._view.replication.behind(slot))

    async def _compare(self, slots: Sequence[int]) -> tuple[int, int, list[str]]:
        """Compare digests.

        Return the number of documents compared, that of replicas that differed, and the nodes that
        did not answer.
        """
        members: set[str] = set()
        for slot in slots:
            members.update(self._members.placement.replicas(slot))
        found: dict[str, dict[int, tuple[int, int, str]]] = {}
        silent = []
        for member in sorted(members):
            try:
                answer = await self._rpc.call(member, DigestSlots(list(slots)), OWNER_TIMEOUT_S)
            except Unavailable:
                silent.append(member)
                continue
            found[member] = {slot: (end, links, digest) for slot, end, links, digest in answer}
        compared = sum(entry[1] for entry in found.get(self._me, {}).values())
        differed = 0
        for slot in slots:
            differed += await self._refill_the_odd_one(slot, found)
        return compared, differed, silent

    async def _refill_the_odd_one(
        self, slot: int, found: dict[str, dict[int, tuple[int, int, str]]]
    ) -> int:
        """Have each replica refilled that differs from a majority with the same end."""
        votes = Counter(each[slot] for each in found.values() if slot in each)
        if len(votes) < 2:
            return 0
        (end, links, digest), count = votes.most_common(1)[0]
        if count <= len(self._members.placement.replicas(slot)) // 2:
            return 0
        odd = [
            member
            for member, each in found.items()
            if slot in each and each[slot][0] == end and each[slot] != (end, links, digest)
        ]
        for member in odd:
            await self._rpc.call(member, RefillSlot(slot), 5.0)
        return len(odd)

    async def _status_here(self, asked: ReadResync) -> dict[str, Any] | None:
        if asked.run_id is None:
            runs = list(self._runs.values())
            return self._page(runs[-1]) if runs else None
        run = self._runs.get(asked.run_id)
        return self._page(run) if run else None

    async def _digests_here(self, asked: DigestSlots) -> list[tuple[int, int, int, str]]:
        held = [slot for slot in asked.slots if slot in self._view.logs]
        digests = await self._store.digests(held)
        return [(slot, *entry) for slot, entry in sorted(digests.items())]

    async def _refill_here(self, asked: RefillSlot) -> None:
        self._feed(SlotCorrupted(asked.slot))
