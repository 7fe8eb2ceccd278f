"""Delivers the changes of all subscriptions whose documents this node owns.

This is the driver of the machine of webhooks (`docstore/subscriptions/deliveries.py`). Each
subscription performs one effect at a time, in a task. It needs a permit to read changes and to call
its receiver. There are as many permits as concurrent calls (`calling.py`), and only one
subscription reads at a time. So any number of subscriptions delays the node's clients little, and
memory holds only the batches that are being delivered (and those of rule WH9). A change wakes only
the subscriptions of its path.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import assert_never

import structlog

from docstore.documents.view import GroupView
from docstore.errors import DocstoreError, Unavailable
from docstore.machines.events import Tick, TurnEnded
from docstore.maintenance.upkeep.background import Background
from docstore.maintenance.webhooks.calling import CALLS_AT_ONCE, Caller
from docstore.maintenance.webhooks.reading import ChangeReader
from docstore.model import json
from docstore.model.document import Row, tag_of
from docstore.model.operation import Answer, Conditions, Operation
from docstore.model.service import LINEARIZABLE, State
from docstore.reads.scans.feed import Feed
from docstore.runtime.stepping import NoLinks, Stepping, clock
from docstore.runtime.trace.of_machines import WEBHOOKS
from docstore.runtime.trace.recorder import Recorder
from docstore.services.subscriptions import (
    SUBSCRIPTIONS,
    SubscriptionPhase,
    SubscriptionState,
    read_subscription,
)
from docstore.storage.store import Store
from docstore.subscriptions import events
from docstore.subscriptions.deliveries import Deliveries, DeliveryEffect, DeliveryEvent
from docstore.subscriptions.effects import Call, Confirm, Leave, Read, Save, Wait

BELOW = f"{SUBSCRIPTIONS}/"
LOOK_S = 0.5
"""Seconds between two searches for subscriptions to deliver."""
DELIVERED_AT_ONCE = 1_000
READS_AT_ONCE = 1
RESTS = 2
"""Pause after a read that found nothing, as a multiple of the time that the read took."""
TIMEOUT_S = 5.0
NEWS_S = 1.0

Tag = tuple[int, int]
"""(epoch, version) of a document."""
MayRead = Callable[[str, str], bool]
"""(user, path) -> whether the user may read all documents at and below the path now."""

log = structlog.get_logger("docstore.subscriptions")


class Deliverer(Stepping[DeliveryEvent | Tick | TurnEnded, DeliveryEffect]):
    """All subscriptions that a node delivers."""

    def __init__(
        self,
        me: str,
        view: GroupView,
        store: Store,
        submit: Callable[[Operation, float], "asyncio.Future[Answer]"],
        feed: Feed,
        reading: ChangeReader,
        caller: Caller,
        may_read: MayRead,
        *,
        retry_s: float,
        rng: Random,
    ) -> None:
        """me: id of this node. submit: carries an operation to its owner.

        retry_s, rng: see Delivery.
        """
        self.machine = Deliveries(retry_s, rng)
        super().__init__(self.machine, NoLinks(), WEBHOOKS)
        self.recorder = Recorder(WEBHOOKS, briefly=True)
        self.counters: Counter[str] = Counter()
        self._me = me
        self._view = view
        self._store = store
        self._submit = submit
        self._feed = feed
        self._reading = reading
        self._caller = caller
        self._may_read = may_read
        self._reads = asyncio.Semaphore(READS_AT_ONCE)
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE)
        self._leaves = False
        self._seen = -1
        self._looked: dict[int, int] = {}
        self._terms_opened = -1
        self._fresh: set[str] = set()
        """Links of subscriptions that this node may have to deliver."""
        self._running: dict[str, _Run] = {}
        self._looking = Background("subscriptions", self._look)
        self._listening = Background("news of subscriptions", self._listen)

    def start(self) -> None:
        super().start()
        self._looking.start()
        self._listening.start()

    def noticed(self, row: Row) -> None:
        about = None if row.deleted else read_subscription(row.state)
        is_active = about is not None and about.phase is SubscriptionPhase.ACTIVE
        run = self._running.get(row.link)
        if run is None:
            if is_active:
                self._fresh.add(row.link)
        elif is_active:
            run.is_wanted = True
        else:
            run.leave()

    def drain(self) -> None:
        """Take no more subscriptions; save the mark of each when its call has ended."""
        self._leaves = True
        for run in self._running.values():
            run.leave()

    async def stop(self) -> None:
        self.drain()
        self.end()
        await self._looking.stop()
        await self._listening.stop()
        tasks = [each.task for each in self._running.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._caller.stop()

    def metrics(self) -> dict[str, float]:
        since = [each.behind_since for each in self.machine.active.values()]
        lags_s = [clock() - each for each in since if each is not None]
        return {
            "docstore_subscriptions_active": float(len(self._running)),
            "docstore_subscriptions_lag_seconds": max(lags_s, default=0.0),
        }

    # The search for subscriptions

    async def _look(self) -> None:
        await asyncio.sleep(LOOK_S)
        terms = self._view.terms_opened
        if terms != self._terms_opened:
            found = await self._store.below(BELOW, self._view.owned())
            self._fresh.update(row.link for row in found)
            self._terms_opened = terms
        for each in self._running.values():
            if not self._view.owns(each.link):
                each.leave()
        fresh, self._fresh = self._fresh, set()
        for link in fresh:
            run = self._running.get(link)
            # The run may be ending, because another node owned the slot for a while.
            if run is not None:
                run.is_wanted = True
            elif not self._view.owns(link) or self._leaves:
                continue
            elif len(self._running) < DELIVERED_AT_ONCE:
                self._begin(link)
            else:
                self._fresh.add(link)

    async def _listen(self) -> None:
        """Wake the subscriptions that wait for changes, if changes may have come."""
        if not self._running:
            await asyncio.sleep(LOOK_S)
        elif await self._feed.news(self._seen, NEWS_S):
            self._seen = self._feed.seen()
            touched = await self._touched()
            for run in self._running.values():
                if touched is None or run.about is None or run.about.path in touched:
                    run.hear()

    async def _touched(self) -> set[str] | None:
        """Return the paths at or below which something changed, None if unknown."""
        try:
            links = await self._feed.touched(self._looked)
        except DocstoreError:
            return None
        return None if links is None else {path for link in links for path in _up_from(link)}

    def _begin(self, link: str) -> None:
        run = self._running[link] = _Run(link)
        run.task = self.loop.create_task(self._deliver(run))
        run.task.add_done_callback(partial(self._done, run))

    def _done(self, run: "_Run", task: "asyncio.Task[None]") -> None:
        """End a delivery after an unexpected error; the next search restarts it."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("delivering failed", subscription=run.link, exc_info=error)
        self.machine.active.pop(run.link, None)
        run.is_wanted = True
        self._end(run)

    def _end(self, run: "_Run") -> None:
        self._release(run)
        if self._running.get(run.link) is run:
            del self._running[run.link]
        if run.is_wanted:  # The next search reads the document.
            self._fresh.add(run.link)

    def _release(self, run: "_Run") -> None:
        if run.has_turn:
            run.has_turn = False
            self._turns.release()

    # One subscription

    async def _deliver(self, run: "_Run") -> None:
        try:
            found = await self._document(run.link)
        except DocstoreError as error:
            log.info("a subscription could not be read", subscription=run.link, error=str(error))
            run.is_wanted = True
            found = None
        if found is None:
            self._end(run)
            return
        run.about, run.tag = found
        run.is_wanted |= run.about.phase is SubscriptionPhase.ACTIVE
        self.feed(DeliveryEvent(run.link, events.Began(run.about)))
        while run.wanted is not None:
            effect, run.wanted = run.wanted, None
            await self._carry_out(run, run.about, effect)

    def perform(self, effect: DeliveryEffect) -> None:
        """Hand an effect to the task of its subscription, which feeds the answer."""
        run = self._running[effect.to]
        if isinstance(effect.message, Leave):
            self._end(run)
        else:
            run.wanted = effect.message

    async def _carry_out(
        self, run: "_Run", about: SubscriptionState, effect: "Read | Confirm | Call | Save | Wait"
    ) -> None:
        """Perform one effect.

        A subscription has a permit from Read or Confirm to the end of Call. The document is
        confirmed only with a permit: confirmed before a long wait, it would be out of date.
        """
        if not isinstance(effect, Read | Confirm | Call):
            self._release(run)
        elif not run.has_turn and not run.leaves:
            await self._turns.acquire()
            run.has_turn = True
        # The next owner delivers the backlog.
        if run.leaves and isinstance(effect, Read | Confirm):
            event: events.Event = events.Woken(leaves=True)
        else:
            event = await self._answer(run, about, effect)
        if isinstance(effect, Call):
            self._release(run)
        self.feed(DeliveryEvent(run.link, event))

    async def _answer(
        self, run: "_Run", about: SubscriptionState, effect: "Read | Confirm | Call | Save | Wait"
    ) -> events.Event:
        match effect:
            case Read():
                run.has_heard = False
                try:
                    async with self._reads:
                        return await self._read(about, effect)
                except DocstoreError as error:
                    return events.ReadFailed(str(error))
            case Confirm():
                return await self._confirmed(run, about)
            case Call():
                return await self._called(run, about, effect)
            case Save():
                return await self._saved(run, effect)
            case Wait():
                return await self._woken(run, effect)
            case _:
                assert_never(effect)

    async def _read(
        self, about: SubscriptionState, effect: Read
    ) -> events.BatchReceived | events.HistoryGone:
        began = clock()
        found = await self._reading.read(about, effect.mark, effect.rows)
        # Without a pause, reads that find nothing cost a third of a core.
        if isinstance(found, events.BatchReceived) and not found.rows:
            await asyncio.sleep(RESTS * (clock() - began))
        return found

    async def _document(self, link: str) -> tuple[SubscriptionState, Tag] | None:
        """Return the subscription and its version, None if it is gone or another node's.

        Raises Unavailable.
        """
        answer = await self._submit(Operation(verb="GET", link=link), TIMEOUT_S)
        if answer.status >= 500:
            raise Unavailable(answer.detail)
        row = answer.row
        if not answer.is_success or row is None or answer.owner != self._me:
            return None
        about = read_subscription(row.state)
        return (about, tag_of(row, LINEARIZABLE)) if about is not None else None

    async def _confirmed(self, run: "_Run", about: SubscriptionState) -> events.Event:
        try:
            found = await self._document(run.link)
        except DocstoreError as error:
            return events.ReadFailed(str(error))
        is_over = 0 < about.expires_us <= self._view.past_us()
        is_same = found is not None and found[1] == run.tag and not is_over
        return events.Confirmed(is_same, self._may_read(about.user, about.path))

    async def _called(self, run: "_Run", about: SubscriptionState, effect: Call) -> events.Called:
        body = _body(run.link, effect)
        called = await self._caller.deliver(run.link, about.callback, about.sealed, body)
        self.counters["calls"] += 1
        if 200 <= called.status < 300:
            self.counters["changes"] += effect.lines.count(b"\n")
        else:
            self.counters["failures"] += 1
        return called

    async def _saved(
        self, run: "_Run", effect: Save
    ) -> events.Saved | events.Unsaved | events.Unchanged:
        answer = await self._change(run.link, effect.change, run.tag)
        if answer.status == Unavailable.status and not answer.unknown:
            return events.Unchanged()
        if not answer.is_success or answer.row is None:
            found = read_subscription(answer.row.state) if answer.row is not None else None
            if answer.row is not None and found is not None and found.mark == effect.since:
                # A user paused or resumed it: the accepted changes must still be saved.
                await self._change(run.link, effect.change, tag_of(answer.row, LINEARIZABLE))
            return events.Unsaved()
        run.tag = tag_of(answer.row, LINEARIZABLE)
        if effect.change["kind"] != "AdvanceRequest":
            log.warning("a subscription was paused or ended", subscription=run.link,
                        why=effect.change["why"])  # fmt: skip
        return events.Saved()

    async def _change(self, link: str, change: State, tag: Tag) -> Answer:
        operation = Operation(
            verb="PATCH", link=link, body=json.dump(change), media="handler",
            conditions=Conditions(match=[tag]),
        )  # fmt: skip
        return await self._submit(operation, TIMEOUT_S)

    async def _woken(self, run: "_Run", effect: Wait) -> events.Woken:
        run.bell.clear()
        run.wants_news = effect.for_news
        if not run.leaves and not (run.wants_news and run.has_heard):
            with suppress(TimeoutError):
                async with asyncio.timeout(effect.until - clock()):
                    await run.bell.wait()
        return events.Woken(run.leaves)


@dataclass(slots=True, eq=False)
class _Run:
    """A subscription that is being delivered.

    tag: known version of its document. is_wanted: whether it may still be active when the task
    ends, so that the next search must read it. has_heard: whether there may be changes since the
    last read.
    """

    link: str
    task: "asyncio.Task[None] | None" = None
    about: SubscriptionState | None = None
    is_wanted: bool = False
    tag: Tag = (0, 0)
    has_heard: bool = False
    wants_news: bool = False
    leaves: bool = False
    has_turn: bool = False
    wanted: "Read | Confirm | Call | Save | Wait | None" = None
    bell: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self) -> None:
        self.has_heard = True
        if self.wants_news:
            self.bell.set()

    def leave(self) -> None:
        """Wake the task, so that it saves its mark and ends."""
        self.leaves = True
        self.bell.set()


def _up_from(link: str) -> Iterator[str]:
    while link:
        yield link
        link = link.rpartition("/")[0]


def _body(link: str, call: Call) -> bytes:
    kind = "changes" if call.mark.replay is None else "documents"
    said = {"type": kind, "subscription": link, "next": call.until.position}
    lines = b",".join(call.lines.splitlines())
    return json.dump(said)[:-1] + b',"changes":[' + lines + b"]}"
