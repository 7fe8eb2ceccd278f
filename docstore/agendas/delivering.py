"""Delivery of effects: of each document the next one, repeated until its receiver has it.

EF3  one delivery of a document is under way at a time, and the next effect follows the last
EF4  a delivery is repeated, under the same identity, until its outcome is known
EF5  an effect leaves the agenda only after its delivery
EF6  an effect that its receiver refuses for good is reported, and the next effect follows
"""

import heapq
from collections import deque
from functools import partial
from math import inf

from docstore.agendas.effects import GiveUp, Post
from docstore.agendas.known import Core, Known, KnownDocuments
from docstore.model.agenda import SETTLE, WEBHOOK, Effect
from docstore.model.fences import OF_THE_STORE
from docstore.model.operation import Answer, Operation
from docstore.model.service import METHODS

PASSING = (408, 425, 429)
"""Statuses below 500 after which a later attempt may succeed."""


class Delivering:
    """Delivers the effects of the documents of this node."""

    def __init__(self, core: Core, documents: KnownDocuments) -> None:
        self._core = core
        self._documents = documents
        self._ready: deque[tuple[str, int]] = deque()
        """(link, epoch of the term) of documents whose delivery waits for its turn."""
        self._later: list[tuple[float, str, int]] = []
        """Heap of (time, link, epoch) of documents that have something to do then."""
        self._posts: dict[int, tuple[Known, Effect]] = {}
        self._under_way = 0

    def changed(self, known: Known) -> None:
        """Begin to deliver the effects of a document, unless that is under way."""
        if not known.is_delivering and not known.failed_deliveries and _next(known) is not None:
            known.is_delivering = True
            self._ready.append((known.link, known.epoch))
            self._go_on()

    def tick(self) -> None:
        """Go on with the documents whose pause is over."""
        while self._later and self._later[0][0] <= self._core.now:
            _, link, epoch = heapq.heappop(self._later)
            known = self._documents.at(link, epoch)
            if known is None:
                continue
            if self._core.now >= known.retries_at:
                known.retries_at, known.is_delivering = inf, True
                self._ready.append((link, epoch))
            if self._core.now >= known.settles_at:
                self._settle(known)
        self._go_on()

    def _go_on(self) -> None:
        while self._ready and self._under_way < self._core.times.delivering_max:
            known = self._documents.at(*self._ready.popleft())
            if known is not None:
                self._deliver(known)

    def _deliver(self, known: Known) -> None:
        effect = _next(known)
        if effect is None:
            known.is_delivering = False
            return
        self._under_way += 1
        if effect.kind in METHODS:
            operation = operation_of(known.link, effect)
            self._core.ask(operation, partial(self._answered, known, effect))
        else:
            token = self._core.next_token()
            self._posts[token] = (known, effect)
            self._core.emit(Post(token, known.link, effect))

    def _answered(self, known: Known, effect: Effect, answer: Answer) -> None:
        self._ended(known, effect, answer.status, answer.code)

    def posted(self, token: int, status: int, why: str) -> None:
        """Take the outcome of a record or a webhook."""
        self._ended(*self._posts.pop(token), status, why)

    def _ended(self, delivering: Known, effect: Effect, status: int, why: str) -> None:
        self._under_way -= 1
        known = self._documents.at(delivering.link, delivering.epoch)
        if known is delivering:
            if 200 <= status < 300:
                self._core.counters["effects_delivered"] += 1
                self._over(known, effect)
            elif self._is_refused(known, effect, status, why):
                self._over(known, effect)
            else:
                self._again(known)
        self._go_on()

    def _is_refused(self, known: Known, effect: Effect, status: int, why: str) -> bool:
        """Say whether a receiver never takes an effect, and report it (rule EF6)."""
        is_final = status == 410 if effect.kind == WEBHOOK else 400 <= status < 500
        if not is_final or status in PASSING:
            return False
        self._core.counters["effects_refused"] += 1
        self._core.emit(GiveUp(known.link, effect, status, why))
        return True

    def _over(self, known: Known, effect: Effect) -> None:
        """Go on to the next effect of a document, and have this one removed."""
        core = self._core
        known.delivered, known.failed_deliveries = effect.number, 0
        known.settles_at = min(known.settles_at, core.now + core.times.settle_s)
        heapq.heappush(self._later, (known.settles_at, known.link, known.epoch))
        waiting = sum(each.number <= known.delivered for each in known.agenda.effects)
        if waiting >= core.times.settle_at:
            self._settle(known)
        self._ready.append((known.link, known.epoch))

    def _again(self, known: Known) -> None:  # Tests replace this.
        """Deliver the same effect again after a pause (rule EF4)."""
        known.is_delivering = False
        known.failed_deliveries += 1
        self._core.counters["effects_failed"] += 1
        known.retries_at = self._core.now + self._core.pause_after(known.failed_deliveries)
        heapq.heappush(self._later, (known.retries_at, known.link, known.epoch))

    # The end of effects

    def _settle(self, known: Known) -> None:
        """Remove the delivered effects of a document from its agenda (rule EF5)."""
        if known.is_settling:
            return
        known.is_settling, known.settles_at = True, inf
        operation = Operation(
            verb="PATCH",
            link=known.link,
            body=b"%d" % self.until(known),
            media=SETTLE,
            only_epoch=known.epoch,
            fence=OF_THE_STORE,
        )
        self._core.ask(operation, partial(self._settled, known))

    def until(self, known: Known) -> int:  # Tests replace this.
        """Return the number of the last effect that is over."""
        return known.delivered

    def _settled(self, settling: Known, answer: Answer) -> None:
        known = self._documents.at(settling.link, settling.epoch)
        if known is not settling:
            return
        known.is_settling = False
        if answer.row is not None:
            self._documents.learn(answer.row)
        if any(each.number <= known.delivered for each in known.agenda.effects):
            core = self._core
            known.settles_at = min(known.settles_at, core.now + core.times.settle_s)
            heapq.heappush(self._later, (known.settles_at, known.link, known.epoch))


def _next(known: Known) -> Effect | None:
    """Return the first effect that is not delivered (rule EF3)."""
    return next((each for each in known.agenda.effects if each.number > known.delivered), None)


def operation_of(link: str, effect: Effect) -> Operation:
    """Return the update of an effect, under its identity."""
    return Operation(
        verb=effect.kind,  # type: ignore[arg-type]
        link=effect.target,
        body=b"" if effect.kind == "DELETE" else effect.body,
        media="handler" if effect.kind == "PATCH" else "",
        creates=True,
        key=identity_of(link, effect),
    )


def identity_of(link: str, effect: Effect) -> str:  # Tests replace this.
    """Return the identity under which an effect takes effect once (rule EF4)."""
    return f"{effect.number} of {link}"
