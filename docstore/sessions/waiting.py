"""Calls that wait for a version of a document.

A waiter is registered first (rule W1), then the document is read, and then every decided version is
offered to it. So it misses no version. Each waiter decides which version it wants: in a queue, only
the candidate whose turn has come is answered. When the term is over, all waiters are sent to the
next owner, even if that is this node again: under a new term, it does not know the document until
it has read it.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from docstore.sessions.calling import Served
from docstore.sessions.confirming import Confirming
from docstore.sessions.core import Core
from docstore.sessions.owned import Known, OwnedDocuments

Wanted = Callable[[Known | None], Any]
"""Function that returns the answer (plain values) for a decided version, None to go on waiting.

Called with None if there is no document.
"""
Late = Callable[[Known | None], Any]
"""Function that returns the answer at the end of the wait."""


@dataclass(slots=True, eq=False)
class WaitingCall:
    """A call that waits for a version of a document, under the term `epoch`."""

    served: Served
    epoch: int
    wanted: Wanted
    late: Late
    is_over: bool = False


class Waiting:
    """Keeps the calls that wait at this node."""

    def __init__(self, core: Core, owned: OwnedDocuments, confirming: Confirming) -> None:
        self._core = core
        self._owned = owned
        self._confirming = confirming
        self._waiters: dict[str, dict[WaitingCall, None]] = {}
        """link -> waiting calls, in order of arrival."""
        self._ends: list[tuple[float, int, WaitingCall]] = []
        self._order = count()
        self.size = 0
        self.calls = {"wait": self._wait}

    def wait(
        self, served: Served, wait_s: float, wanted: Wanted, late: Late
    ) -> None:  # Tests replace this.
        """Answer once `wanted` returns an answer, or after `wait_s` as `late` says, with 202."""
        if self.size >= self._core.config.waiting_max:
            served.refuse(
                503,
                "too-many-waiting",
                "too many requests wait at the owner of the document: retry later",
            )
            return
        waiter = WaitingCall(served, self._core.view.own_epoch(served.link), wanted, late)
        self._waiters.setdefault(served.link, {})[waiter] = None
        self.size += 1
        heapq.heappush(self._ends, (self._core.now + wait_s, next(self._order), waiter))
        self._confirming.confirm(
            served.link, lambda known: self._look(waiter, known), lambda: self._lose(waiter)
        )

    def noted(self, link: str) -> None:
        """Offer a new version of a document to its waiters, or send them to its new owner."""
        waiting = list(self._waiters.get(link, ()))
        if not waiting:
            return
        known = self._owned.at(link)
        epoch = self._core.view.own_epoch(link)
        for waiter in waiting:
            if waiter.epoch != epoch:
                self._lose(waiter)
            elif known is None or known.is_sure:
                self._look(waiter, known)

    def tick(self) -> None:
        """Answer the calls whose wait is over."""
        while self._ends and self._ends[0][0] <= self._core.now:
            waiter = heapq.heappop(self._ends)[2]
            if not waiter.is_over:
                self._end(waiter)
                waiter.served.reply(waiter.late(self._owned.at(waiter.served.link)), status=202)

    def _look(self, waiter: WaitingCall, known: Known | None) -> None:
        result = None if waiter.is_over else waiter.wanted(known)
        if result is not None:
            self._end(waiter)
            waiter.served.reply(result)

    def _lose(self, waiter: WaitingCall) -> None:
        if not waiter.is_over:
            self._end(waiter)
            waiter.served.elsewhere()

    def _end(self, waiter: WaitingCall) -> None:
        waiter.is_over = True
        self.size -= 1
        waiting = self._waiters[waiter.served.link]
        del waiting[waiter]
        if not waiting:
            del self._waiters[waiter.served.link]

    def _wait(self, served: Served) -> None:
        """Keep a client waiting until there is another version than the one that it has read.

        argument: (documentEpoch, documentVersion, how long to wait in ms). The result is True once
        there is another version or no document, False if the wait is over.
        """
        epoch, version, wait_ms = served.argument
        read = (epoch, version)

        def is_other(known: Known | None) -> bool | None:
            return True if known is None or known.tag != read else None

        self.wait(served, wait_ms / 1000, is_other, lambda known: False)
