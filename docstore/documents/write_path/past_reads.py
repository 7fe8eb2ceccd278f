"""Step 4 of the write path, for reads of the past: older versions come from the owner's disk.

In: a read that a quorum has confirmed. Out: an answer, once the disk holds all rows that were
decided when the read came, or all rows up to the instant that it asks for. If the log loses rows
meanwhile, the read returns to its entry node.

The same instant has the same answer for ever (rule R5). So the owner decides the undecided rows
with a time up to that instant, and gives no such time to later rows; nor does any later owner.
"""

from collections.abc import Callable

from docstore.documents.clients import Inflight, PastRead
from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.term import Term
from docstore.documents.write_path.decide import Decider
from docstore.documents.write_path.in_flight import ProposedUpTo
from docstore.documents.write_path.past import (
    KEPT_VERSIONS_MAX,
    instant_of,
    past_answer,
    past_query,
    trimmed_answer,
    yet_to_come,
)
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.storage.store import Corrupt, History, OfLog, Result


def is_past(at_us: int, log: SlotLog, core: Core) -> bool:
    """Say whether an instant is not later than the owner's clock or the slot's last row."""
    return at_us <= max(core.wall_now_us(), log.updated_us)


class PastReads:
    def __init__(self, core: Core, decider: Decider) -> None:
        self._core = core
        self._outbox = core.outbox
        self._decider = decider
        decider.decided = self._read_past

    def refusal(self, log: SlotLog, operation: Operation) -> Answer | None:
        at_us = instant_of(operation)
        if not at_us or is_past(at_us, log, self._core):
            return None
        return yet_to_come(at_us, self._core.wall_now_us())

    def read(self, log: SlotLog, term: Term, inflight: Inflight, first: int) -> None:
        """Answer from the rows decided by now, or from those up to an instant.

        first: the first version that is shown.
        """
        at_us = instant_of(inflight.operation)
        until = self.until(log, at_us) if at_us else log.decided
        term.clients.past_reads.append(PastRead(inflight, until, first))
        self._read_past(log, term)

    def until(self, log: SlotLog, at_us: int) -> int:  # Tests replace this.
        """Return the last row up to an instant (rule R5)."""
        return log.settled_at(at_us)

    def stored(self, reached: list[ProposedUpTo]) -> None:
        """Count rows that are on this node's disk; serve the reads that waited for them."""
        self._decider.own_disk(reached)
        for log, term, _ in reached:
            if log.term is term and term.clients.past_reads:
                self._read_past(log, term)

    def _read_past(self, log: SlotLog, term: Term) -> None:
        """Read older versions once all rows that they include are decided and on this disk.

        Other replicas may decide a row before it is on this disk: an earlier read would miss it.
        """
        waiting, term.clients.past_reads = term.clients.past_reads, []
        for read in waiting:
            # Do not wait for rows that were retracted meanwhile.
            until = min(read.until, log.end)
            if until <= log.decided and self.holds(log, until):
                self._read_disk(log, read)
            else:
                term.clients.past_reads.append(read)

    def holds(self, log: SlotLog, until: int) -> bool:  # Tests replace this.
        return log.durable >= until

    def _read_disk(self, log: SlotLog, read: PastRead) -> None:
        operation = read.inflight.operation

        def found(rows: list[Row]) -> None:
            answer = past_answer(operation.select, rows, read.first)
            if answer.status == 404 and not rows and log.kept:
                self._look_for_trimmed(log, read)
            else:
                self._tell_past(log, read.inflight, answer)

        self._look_up(log, read.inflight, past_query(log.slot, operation, read.until), found)

    def _look_for_trimmed(self, log: SlotLog, read: PastRead) -> None:
        """Answer 410 for a compacted version, 404 for one that never existed."""
        operation = read.inflight.operation

        def found(rows: list[Row]) -> None:
            answer = trimmed_answer(operation.select, rows, read.first)
            self._tell_past(log, read.inflight, answer)

        everything = History(log.slot, operation.link, None, KEPT_VERSIONS_MAX, read.until)
        self._look_up(log, read.inflight, everything, found)

    def _tell_past(self, log: SlotLog, inflight: Inflight, answer: Answer) -> None:
        epoch = self._decider.epoch_of(log.slot)
        self._core.reply(inflight, answer._replace(owner=self._core.me, epoch=epoch))

    def _look_up(
        self, log: SlotLog, inflight: Inflight, query: OfLog, found: Callable[[list[Row]], None]
    ) -> None:
        """Read old versions from the disk; hand the read back if the log loses rows meanwhile.

        The log loses rows when this replica leaves the slot or a copy replaces the log.
        """
        cuts = log.cuts

        def answered(result: Result) -> None:
            if isinstance(result, Corrupt):
                self._core.corrupt(log)
            if isinstance(result, Corrupt) or log.cuts != cuts:
                self._core.reply(inflight, None)
            else:
                found(result)

        self._outbox.read(query, answered)
