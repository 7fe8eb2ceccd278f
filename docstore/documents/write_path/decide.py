"""Step 7 of the write path: the owner counts the replicas that have a row on disk, and decides it.

In: Accepted and AcceptedAll from replicas, and the own disk's reports. Out: answers to clients, in
the order of the log.

A row is decided once a quorum of the configured replica set has adopted this ballot and holds the
log up to the row, durably (rule SL6). A decided row stays decided (invariant I5). A row that is not
decided in time has not failed: the next owner may still decide it.

Source: quorum intersection as in Viewstamped Replication Revisited (Liskov and Cowling, 2012,
section 4.1), with our ballot in the place of its view-number.
"""

from collections.abc import Callable, Iterable

from docstore.documents.clients import Inflight
from docstore.documents.core import Core
from docstore.documents.depose import depose
from docstore.documents.log import SlotLog
from docstore.documents.parts import span_of
from docstore.documents.term import Phase, Term
from docstore.documents.write_path.atomic_batch import answer_of
from docstore.documents.write_path.in_flight import InFlightProposals, ProposedUpTo
from docstore.model.document import Row
from docstore.model.identity import has_created
from docstore.model.operation import Answer, undecided
from docstore.ownership import quorum
from docstore.storage.store import Corrupt, Result, Rows
from docstore.wire.messages import Accepted, AcceptedAll, Decide, Refused

LET_GO = undecided(
    "the update was made earlier, and its version has been compacted since: read the document"
)


