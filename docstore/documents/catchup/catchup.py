"""Catch-up: the owner brings a replica's log to the state of its own.

There are three ways:

- tail: send the missing rows, if the replica's log is a prefix of the owner's;
- Adopt: truncate rows that conflict with the owner's log, then send the tail;
- copy (`copying.py`): replace the slot, if it is damaged or the owner has compacted the rows.

At most one page per follower is unacknowledged, so a slow replica costs no memory. The owner sends
unacknowledged rows again (rule O2): at once if a client may wait for them, otherwise for a limited
number of slots per tick. So a replica that lags in every slot does not delay other clients.
"""

from collections.abc import Iterable, Sequence

from docstore.documents.catchup.copying import Copying
from docstore.documents.catchup.pages import Pages
from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.peers import NEVER
from docstore.documents.term import WHEREVER, Follower, Phase, Term
from docstore.documents.write_path.propose import offer_of
from docstore.model.document import Row, ballots_until, common_end
from docstore.wire.messages import Adopt, Gap, Propose

SLOTS_A_TICK = 16
"""Lagging slots handled per tick: 1,024 slots in a little more than 3 s."""


class CatchUp:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.outbox = core.outbox
        self._pages = Pages(core)
        self._copying = Copying(core, self._pages, self._asked_by)
        self._looked_at = NEVER
        self._overdue: list[SlotLog] = []

    def tick(self) -> None:
        """Resend rows that stay unacknowledged, and send the next pages of copies."""
        self._resend_overdue()
        self._copying.tick()

    def _resend_overdue(self) -> None:
        core = self.core
        if core.now - self._looked_at >= core.config.sending.resend_interval_s / 2:
            self._looked_at = core.now
            self._overdue = self._find_overdue()
        sent = 0
        while self._overdue and (sent < SLOTS_A_TICK or _is_awaited(self._overdue[-1])):
            log = self._overdue.pop()
            sent += log.term is not None and self.resend(log, log.term)

    def _find_overdue(self) -> list[SlotLog]:
        """Return the overdue slots, the most urgent last: awaited ones, then by time waited."""
        found = []
        before = self.core.now - self.core.config.sending.resend_interval_s
        for log, term in self.core.logs.terms():
            if term.phase is not Phase.PREPARING and _has_late(log, term, before):
                times = [follower.sent_at for _, follower in self._lagging(log, term)]
                if times:
                    found.append((_is_awaited(log), -min(times), log))
        return [log for _, _, log in sorted(found, key=lambda each: each[:2])]

    def _lagging(self, log: SlotLog, term: Term) -> list[tuple[str, Follower]]:
        """Return the linked followers that lag and have not answered for a while."""
        before = self.core.now - self.core.config.sending.resend_interval_s
        return [
            (peer, follower)
            for peer, follower in term.followers.items()
            if follower.sent_at <= before
            and not (follower.adopted and follower.acked >= log.end)
            and self.core.peers[peer].linked
            and not self._copying.is_in_line(peer, log.slot)
        ]

    def probe(self, log: SlotLog, term: Term, peer: str) -> None:
        """Ask a replica for its log state, by an offer without rows at the end of the log."""
        follower = term.followers[peer]
        follower.sent, follower.sent_at = log.end - len(term.fresh), self.core.now
        offer = offer_of(log, term, follower.sent + 1, ())
        self.outbox.send(peer, Propose([offer]))

    def resync(self, slots: Iterable[int]) -> None:
        """Ask every replica of the owned slots for its log state; the answers start catch-up."""
        for slot in slots:
            log = self.core.logs.get(slot)
            if log and log.term and log.term.phase is Phase.OPEN:
                for follower in log.term.followers.values():
                    follower.adopted = False
                self.probe_all(log, log.term)

    def probe_all(self, log: SlotLog, term: Term) -> None:
        for peer in term.followers:
            self.probe(log, term, peer)

    def probe_anew(self, peer: str) -> None:
        """Ask a newly linked peer soon for its log states, because it may have restarted."""
        for _, term in self.core.logs.terms():
            follower = term.followers.get(peer)
            if follower is not None:
                follower.adopted, follower.sent_at = False, NEVER

    def gap(self, sender: str, message: Gap) -> None:
        """Start the repair of a replica's log that does not match the owner's."""
        found = self._asked_by(sender, message)
        if found is None:
            return
        log, term = found
        follower = term.followers[sender]
        if message.full:
            follower.copied = None  # The copy is over, even if its last answer was lost.
        common = self.common_with(log, message)
        if not message.full or common < log.kept:
            self._copying.ask(log, term, sender, message)
        elif common == message.end:
            follower.sent = common
            self.push(log, term, sender)
        else:
            self._adopt(log, term, sender, common)

    def _asked_by(self, sender: str, gap: Gap) -> tuple[SlotLog, Term] | None:
        """Return the log that a replica asks for; None if this node cannot serve it."""
        log = self.core.logs.get(gap.slot)
        term = log.term if log else None
        if log is None or term is None or term.ballot != (gap.epoch, self.core.me):
            return None
        follower = term.followers.get(sender)
        if follower is None or term.phase is Phase.PREPARING or follower.reading:
            return None
        if self._lacks_base_rows(log, term):
            return None  # This node is still fetching the base.
        return log, term

    def common_with(self, log: SlotLog, gap: Gap) -> int:
        return common_end(log.ballots, log.end, gap.ballots, gap.end)

    def push(self, log: SlotLog, term: Term, peer: str) -> None:
        follower = term.followers[peer]
        if follower.reading or follower.copied is not None or not self.core.peers[peer].linked:
            return
        first, last = follower.sent + 1, log.end - len(term.fresh)
        if first > last:
            return

        def send(rows: Sequence[Row]) -> None:
            follower.sent, follower.sent_at = rows[-1].n, self.core.now
            self.outbox.send(peer, Propose([offer_of(log, term, first, rows)]))

        self._pages.tail(log, term, follower, first, last, send)

    def push_behind(self, peer: str, logs: list[SlotLog]) -> None:
        for log in logs:
            if log.term is not None and log.term.phase is not Phase.PREPARING:
                self.push(log, log.term, peer)

    def resend(self, log: SlotLog, term: Term) -> bool:
        lagging = [] if self._lacks_base_rows(log, term) else self._lagging(log, term)
        for peer, follower in lagging:
            follower.reading = False
            self.core.counters["resent"] += 1
            if follower.copied is not None:
                follower.copied = WHEREVER
                self.probe(log, term, peer)
            elif follower.adopted:
                follower.sent = follower.acked
                self.push(log, term, peer)
            else:
                self.probe(log, term, peer)
        return bool(lagging)

    def _lacks_base_rows(self, log: SlotLog, term: Term) -> bool:
        """Say whether this node has yet to fetch rows of its own base."""
        return log.adopted != term.ballot

    def _adopt(self, log: SlotLog, term: Term, peer: str, common: int) -> None:
        """Make a replica truncate its log to the common prefix and append the rest (SL4)."""
        self.core.counters["adopts"] += 1
        follower = term.followers[peer]
        first, last = common + 1, log.end - len(term.fresh)

        def send(rows: Sequence[Row]) -> None:
            until = rows[-1].n if rows else common
            follower.sent, follower.sent_at = until, self.core.now
            ballots = ballots_until(log.ballots, until)
            epoch, base, decided = term.ballot[0], term.base, log.decided
            self.outbox.send(peer, Adopt(log.slot, epoch, base, common, decided, rows, ballots))

        if first > last:
            send(())
        else:
            self._pages.tail(log, term, follower, first, last, send)


def _has_late(log: SlotLog, term: Term, before: float) -> bool:
    """Say whether a follower lags and got nothing since `before`: a cheap first test."""
    end = log.end
    for follower in term.followers.values():  # Faster than a generator.
        if follower.sent_at <= before and not (follower.adopted and follower.acked >= end):
            return True
    return False


def _is_awaited(log: SlotLog) -> bool:
    """Say whether a client may wait for rows of a log."""
    return log.decided < log.end
