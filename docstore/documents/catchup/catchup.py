"""A side road: the owner brings a replica's log to its own.

By tail when the replica merely lacks rows, by Adopt when it holds rows that lost, by a copy
(`copying.py`) when its slot is damaged or what it needs is not kept any more. At most a page is on
its way unacknowledged, so a slow replica costs no memory. What is not acknowledged is sent again
(rule O2): at once where somebody waits for it, otherwise so many slots a tick, so that a replica
that comes back with something to catch up in every slot does not make everybody else wait.
"""

from collections.abc import Iterable, Sequence

from docstore.documents.catchup.copying import Copying
from docstore.documents.catchup.pages import Pages
from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.peers import NEVER
from docstore.documents.reign import WHEREVER, Follower, Phase, Reign
from docstore.documents.write_path.propose import offer_of
from docstore.model.document import Row, ballots_until, common_end
from docstore.wire.messages import Adopt, Gap, Propose

SLOTS_A_TICK = 16
"""Of those that lag, looked after in one tick: 1,024 slots in a little more than 3 s."""


class CatchUp:
    """The owner's side of replicas that lag."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.outbox = core.outbox
        self._pages = Pages(core)
        self._copying = Copying(core, self._pages, self._asked_by)
        self._looked_at = NEVER
        self._overdue: list[SlotLog] = []

    def tick(self) -> None:
        """Send again what has not been acknowledged for a while, and the next pages of copies."""
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
            sent += log.reign is not None and self.resend(log, log.reign)

    def _find_overdue(self) -> list[SlotLog]:
        """Return the slots to look after; last those that somebody waits for, or longest has."""
        found = []
        before = self.core.now - self.core.config.sending.resend_interval_s
        for log, reign in self.core.logs.reigns():
            if reign.phase is not Phase.PREPARING and _has_late(log, reign, before):
                times = [follower.sent_at for _, follower in self._lagging(log, reign)]
                if times:
                    found.append((_is_awaited(log), -min(times), log))
        return [log for _, _, log in sorted(found, key=lambda each: each[:2])]

    def _lagging(self, log: SlotLog, reign: Reign) -> list[tuple[str, Follower]]:
        """Return the replicas within reach that have not answered for a while."""
        before = self.core.now - self.core.config.sending.resend_interval_s
        return [
            (peer, follower)
            for peer, follower in reign.followers.items()
            if follower.sent_at <= before
            and not (follower.adopted and follower.acked >= log.end)
            and self.core.peers[peer].linked
            and not self._copying.is_in_line(peer, log.slot)
        ]

    def probe(self, log: SlotLog, reign: Reign, peer: str) -> None:
        """Ask a replica where it stands, by an offer without rows at the end of our log."""
        follower = reign.followers[peer]
        follower.sent, follower.sent_at = log.end - len(reign.fresh), self.core.now
        offer = offer_of(log, reign, follower.sent + 1, ())
        self.outbox.send(peer, Propose([offer]))

    def resync(self, slots: Iterable[int]) -> None:
        """Ask every replica of the slots that are ours where it stands; the rest follows."""
        for slot in slots:
            log = self.core.logs.get(slot)
            if log and log.reign and log.reign.phase is Phase.OPEN:
                for follower in log.reign.followers.values():
                    follower.adopted = False
                self.probe_all(log, log.reign)

    def probe_all(self, log: SlotLog, reign: Reign) -> None:
        """Ask every replica where it stands."""
        for peer in reign.followers:
            self.probe(log, reign, peer)

    def probe_anew(self, peer: str) -> None:
        """Ask a peer anew where it stands, soon: its link is new, and it may be as well."""
        for _, reign in self.core.logs.reigns():
            follower = reign.followers.get(peer)
            if follower is not None:
                follower.adopted, follower.sent_at = False, NEVER

    def gap(self, sender: str, message: Gap) -> None:
        """A replica's log does not join ours: find out how to mend it, and begin."""
        found = self._asked_by(sender, message)
        if found is None:
            return
        log, reign = found
        follower = reign.followers[sender]
        if message.full:
            follower.copied = None  # A copy is over, also if the answer that said so was lost.
        common = self.common_with(log, message)
        if not message.full or common < log.kept:
            self._copying.ask(log, reign, sender, message)
        elif common == message.end:
            follower.sent = common
            self.push(log, reign, sender)
        else:
            self._adopt(log, reign, sender, common)

    def _asked_by(self, sender: str, gap: Gap) -> tuple[SlotLog, Reign] | None:
        """Return the log that a replica needs something of; None if that is not ours to give."""
        log = self.core.logs.get(gap.slot)
        reign = log.reign if log else None
        if log is None or reign is None or reign.ballot != (gap.epoch, self.core.me):
            return None
        follower = reign.followers.get(sender)
        if follower is None or reign.phase is Phase.PREPARING or follower.reading:
            return None
        if self._stands_behind_base(log, reign):
            return None  # We are still fetching the base ourselves.
        return log, reign

    def common_with(self, log: SlotLog, gap: Gap) -> int:
        """Return up to where the replica's log equals ours, 0 at the least."""
        return common_end(log.ballots, log.end, gap.ballots, gap.end)

    def push(self, log: SlotLog, reign: Reign, peer: str) -> None:
        """Send a follower the next rows after what it was sent, a page of them."""
        follower = reign.followers[peer]
        if follower.reading or follower.copied is not None or not self.core.peers[peer].linked:
            return
        first, last = follower.sent + 1, log.end - len(reign.fresh)
        if first > last:
            return

        def send(rows: Sequence[Row]) -> None:
            follower.sent, follower.sent_at = rows[-1].n, self.core.now
            self.outbox.send(peer, Propose([offer_of(log, reign, first, rows)]))

        self._pages.tail(log, reign, follower, first, last, send)

    def push_behind(self, peer: str, logs: list[SlotLog]) -> None:
        """Go on with the logs that a follower has just acknowledged, but not to the end."""
        for log in logs:
            if log.reign is not None and log.reign.phase is not Phase.PREPARING:
                self.push(log, log.reign, peer)

    def resend(self, log: SlotLog, reign: Reign) -> bool:
        """Send again what has not been acknowledged for a while; say whether there was any."""
        lagging = [] if self._stands_behind_base(log, reign) else self._lagging(log, reign)
        for peer, follower in lagging:
            follower.reading = False
            self.core.counters["resent"] += 1
            if follower.copied is not None:
                follower.copied = WHEREVER
                self.probe(log, reign, peer)
            elif follower.adopted:
                follower.sent = follower.acked
                self.push(log, reign, peer)
            else:
                self.probe(log, reign, peer)
        return bool(lagging)

    def _stands_behind_base(self, log: SlotLog, reign: Reign) -> bool:
        """Say whether this node has yet to fetch rows of its own base."""
        return log.adopted != reign.ballot

    def _adopt(self, log: SlotLog, reign: Reign, peer: str, common: int) -> None:
        """Have a replica cut its log to what is common and go on from there (rule SL4)."""
        self.core.counters["adopts"] += 1
        follower = reign.followers[peer]
        first, last = common + 1, log.end - len(reign.fresh)

        def send(rows: Sequence[Row]) -> None:
            until = rows[-1].n if rows else common
            follower.sent, follower.sent_at = until, self.core.now
            ballots = ballots_until(log.ballots, until)
            epoch, base, decided = reign.ballot[0], reign.base, log.decided
            self.outbox.send(peer, Adopt(log.slot, epoch, base, common, decided, rows, ballots))

        if first > last:
            send(())
        else:
            self._pages.tail(log, reign, follower, first, last, send)


def _has_late(log: SlotLog, reign: Reign, before: float) -> bool:
    """Say whether a replica has not acknowledged all since then: the first look at each slot."""
    end = log.end
    for follower in reign.followers.values():  # A generator would cost more than what it yields.
        if follower.sent_at <= before and not (follower.adopted and follower.acked >= end):
            return True
    return False


def _is_awaited(log: SlotLog) -> bool:
    """Say whether somebody may wait for rows of a log."""
    return log.decided < log.end