class Decider:
    def __init__(self, core: Core, opened: Callable[[SlotLog, Term], None]) -> None:
        self.core = core
        self.outbox = core.outbox
        self.offered = InFlightProposals(core)
        self.opened = opened
        self.decided: Callable[[SlotLog, Term], None] | None = None
        """Callback for a slot whose reads of the past may wait for rows to be decided."""

    def acknowledged(self, sender: str, message: Accepted | AcceptedAll) -> list[SlotLog]:
        """Count the durable rows of a replica; return the logs of which it lacks more rows."""
        reached = (
            self._taken(sender, message)
            if isinstance(message, AcceptedAll)
            else self._listed(message)
        )
        return [
            log
            for log, term, end in reached
            if log.term is term and self.acknowledge(log, term, sender, end) < log.end
        ]

    def _listed(self, message: Accepted) -> Iterable[ProposedUpTo]:
        for slot, epoch, end in message.slots:
            log = self.core.logs.get(slot)
            if log and log.term and log.term.ballot == (epoch, self.core.me):
                yield log, log.term, end

    def _taken(self, sender: str, message: AcceptedAll) -> Iterable[ProposedUpTo]:
        if not self.is_of_this_start(message.boot):
            return ()
        self.core.counters["took"] += 1
        return self.offered.taken(sender, message.number)

    def is_of_this_start(self, boot: int) -> bool:  # Tests replace this.
        """Say whether an answer is for a message of this start, as starts reuse numbers (SL8)."""
        return boot == self.core.boot

    def acknowledge(self, log: SlotLog, term: Term, sender: str, end: int) -> int:
        """Note a follower's durable end; return up to where rows were sent to it."""
        follower = term.followers.get(sender)
        if follower is None or term.phase is Phase.PREPARING:
            return log.end
        follower.acked = max(follower.acked, end)
        follower.sent = max(follower.sent, end)
        follower.copied = None
        if term.phase is Phase.RECOVERING:
            term.recovery.deadline = self.core.now + self.core.config.leadership.attempt_timeout_s
        if end >= term.base:  # So the sender has adopted the ballot.
            follower.adopted = True
            if sender in log.replicas:
                self._count(log, term, sender, end)
        return follower.sent

    def own_disk(self, reached: Iterable[ProposedUpTo]) -> None:
        for log, term, end in reached:
            if log.term is term:
                self._count(log, term, self.core.me, end)

    def _count(self, log: SlotLog, term: Term, replica: str, end: int) -> None:
        """Note the durable end of a replica, and decide if that can change anything.

        Once a row is decided, another copy matters only to answers that wait for more copies.
        """
        if end >= term.ends.get(replica, 0):
            term.ends[replica] = end
        is_settled = term.recovered and term.phase is Phase.OPEN and not term.clients.lacking
        if end > log.decided or not is_settled:
            self.advance(log, term)

    def advance(self, log: SlotLog, term: Term) -> None:
        """Open the term if possible, and decide up to where a quorum has the log."""
        reached = quorum.decided_end(term.ends, log.voting)
        if not term.recovered and reached >= term.base:
            term.recovered = True
        if term.phase is Phase.RECOVERING:
            if not self.may_open(log, term):
                return
            self._open(log, term)
        if reached > log.decided:
            self._decide(log, term, reached)
        elif term.clients.lacking:
            self._answer_lacking(log, term)
        if term.clients.refusals:
            self.give_refusals(log, term)

    def may_open(self, log: SlotLog, term: Term) -> bool:  # Tests replace this.
        """Say whether a quorum, this node included, durably holds the log up to the base (T3)."""
        if term.ends.get(self.core.me, -1) < term.base:
            return False
        return term.recovered or quorum.is_quorum(term.recovery.identical, log.voting)

    def _open(self, log: SlotLog, term: Term) -> None:
        term.phase = Phase.OPEN
        self.core.logs.changes += 1
        term.progress_at = self.core.now
        if term.base > log.decided:
            self.outbox.publish(log, log.decided, term.base)
            log.decided = term.base
            log.evict_durable()
        self.core.logs.newly_decided.add(log.slot)
        self.opened(log, term)

    def _decide(self, log: SlotLog, term: Term, reached: int) -> None:
        before, log.decided = log.decided, reached
        self.outbox.publish(log, before, reached)
        cache, pending = term.cache, log.pending
        for n in range(before + 1, reached + 1):
            row = pending[n]
            cached = cache.get(row.link)
            if cached is not None:
                cached.decided = row
        updates = term.clients.updates
        while updates and updates[0][0] <= reached:
            self._answer_update(log, term, *updates.popleft())
        if term.clients.duplicates:
            self._answer_duplicates(log, term)
        term.progress_at = self.core.now
        self.core.logs.newly_decided.add(log.slot)
        self.core.counters["decided"] += reached - before
        log.evict_durable()
        if term.clients.past_reads and self.decided is not None:
            self.decided(log, term)

    def _answer_update(self, log: SlotLog, term: Term, n: int, inflight: Inflight) -> None:
        copies, wanted = term.copies(n), inflight.operation.replicas
        # More copies than a quorum may be asked for, never fewer (rule Q3).
        if wanted and copies < (len(log.replicas) if wanted < 0 else wanted):
            term.clients.lacking.append((n, inflight))
            return
        row = log.pending.get(n)
        if row is None or (inflight.operation.verb == "BATCH" and not inflight.made):
            self._answer_from_disk(log, term, n, inflight)
            return
        self.core.reply(inflight, self._success(row, inflight, copies, term.ballot[0]))

    def _success(self, row: Row, inflight: Inflight, copies: int, epoch: int) -> Answer:
        if inflight.made:
            return answer_of(inflight.made, copies, self.core.me, epoch)
        created = has_created(row) if inflight.created is None else inflight.created
        status = 201 if created else 200
        return Answer(status, row=row, replicas=copies, owner=self.core.me, epoch=epoch)

    def epoch_of(self, slot: int) -> int:
        """Return the epoch of this node's term over the slot; 0 if the term has ended."""
        log = self.core.logs.get(slot)
        return log.term.ballot[0] if log and log.term else 0

    def _answer_from_disk(self, log: SlotLog, term: Term, n: int, inflight: Inflight) -> None:
        def answer(result: Result) -> None:
            if isinstance(result, Corrupt) or not result:
                self._answer_without(log, n, result, inflight)
                return
            if inflight.operation.verb == "BATCH" and not inflight.made:
                self._answer_batch_from_disk(log, term, result[0], inflight)
                return
            copies, epoch = term.copies(n), self.epoch_of(log.slot)
            self.core.reply(inflight, self._success(result[0], inflight, copies, epoch))

        self.outbox.read(Rows(log.slot, n, n), answer)

    def _answer_batch_from_disk(
        self, log: SlotLog, term: Term, row: Row, inflight: Inflight
    ) -> None:
        """Answer a retry of a batch, of which `row` is one row."""
        first, last = span_of(row)

        def answer(result: Result) -> None:
            if isinstance(result, Corrupt) or len(result) <= last - first:
                self._answer_without(log, first, result, inflight)
                return
            copies, epoch = term.copies(last), self.epoch_of(log.slot)
            self.core.reply(inflight, answer_of(result, copies, self.core.me, epoch))

        self.outbox.read(Rows(log.slot, first, last), answer)

    def _answer_without(self, log: SlotLog, n: int, found: Result, inflight: Inflight) -> None:
        """Answer a retry whose row n is unreadable now, or compacted for ever."""
        is_gone = n <= log.kept and not isinstance(found, Corrupt)
        self.core.reply(inflight, LET_GO if is_gone else None, proposed=True)

    def _answer_duplicates(self, log: SlotLog, term: Term) -> None:
        for n, inflight in term.clients.duplicates_until(log.decided):
            self._answer_update(log, term, n, inflight)

    def answer_duplicate(self, log: SlotLog, term: Term, n: int, inflight: Inflight) -> None:
        """Answer a retry of the operation of row n, once that is decided."""
        self.core.counters["duplicates"] += 1
        term.clients.duplicates.append((n, inflight))
        self._answer_duplicates(log, term)

    def _answer_lacking(self, log: SlotLog, term: Term) -> None:
        waiting, term.clients.lacking = term.clients.lacking, []
        for n, inflight in waiting:
            self._answer_update(log, term, n, inflight)

    def give_refusals(self, log: SlotLog, term: Term) -> None:
        """Give the refusals whose rows are decided, once no earlier row can come back."""
        if not term.clients.refusals or not term.recovered:
            return
        for refusal in term.clients.refusals_until(log.decided):
            self.core.reply(refusal.inflight, refusal.answer)

    def refused(self, sender: str, message: Refused) -> None:
        """End the terms over slots that a replica has promised to a higher ballot (O5)."""
        for slot, epoch, promised in message.slots:
            self.core.logs.epoch_seen = max(self.core.logs.epoch_seen, promised[0])
            log = self.core.logs.get(slot)
            if log and log.term and log.term.ballot == (epoch, self.core.me):
                depose(self.core, log)

    def tick(self) -> None:
        """Tell replicas which rows are decided; forget proposals that stay unacknowledged."""
        self._tell()
        self.offered.tick()

    def _tell(self) -> None:
        """Send replicas the last decided row of each slot, up to which they serve reads."""
        news: dict[str, list[tuple[int, int, int]]] = {}
        for slot in self.core.logs.newly_decided:
            log = self.core.logs[slot]
            if log.term is None or log.term.phase is not Phase.OPEN:
                continue
            entry = (slot, log.term.ballot[0], log.decided)
            for peer in log.term.followers:
                news.setdefault(peer, []).append(entry)
        self.core.logs.newly_decided.clear()
        for peer, slots in news.items():
            self.outbox.send(peer, Decide(slots))
