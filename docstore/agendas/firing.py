"""Timers: one heap for all documents of a node, and one update for each due time.

The update names the timer with its due time, and the owner compares them with the document: so it
takes effect once, however often it is repeated (rule TI1). It also names the term, so that the
firing of an old owner cannot take effect (rule TI2). It leaves no sooner than the timer is due by
the owner's clock (rule TI3), and is repeated until its outcome is known (rule TI4).
"""

import heapq
from functools import partial

from docstore.agendas.known import Core, Known, KnownDocuments
from docstore.model import json
from docstore.model.agenda import FIRE, Timer
from docstore.model.operation import Answer, Operation


class Firing:
    """Fires the timers of the documents of this node."""

    def __init__(self, core: Core, documents: KnownDocuments) -> None:
        self._core = core
        self._documents = documents
        self._heap: list[tuple[int, str, int, Timer]] = []
        """(when to fire in us since 1970, link, epoch of the term, timer)."""
        self._under_way = 0

    def changed(self, known: Known) -> None:
        """Plan the timers of a document that are new."""
        timers = known.agenda.timers
        for timer in timers:
            if known.planned.get(timer.name) != timer.due_us:
                known.planned[timer.name] = timer.due_us
                self._plan(timer.due_us, known, timer)
        if len(known.planned) > len(timers):
            names = {each.name for each in timers}
            known.planned = {name: at for name, at in known.planned.items() if name in names}

    def _plan(self, at_us: int, known: Known, timer: Timer) -> None:
        heapq.heappush(self._heap, (at_us, known.link, known.epoch, timer))

    def go_on(self) -> None:
        """Fire the timers that are due, up to the bound of firings in flight."""
        if not self._heap:
            return
        now_us = self._core.view.wall_now_us()
        while self._heap and self._heap[0][0] <= now_us:
            if self._under_way >= self._core.times.firing_max:
                return
            _, link, epoch, timer = heapq.heappop(self._heap)
            known = self._documents.at(link, epoch)
            if known is not None and known.planned.get(timer.name) == timer.due_us:
                self._fire(known, timer)

    def _fire(self, known: Known, timer: Timer) -> None:
        self._under_way += 1
        self._core.counters["timers_fired"] += 1
        operation = Operation(
            verb="PATCH",
            link=known.link,
            body=json.dump(tuple(timer)),
            media=FIRE,
            only_epoch=known.epoch,
        )
        self._core.ask(operation, partial(self._fired, known, timer))

    def _fired(self, fired: Known, timer: Timer, answer: Answer) -> None:
        self._under_way -= 1
        known = self._documents.at(fired.link, fired.epoch)
        if known is fired:
            self._end(known, timer, answer)
        self.go_on()

    def _end(self, known: Known, timer: Timer, answer: Answer) -> None:
        if answer.row is not None:
            self._documents.learn(answer.row)
        if answer.is_success:
            known.failed_firings = 0
        elif answer.status == 404:
            self._documents.forget(known)
        elif known.planned.get(timer.name) == timer.due_us and timer in known.agenda.timers:
            self._later(known, timer)

    def _later(self, known: Known, timer: Timer) -> None:  # Tests replace this.
        """Fire a timer again after a pause (rule TI4)."""
        known.failed_firings += 1
        self._core.counters["timers_failed"] += 1
        pause_s = self._core.pause_after(known.failed_firings)
        self._plan(self._core.view.wall_now_us() + round(pause_s * 1e6), known, timer)
