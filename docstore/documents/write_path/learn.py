"""Step 6 of the write path, on a replica: promise, compare, append, acknowledge once durable.

In: Prepare, Propose, Adopt and Copy from the owner of a ballot. Out: Promised, Accepted,
AcceptedAll, Gap or Refused. The replica sends an answer only after its content is on this disk.

A log adopts a ballot when it is a prefix of that owner's log *and* reaches the base that the term
began with. Before that it may grow towards the base page by page, but its rows do not count: a
later owner compares logs by (adopted, end), so a log that has adopted a ballot must hold every row
that was decided before that term.

Source: rules P1 to P5 and SL4; the log comparison is Raft's (Ongaro and Ousterhout, 2014,
section 5.3), the ballots are Paxos's.
"""

from collections.abc import Sequence

from docstore.documents.core import Core
from docstore.documents.depose import depose
from docstore.documents.log import SlotLog
from docstore.machines.effects import Alarm
from docstore.model.document import Ballot, Row, ballot_added, ballot_at, ballots_until
from docstore.model.slots import from_bitmap
from docstore.ownership import ballot as fence
from docstore.storage.store import Base, Erase, Truncate
from docstore.wire import messages

GATHERED_PAGES = 4
"""Buffered rows of a copy after which they are stored, in pages of the largest size."""


