"""Steps 2 and 3 of the write path, on the entry node: find the owner, forward, wait, answer.

The entry node gives an operation its identity, which every attempt keeps. An attempt that may have
reached an owner is *in doubt* until the owner answers. While an attempt is in doubt, the update may
take effect, and the entry node must not report a failure (rule C3):

  answer from the owner                      success, or refused: as it is
  refused, but an earlier attempt in doubt   504, unknown
  the deadline, an attempt in doubt          504, unknown
  the deadline, no doubt                     503, nothing was proposed
  reads                                      never unknown: 503
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from docstore.documents.clients import Inflight
from docstore.documents.core import Core
from docstore.documents.events import BatchRequested, Requested
from docstore.documents.owners import claimant, owner_of
from docstore.machines.effects import Give
from docstore.model.operation import (
    Answer,
    Operation,
    answer_from_wire,
    operation_from_wire,
    undecided,
)
from docstore.wire.messages import Answered, Forward, Forwarded

NO_OWNER = Answer(503, "no-owner", "the owner of the document could not be reached in time: retry")
UNREACHABLE = Answer(503, "owner-unreachable", "this node cannot reach the owner: ask another")
NO_MAJORITY = Answer(
    503, "no-quorum", "this node does not hear a majority of the members: ask another"
)
STOPPING = Answer(503, "not-ready", "this node is stopping: ask another")
NO_ROOM = Answer(503, "too-many-waiting", "too many requests wait at this node: retry later")
UNDECIDED = undecided(
    "the update may have been made: read the document, or retry with the same key"
)
RETRY_S_MAX = 0.2


@dataclass(slots=True)
class Pending:
    """One request of a client, from its arrival to its answer."""

    request: int
    seq: int
    slot: int
    operation: Operation
    deadline: float
    since: float
    attempt: int = 0
    sent_to: str | None = None
    sent_at: float = 0.0
    not_before: float = 0.0
    doubts: int = 0
    """Attempts in doubt, one bit each."""
    proposed: int = 0
    """Attempts that an owner reports as proposed: no later answer ends their doubt."""


Queued = TypeVar("Queued", Pending, Inflight)


def bundles(operations: Iterable[Queued]) -> Iterator[list[Queued]]:
    """Yield the operations in bundles: those in a row on one slot, at one level."""
    bundle: list[Queued] = []
    for each in operations:
        if bundle and not _are_alike(bundle[0], each):
            yield bundle
            bundle = []
        bundle.append(each)
    if bundle:
        yield bundle


def _are_alike(one: Queued, other: Queued) -> bool:
    return one.slot == other.slot and one.operation.level == other.operation.level


class Gateway:
    def __init__(
        self,
        core: Core,
        serve: Callable[[Sequence[Inflight]], None],
        executor: Callable[[int, int], str | None],
    ) -> None:
        """Begin without requests.

        serve: executes a bundle here. executor: the node that executes at levels 1 and 2.
        """
        self.core = core
        self.outbox = core.outbox
        self.serve = serve
        self.executor = executor
        self.pending: OrderedDict[int, Pending] = OrderedDict()  # Yields its first in O(1).
        self._unsent: dict[int, Pending] = {}
        self._outgoing: dict[str, list[Forwarded]] = {}
        self._seq = 0
        self._bytes = 0
        # Lower bounds: no deadline is before `_soonest`, nothing was sent before `_longest`. So
        # most ticks need no scan.
        self._soonest = self._longest = inf

    # Requests

    def request(self, event: Requested) -> None:
        self._take(event.request, (event.operation,), event.deadline)

    def request_batch(self, event: BatchRequested) -> None:
        with self.outbox.reading_together():
            self._take(event.first, event.operations, event.deadline)

    def _take(self, first: int, operations: Sequence[Operation], deadline: float) -> None:
        """Take requests numbered from `first` on, while there is room for them."""
        config, is_cut_off = self.core.config.waiting, self.core.lacks_quorum()
        taken: list[Pending] = []
        for request, operation in enumerate(operations, first):
            if is_cut_off and operation.level == 3:
                self.outbox.emit(Give(request, NO_MAJORITY))
                continue
            size = self._bytes + len(operation.body)
            if len(self.pending) >= config.operations_max or size > config.bytes_max:
                self.outbox.emit(Give(request, NO_ROOM))
                continue
            self._seq += 1
            self._bytes = size
            slot = self.core.slot_of(operation.link)
            pending = Pending(request, self._seq, slot, operation, deadline, self.core.now)
            self.pending[pending.seq] = pending
            taken.append(pending)
        self._soonest = min(self._soonest, deadline)
        for bundle in bundles(taken):
            self._route(bundle)

    def _route(self, bundle: Sequence[Pending]) -> None:
        """Send a bundle to its owner, or keep it until the slot has one (rule E1)."""
        slot, level = bundle[0].slot, bundle[0].operation.level
        has_owner = level == 3
        owner = owner_of(self.core, slot) if has_owner else self.executor(slot, level)
        if owner == self.core.me:
            log = self.core.logs.get(slot)
            if not has_owner or (log is not None and log.term is not None):
                for pending in bundle:
                    self._attempt(pending, owner)
                self.serve([self._inflight(pending) for pending in bundle])
                return
        elif owner is not None and self.core.peers[owner].linked:
            for pending in bundle:
                self._attempt(pending, owner)
            self._outgoing.setdefault(owner, []).extend(map(self._forwarded, bundle))
            return
        self._unsent.update((pending.seq, pending) for pending in bundle)

    def _attempt(self, pending: Pending, owner: str) -> None:
        self._unsent.pop(pending.seq, None)
        pending.attempt += 1
        pending.sent_to, pending.sent_at = owner, self.core.now
        if owner != self.core.me:
            self._longest = min(self._longest, self.core.now)
        if not pending.operation.is_read:
            pending.doubts |= 1 << pending.attempt

    def _inflight(self, pending: Pending) -> Inflight:
        return Inflight(
            self.core.me, self.core.boot, self.identity(pending), self.oldest(),
            pending.attempt, pending.deadline, pending.slot, pending.operation,
        )  # fmt: skip

    def identity(self, pending: Pending) -> int:  # Tests replace this.
        """Return the number under which every attempt of an operation is known (rule C1)."""
        return pending.seq

    def oldest(self) -> int:
        return next(iter(self.pending))

    def _forwarded(self, pending: Pending) -> Forwarded:
        remaining_ms = max(0, int((pending.deadline - self.core.now) * 1000))
        return Forwarded(
            self.core.boot, self.identity(pending), self.oldest(),
            pending.attempt, remaining_ms, pending.operation.packed(),
        )  # fmt: skip

    def flush(self) -> None:
        """Send the forwarded operations of this turn, one message per owner."""
        outgoing, self._outgoing = self._outgoing, {}
        for owner, operations in outgoing.items():
            self.core.counters["forwarded"] += len(operations)
            self.outbox.send(owner, Forward(operations))

    @property
    def has_more(self) -> bool:
        return bool(self._outgoing)

    # Answers

    def received(self, message: Answered) -> None:
        if message.boot != self.core.boot:
            return
        for seq, attempt, fields, proposed in message.answers:
            answer = None if fields is None else answer_from_wire(fields)
            self.answered(seq, attempt, answer, proposed=proposed)

    def answered(self, seq: int, attempt: int, answer: Answer | None, *, proposed: bool) -> None:
        """Handle the owner's answer to one attempt."""
        pending = self.pending.get(seq)
        if pending is None:
            return
        if answer is None:
            self._returned(pending, attempt, proposed=proposed)
            return
        in_doubt = pending.doubts & ~(1 << attempt) | pending.proposed
        if answer.is_success or not in_doubt:
            self._respond(pending, answer)
        elif answer.status == 503:
            self._returned(pending, attempt, proposed=False)
        else:
            self._respond(pending, UNDECIDED)

    def _returned(self, pending: Pending, attempt: int, *, proposed: bool) -> None:
        """Schedule a retry of an operation that an owner handed back, after a random back-off."""
        bit = 1 << attempt
        if proposed:
            pending.proposed |= bit
            pending.doubts |= bit
        elif not pending.proposed & bit:  # Otherwise the owner handed back a late duplicate.
            pending.doubts &= ~bit
        if attempt != pending.attempt:
            return
        backoff_s = self.core.config.leadership.backoff_s
        delay = min(RETRY_S_MAX, backoff_s * 2 ** min(pending.attempt, 5))
        pending.sent_to = None
        pending.not_before = self.core.now + self.core.rng.random() * delay
        self._unsent[pending.seq] = pending

    def _respond(self, pending: Pending, answer: Answer) -> None:
        del self.pending[pending.seq]
        self._unsent.pop(pending.seq, None)
        self._bytes -= len(pending.operation.body)
        self.outbox.emit(Give(pending.request, answer))

    # Time and change

    def reroute(self) -> None:
        """Route again the operations that are with no owner and whose back-off is over."""
        for pending in list(self._unsent.values()):
            if pending.not_before <= self.core.now:
                self._route([pending])

    def link_lost(self, peer: str) -> None:
        """Mark the operations sent to a lost peer as unsent; their attempts stay in doubt."""
        for pending in self.pending.values():
            if pending.sent_to == peer:
                pending.sent_to = None
                self._unsent[pending.seq] = pending
        self._outgoing.pop(peer, None)

    def expire(self, tick_s: float) -> None:
        """Answer operations past their deadline; without a majority, also all others of level 3."""
        core = self.core
        if core.lacks_quorum():
            owned = [each for each in self.pending.values() if each.operation.level == 3]
            self._give_up(owned, NO_MAJORITY)
        if core.now >= core.draining_since + core.config.waiting.drain_patience_s:
            self._give_up(list(self.pending.values()), STOPPING)
        over = core.now + tick_s
        if self._soonest <= over:
            pendings = self.pending.values()
            self._give_up([each for each in pendings if each.deadline <= over], NO_OWNER)
            self._soonest = min((each.deadline for each in pendings), default=inf)
        self._fail_fast()
        if self._longest < core.now - core.config.waiting.retry_s:
            self._ask_again(core.now - core.config.waiting.retry_s)

    def _ask_again(self, late: float) -> None:
        """Mark operations that were sent to another node before `late` as unsent."""
        self._longest = inf
        for pending in self.pending.values():
            if pending.sent_to in (None, self.core.me):
                continue
            if pending.sent_at < late:
                pending.sent_to = None
                self._unsent[pending.seq] = pending
            else:
                self._longest = min(self._longest, pending.sent_at)

    def _fail_fast(self) -> None:
        """Refuse an operation before its deadline if waiting at this node cannot help.

        If other nodes hear the owner and this node does not, the group does not replace the owner,
        so the client must ask another node. An operation with an attempt in doubt keeps waiting.
        """
        core, config = self.core, self.core.config
        for pending in [each for each in self._unsent.values() if not each.doubts]:
            waited_s = core.now - pending.since
            if waited_s > config.waiting.owner_patience_s:
                self._respond(pending, NO_OWNER)
            elif waited_s > config.waiting.link_patience_s and self._is_cut_off(pending):
                self._respond(pending, UNREACHABLE)

    def _is_cut_off(self, pending: Pending) -> bool:
        if pending.operation.level < 3:
            return False
        owner = claimant(self.core, pending.slot)
        return owner not in (None, self.core.me) and not self.core.peers[str(owner)].linked

    def _give_up(self, pendings: Iterable[Pending], refusal: Answer) -> None:
        for pending in pendings:
            self._respond(pending, self.verdict(pending, refusal))

    def verdict(self, pending: Pending, refusal: Answer) -> Answer:  # Tests replace this.
        """Return the answer to an operation that no owner has answered in time (rule C3)."""
        return UNDECIDED if pending.doubts else refusal

    def restarted(self) -> None:
        """Mark this node's own operations as unsent, because its slots were reset."""
        self.link_lost(self.core.me)


def arrived(core: Core, entry: str, forwarded: Forwarded) -> Inflight:
    """Unpack an operation that its entry node has forwarded to this node."""
    boot, seq, oldest, attempt, remaining_ms, fields = forwarded
    operation, deadline = operation_from_wire(fields), core.now + remaining_ms / 1000
    slot = core.slot_of(operation.link)
    return Inflight(entry, boot, seq, oldest, attempt, deadline, slot, operation)


def answered(items: Iterable[tuple[Inflight, Answer | None, bool]]) -> Iterator[Answered]:
    """Yield the messages that answer one entry node, one for each of its boots."""
    by_boot: dict[int, list[tuple[int, int, Answer | None, bool]]] = {}
    for inflight, answer, proposed in items:
        item = (inflight.seq, inflight.attempt, answer, proposed)
        by_boot.setdefault(inflight.boot, []).append(item)
    for boot, answers in by_boot.items():
        yield Answered(boot, answers)
