"""Sweeping: documents attached to a lease that has ended are deleted or released (rule S5).

The end of a lease is one row, on which all readers agree. The documents attached to the lease lie
in other slots, and are changed afterwards in several passes: a write that was under way when the
lease ended may arrive until its deadline. Its link is on the lease's list, since a document is
attached before it is written. After the last pass the lease is deleted. A new owner begins the
passes again.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from docstore.machines.updates import tag_of
from docstore.model import json
from docstore.model.document import LEASE, Row
from docstore.model.fences import OF_THE_STORE
from docstore.model.operation import Answer, Conditions, Operation
from docstore.services.leases import TURNS, Behavior, LeaseState
from docstore.services.lock_queue import gone_request
from docstore.sessions.core import Core
from docstore.sessions.owned import Known, OwnedDocuments

AGAIN_S = 0.5
"""Pause between two attempts on a document whose owner does not answer."""


@dataclass(slots=True, eq=False)
class Swept:
    """State of the sweep of a lease that has ended, under one term."""

    known: Known
    began_at: float
    passes: int = 0
    """Number of passes begun."""
    left: int = 0
    """Number of documents of this pass that are not done."""


class Sweeping:
    """Sweeps the leases of this node that have ended."""

    def __init__(self, core: Core, owned: OwnedDocuments) -> None:
        self._core = core
        self._owned = owned
        self._swept: dict[str, Swept] = {}
        self._timers: list[tuple[float, int, Swept]] = []
        self._order = count()
        self._todo: deque[tuple[Swept, str]] = deque()
        """(sweep, link) for each document to be read."""
        self._later: list[tuple[float, int, Swept, str]] = []
        self._looking = 0

    def begin(self, known: Known) -> None:
        """Begin the passes over the documents that are attached to a lease."""
        if known.link not in self._swept:
            swept = self._swept[known.link] = Swept(known, self._core.now)
            self._plan(swept)

    def forget(self, link: str) -> None:
        """Stop sweeping a lease that was deleted or that another node owns now."""
        self._swept.pop(link, None)

    def tick(self) -> None:
        """Begin the passes that are due, and go on with those under way."""
        now = self._core.now
        while self._timers and self._timers[0][0] <= now:
            self._pass(heapq.heappop(self._timers)[2])
        while self._later and self._later[0][0] <= now:
            _, _, swept, link = heapq.heappop(self._later)
            self._todo.append((swept, link))
        self._work()

    def _is_current(self, swept: Swept) -> bool:
        return self._swept.get(swept.known.link) is swept

    def _plan(self, swept: Swept) -> None:
        at = swept.began_at + self._core.config.passes_s[swept.passes]
        heapq.heappush(self._timers, (at, next(self._order), swept))

    def _pass(self, swept: Swept) -> None:
        if not self._is_current(swept):
            return
        swept.passes += 1
        self._core.counters["passes"] += 1
        attached: Sequence[str] = swept.known.found.attached
        swept.left = len(attached)
        self._todo.extend((swept, link) for link in attached)
        if not attached:
            self._passed(swept)

    def _passed(self, swept: Swept) -> None:
        """Plan the next pass; after the last one, when no write can arrive, delete the lease."""
        if swept.passes < len(self._core.config.passes_s):
            self._plan(swept)
            return
        known = swept.known
        conditions = Conditions(match=[list(known.tag)])
        operation = Operation(
            verb="DELETE", link=known.link, conditions=conditions, only_epoch=known.epoch
        )
        self._core.ask(operation, lambda answer: self._deleted(swept, answer))

    def _deleted(self, swept: Swept, answer: Answer) -> None:
        if answer.status >= 500 and self._is_current(swept):
            swept.passes -= 1  # Repeats the last pass.
            heapq.heappush(self._timers, (self._core.now + AGAIN_S, next(self._order), swept))
        elif answer.row is not None:
            self._owned.learn(answer.row)

    # A document of a pass

    def _work(self) -> None:
        while self._todo and self._looking < self._core.config.endings_max:
            swept, link = self._todo.popleft()
            if self._is_current(swept):
                self._looking += 1
                self._look(swept, link)

    def _look(self, swept: Swept, link: str) -> None:
        if link.rpartition("/")[0] in TURNS:
            gone = gone_request(link, swept.known.link)
            self._core.ask(gone, lambda answer: self._changed(swept, link, answer))
        else:
            self._core.ask(
                Operation(verb="GET", link=link), lambda answer: self._read(swept, link, answer)
            )

    def _read(self, swept: Swept, link: str, answer: Answer) -> None:
        row = answer.row
        if answer.status == 404:
            self._done(swept)
        elif not answer.is_success or row is None:
            self._try_later(swept, link)
        elif json.load(row.state).get(LEASE) != swept.known.link:
            self._done(swept)  # Another lease, or none, has the document now.
        else:
            self._core.counters["swept"] += 1
            lease: LeaseState = swept.known.found
            operation = _removal(link, row, lease.behavior)
            self._core.ask(operation, lambda told: self._changed(swept, link, told))

    def _changed(self, swept: Swept, link: str, answer: Answer) -> None:
        if answer.status == 412 or answer.status >= 500:
            # The outcome may be unknown, so the document is read again.
            self._try_later(swept, link)
            return
        if not answer.is_success and answer.status != 404:
            self._core.counters["sweeps_refused"] += 1
        self._done(swept)

    def _try_later(self, swept: Swept, link: str) -> None:
        self._looking -= 1
        heapq.heappush(self._later, (self._core.now + AGAIN_S, next(self._order), swept, link))

    def _done(self, swept: Swept) -> None:
        self._looking -= 1
        swept.left -= 1
        if not swept.left and self._is_current(swept):
            self._passed(swept)
        self._work()


def _removal(link: str, row: Row, behavior: Behavior) -> Operation:
    """Return the operation that detaches the lease from a document, or deletes the document."""
    conditions = Conditions(match=[list(tag_of(row))])
    if behavior is Behavior.DELETE:
        return Operation(verb="DELETE", link=link, conditions=conditions, fence=OF_THE_STORE)
    body = json.dump({LEASE: None})
    return Operation(
        verb="PATCH", link=link, body=body, media="merge", conditions=conditions, fence=OF_THE_STORE
    )