class Acceptor:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.outbox = core.outbox

    # Promises

    def prepare(self, sender: str, message: messages.Prepare) -> None:
        """Promise the slots, durably, then report the state of their logs (rule P1)."""
        promised: list[SlotLog] = []
        refused = []
        for slot in from_bitmap(message.slots):
            log = self.core.logs.get(slot)
            if log is None:
                continue
            if self.core.is_leased(slot, sender):
                self.core.counters["leases_kept"] += 1
                continue  # The candidate asks again.
            if not self._promise(log, (message.epoch, sender)):
                refused.append((slot, message.epoch, log.promised))
                continue
            # Also when the ballot was promised before: its SaveSlot may still be on its way.
            promised.append(log)
        if refused:
            self._refuse(sender, refused)
        if promised:
            answer = self.promise(message.epoch, promised)
            self.outbox.when_durable(lambda: self.outbox.send(sender, answer))

    def promise(
        self, epoch: int, logs: Sequence[SlotLog]
    ) -> messages.Promised:  # Tests replace this.
        """Return the state of these logs for a new owner.

        A restart forgets the instants that this replica closed (rule R5). The wall clock has passed
        them, so the promise reports the clock if it is later than the log's last row.
        """
        now_us = self.core.wall_now_us()
        evidence = [
            messages.Evidence(
                log.slot, log.full, log.adopted, log.end, log.decided, log.kept, log.ballots
            )
            for log in logs
        ]
        return messages.Promised(epoch, evidence, [max(log.updated_us, now_us) for log in logs])

    def _promise(self, log: SlotLog, ballot: Ballot) -> bool:
        """Raise the promise to `ballot`; return False if the ballot is fenced."""
        if self.is_fenced(log, ballot):
            self.core.counters["refused"] += 1
            return False
        if ballot > log.promised:
            depose(self.core, log)
            log.promised = ballot
            self.core.logs.epoch_seen = max(self.core.logs.epoch_seen, ballot[0])
            self.outbox.save(log)
        return True

    def is_fenced(self, log: SlotLog, ballot: Ballot) -> bool:  # Tests replace this.
        """Say whether this replica has promised the slot to a higher ballot."""
        return fence.is_fenced(log.promised, ballot)

    # Rows

    def propose(self, sender: str, message: messages.Propose) -> None:
        """Append the rows that continue the log (rule P2); answer each offer, or all at once."""
        taken, refused = [], []
        for offer in message.offers:
            log = self.core.logs.get(offer.slot)
            if log is None:
                continue
            ballot = (offer.epoch, sender)
            if ballot != log.promised and not self._promise(log, ballot):
                refused.append((offer.slot, offer.epoch, log.promised))
            elif log.full and self.joins(log, ballot, offer):
                self._append(log, ballot, offer)
                taken.append(offer)
            else:
                self._gap(sender, log, offer.epoch)
        self._accept(sender, message, taken)
        if refused:
            self._refuse(sender, refused)

    def _accept(self, sender: str, message: messages.Propose, taken: list[messages.Offer]) -> None:
        if self.is_whole(message, taken):
            answer = messages.AcceptedAll(message.boot, message.number)
            self.outbox.when_durable(lambda: self.outbox.send(sender, answer))
            return
        for offer in taken:
            self.outbox.accept(sender, self.core.logs[offer.slot], offer.epoch)

    def is_whole(
        self, message: messages.Propose, taken: list[messages.Offer]
    ) -> bool:  # Tests replace this.
        """Say whether the number of a message may acknowledge all of its offers (rule SL8)."""
        return message.number > 0 and len(taken) == len(message.offers)

    def joins(
        self, log: SlotLog, ballot: Ballot, offer: messages.Offer
    ) -> bool:  # Tests replace this.
        """Say whether an offer certainly continues this log without a hole."""
        if log.adopted == ballot:
            return offer.first <= log.end + 1
        return offer.first == log.end + 1 and log.last_ballot == offer.previous

    def _append(self, log: SlotLog, ballot: Ballot, offer: messages.Offer) -> None:
        # Rows of our own term that we hold already are acknowledged again without a write.
        held = log.end + 1 - offer.first
        rows = offer.rows[held:] if held else offer.rows
        if rows:
            self._extend(log, rows)
        if log.adopted != ballot:
            self._adopt_if_at_base(log, ballot, offer.base)
        if offer.decided > log.decided:
            self._learn_decided(log, ballot, offer.decided)

    def _extend(self, log: SlotLog, rows: Sequence[Row]) -> None:
        before = log.ballots
        log.extend(rows)
        self.outbox.store_rows(log, rows)
        if log.ballots is not before:
            self.outbox.save(log)

    def _adopt_if_at_base(self, log: SlotLog, ballot: Ballot, base: int) -> None:
        if log.adopted != ballot and log.end >= base:
            log.adopted = ballot
            if ballot_at(log.ballots, base + 1) != ballot:
                log.ballots = ballot_added(log.ballots, ballot, base + 1)
            self.outbox.save(log)

    def adopt(self, sender: str, message: messages.Adopt) -> None:
        """Truncate rows that the owner's log does not have, and append its rows (rule SL4)."""
        log = self.core.logs.get(message.slot)
        if log is None:
            return
        ballot = (message.epoch, sender)
        if not self._promise(log, ballot):
            self._refuse(sender, [(message.slot, message.epoch, log.promised)])
            return
        if not log.full or not self._fits(log, ballot, message):
            self._gap(sender, log, message.epoch)
            return
        if not self.is_late(log, ballot):
            self._cut(log, message.common)
        rows = [row for row in message.rows if row.n > log.end]
        if rows and rows[0].n == log.end + 1:
            self._extend(log, rows)
        if log.adopted != ballot:
            log.ballots = ballots_until(message.ballots, log.end)
            self.outbox.save(log)
        self._adopt_if_at_base(log, ballot, message.base)
        self._learn_decided(log, ballot, message.decided)
        self.outbox.accept(sender, log, message.epoch)

    def is_late(self, log: SlotLog, ballot: Ballot) -> bool:  # Tests replace this.
        """Say whether the log has adopted this ballot: then the message is a late duplicate."""
        return log.adopted == ballot

    def _fits(self, log: SlotLog, ballot: Ballot, message: messages.Adopt) -> bool:
        """Say whether the logs are equal up to `common`, as the owner believes."""
        if log.adopted == ballot:
            return message.common <= log.end
        shared = ballot_at(log.ballots, message.common) == ballot_at(
            message.ballots, message.common
        )
        if message.common > log.end or not shared:
            return False
        if message.common < log.decided:
            self.mark_faulty(log, f"slot {log.slot}: asked to undo what was decided")
            return False
        return True

    def _cut(self, log: SlotLog, end: int) -> None:
        if end < log.end:
            self.core.counters["cut"] += 1
            log.cut(end)
            self.outbox.store(Truncate(log.slot, end))
            self.outbox.save(log)

    def mark_faulty(self, log: SlotLog, why: str) -> None:
        """Let the slot abstain until its log is replaced (rule P5)."""
        depose(self.core, log)
        log.full, log.copying = False, None
        self.outbox.save(log)
        self.core.counters["faulty"] += 1
        self.outbox.emit(Alarm(why))

    def copy(self, sender: str, message: messages.Copy) -> None:
        """Replace the log page by page; the log does not count before the last page.

        So a page need not be on the disk before the next one is requested: pages are buffered and
        stored many at a time, with one commit.
        """
        log = self.core.logs.get(message.slot)
        if log is None:
            return
        ballot = (message.epoch, sender)
        if not self._promise(log, ballot):
            self._refuse(sender, [(message.slot, message.epoch, log.promised)])
            return
        if log.full:
            # A late duplicate: the log is complete. It counts only if it has adopted this ballot.
            if log.adopted == ballot:
                self.outbox.accept(sender, log, message.epoch)
            else:
                self._gap(sender, log, message.epoch)
            return
        if message.after == 0 and log.copying != ballot:
            log.clear(kept=message.kept, floor=message.floor)
            log.copying, log.copied = ballot, 0
            self.outbox.store(Erase(log.slot))
            self.outbox.save(log)
        elif log.copying != ballot or message.after != log.copied or not _is_of(log, message):
            self._gap(sender, log, message.epoch)
            return
        self._lay(log, message)
        if message.last:
            log.full, log.copying = True, None
            self.core.counters["copied"] += 1
            self._store_gathered(log)
            self._adopt_if_at_base(log, ballot, message.base)
            self._learn_decided(log, ballot, message.decided)
            self.outbox.accept(sender, log, message.epoch)
            return
        if self._has_gathered_enough(log):
            self._store_gathered(log)
        self._gap(
            sender, log, message.epoch
        )  # This Gap requests the next page; the owner does not count it.

    def _lay(self, log: SlotLog, message: messages.Copy) -> None:
        """Add a page of a copy: first the rows below `kept`, then the log itself."""
        base = [row for row in message.rows if row.n <= log.kept]
        if base:
            log.load_snapshot(base)
        tail = message.rows[len(base) :]
        if tail:
            log.extend(tail)
        if message.rows:
            log.copied = message.rows[-1].n
        log.buffered.extend(message.rows)
        log.ballots = ballots_until(message.ballots, max(log.end, log.kept))

    def _has_gathered_enough(self, log: SlotLog) -> bool:
        """Say whether the buffer of a copy is full."""
        config, rows = self.core.config, log.buffered
        if len(rows) >= GATHERED_PAGES * config.sending.page_rows:
            return True
        return sum(row.weight for row in rows) >= config.sending.page_bytes

    def _store_gathered(self, log: SlotLog) -> None:
        rows, log.buffered = log.buffered, []
        base = [row for row in rows if row.n <= log.kept]
        if base:
            self.outbox.store(Base(base))
        if log.full:
            self.outbox.store_rows(log, rows[len(base) :])
        else:  # The page may end within a batch, so readers must not see it yet.
            self.outbox.store_part(rows[len(base) :])
        self.outbox.save(log)

    def decide(self, sender: str, message: messages.Decide) -> None:
        """Learn how far the owner has decided. A hint for reads; safety does not need it."""
        for slot, epoch, decided in message.slots:
            log = self.core.logs.get(slot)
            if log is not None and not self.is_fenced(log, (epoch, sender)):
                self._learn_decided(log, (epoch, sender), decided)

    def _learn_decided(self, log: SlotLog, ballot: Ballot, decided: int) -> None:
        until = min(decided, log.end)
        if until > log.decided and log.adopted == ballot:
            self.outbox.publish(log, log.decided, until)
            log.decided = until
            log.evict_durable()

    # Answers

    def _gap(self, sender: str, log: SlotLog, epoch: int) -> None:  # Tests replace this.
        self.core.counters["gaps"] += 1
        end = log.end if log.copying is None else log.copied
        copying = log.copying == (epoch, sender)
        gap = messages.Gap(
            log.slot, epoch, log.full, log.adopted, end, log.decided, log.ballots, copying
        )
        # The reported state must be durable: no restart may make it untrue (see Adopt). Pages of
        # a copy need not be: after a restart the log is not `copying`, and the copy begins anew.
        self.outbox.when_durable(lambda: self.outbox.send(sender, gap))

    def _refuse(self, sender: str, slots: list[tuple[int, int, Ballot]]) -> None:
        self.outbox.send(sender, messages.Refused(slots))


def _is_of(log: SlotLog, page: messages.Copy) -> bool:
    """Say whether a page continues the pages before it; if not, the copy starts again.

    If the owner compacts rows between two pages, neither page has these rows, and this replica
    would miss the floor that replaced them.
    """
    if (page.kept, page.floor) != (log.kept, log.floor):
        log.copying = None
    return log.copying is not None
