"""Requests of producers that wait: to be judged, for the leader's disk, or to be committed.

The name is Kafka's. A request is answered at its deadline at the latest, and the bytes that wait
are bounded.
"""

import heapq

from docstore.streams.core import Core
from docstore.streams.deadlines import Deadlines
from docstore.streams.leading import Leading, PendingAppend
from docstore.wire.streams_messages import Produced


class Purgatory:
    """Keeps the requests that the leaders of this node have not answered."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._deadlines = Deadlines()
        self._waiting: dict[int, PendingAppend] = {}
        self._waiting_bytes = 0

    def admit(self, pending: PendingAppend) -> bool:
        """Register a request, or reject it at once if too many or too large ones wait."""
        core, bounds = self._core, self._core.config.memory
        if (
            len(self._waiting) >= bounds.waiting_max
            or self._waiting_bytes + len(pending.body) > bounds.waiting_bytes_max
        ):
            why = produced(pending, "too-many-waiting", "this node is overloaded")
            core.send(pending.entry, why)
            return False
        pending.number = core.next_token()
        self._waiting[pending.number] = pending
        self._waiting_bytes += len(pending.body)
        self._deadlines.add(pending.deadline)
        return True

    def wait(self, leading: Leading, pending: PendingAppend) -> None:  # Tests replace this.
        """Keep a request until its records are stored or committed, as its `acks` asks.

        The caller completes it if they are already.
        """
        queue = leading.storing if pending.acks == "leader" else leading.committing
        heapq.heappush(queue, (pending.end, self._core.next_token(), pending))

    def complete(self, leading: Leading) -> None:
        """Answer the requests whose records are now stored or committed."""
        log = leading.log
        for queue, bound in ((leading.committing, log.high), (leading.storing, log.durable)):
            while queue and queue[0][0] <= bound:
                pending = heapq.heappop(queue)[2]
                self.answer(pending, leading, "repeated" if pending.repeated else "")

    def turn_away(self, leading: Leading) -> None:
        """Answer all requests, as this node no longer leads, with whether they may be in a log."""
        for pending in (*leading.deferred, *leading.gathered):
            self.answer(pending, leading, "not-leader")
        for _, _, pending in (*leading.committing, *leading.storing):
            self.answer(pending, leading, "not-leader", appended=True)

    def tick(self) -> None:
        """Answer the requests whose deadline has passed."""
        for pending in self._deadlines.overdue(self._waiting.values(), self._core.now):
            is_in_log = pending.base >= 0
            code = "undecided" if is_in_log else "no-leader"
            detail = "not committed by the deadline" if is_in_log else "the leader was not sure"
            self.answer(pending, None, code, detail=detail, appended=is_in_log)

    def answer(
        self,
        pending: PendingAppend,
        leading: Leading | None,
        code: str,
        *,
        detail: str = "",
        appended: bool = False,
    ) -> None:
        """Answer a request once.

        code: "" or "repeated" for success. leading: the partition whose offsets are in the answer;
        None for an answer without.
        """
        if pending.is_answered:
            return
        pending.is_answered = True
        del self._waiting[pending.number]
        self._waiting_bytes -= len(pending.body)
        pending.body = b""
        core, ok = self._core, code in ("", "repeated")
        if leading is None:
            core.send(pending.entry, produced(pending, code, detail, appended=appended))
            return
        log = leading.log
        core.send(
            pending.entry,
            Produced(
                pending.id, code, detail, pending.base if ok else -1, pending.records, log.end,
                leading.shown_high, log.epoch_of(pending.base)[0] if ok else 0, "", ok or appended,
            ),
        )  # fmt: skip


def produced(
    pending: PendingAppend, code: str, detail: str, leader: str = "", *, appended: bool = False
) -> Produced:
    """Return an answer without offsets.

    leader: node that may lead; "" if unknown.
    """
    return Produced(pending.id, code, detail, -1, pending.records, 0, 0, 0, leader, appended)
