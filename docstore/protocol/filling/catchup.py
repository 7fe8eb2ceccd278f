"""A side road: the owner brings a replica's log to its own.

By tail when the replica merely lacks rows, by Adopt when it holds rows that lost, by a copy
(`copying.py`) when its slot is damaged or what it needs is not kept any more. At most a page is on
its way unacknowledged, so a slow replica costs no memory. What is not acknowledged is sent again
(rule O2): at once where somebody waits for it, otherwise so many slots a tick, so that a replica
that comes back with something to catch up in every slot does not make everybody else wait.
"""

from collections.abc import Iterable, Sequence

from docstore.model.document import Row, common_end, reigns_until
from docstore.protocol.core import NEVER, Core
from docstore.protocol.filling.copying import Copying
from docstore.protocol.filling.pages import Pages
from docstore.protocol.log import SlotLog
from docstore.protocol.road.propose import offer_of
from docstore.protocol.tenure import WHEREVER, Follower, Phase, Tenure
from docstore.wire import Adopt, Gap, Propose

SLOTS_A_TICK = 16
"""Of those that lag, looked after in one tick: 1,024 slots in a little more than 3 s."""


class CatchUp:
    """The owner's side of replicas that lag."""

    def __init__(self, core: Core) -> None:
        self.core = core
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
        if core.now - self._looked_at >= core.config.resend_interval_s / 2:
            self._looked_at = core.now
            self._overdue = self._find_overdue()
        sent = 0
        while self._overdue and (sent < SLOTS_A_TICK or _is_awaited(self._overdue[-1])):
            log = self._overdue.pop()
            sent += log.tenure is not None and self.resend(log, log.tenure)

    def _find_overdue(self) -> list[SlotLog]:
        """Return the slots to look after; last those that somebody waits for, or longest has."""
        found = []
        for log, tenure in self.core.reigns():
            if tenure.phase is not Phase.PREPARING:
                times = [follower.sent_at for _, follower in self._lagging(log, tenure)]
                if times:
                    found.append((_is_awaited(log), -min(times), log))
        return [log for _, _, log in sorted(found, key=lambda each: each[:2])]

    def _lagging(self, log: SlotLog, tenure: Tenure) -> list[tuple[str, Follower]]:
        """Return the replicas within reach that have not answered for a while."""
        before = self.core.now - self.core.config.resend_interval_s
        return [
            (peer, follower)
            for peer, follower in tenure.followers.items()
            if follower.sent_at <= before
            and not (follower.adopted and follower.acked >= log.end)
            and self.core.peers[peer].linked
            and not self._copying.is_in_line(peer, log.slot)
        ]

    def probe(self, log: SlotLog, tenure: Tenure, peer: str) -> None:
        """Ask a replica where it stands, by an offer without rows at the end of our log."""
        follower = tenure.followers[peer]
        follower.sent, follower.sent_at = log.end - len(tenure.fresh), self.core.now
        offer = offer_of(log, tenure, follower.sent + 1, ())
        self.core.send(peer, Propose([offer]))

    def resync(self, slots: Iterable[int]) -> None:
        """Ask every replica of the slots that are ours where it stands; the rest follows."""
        for slot in slots:
            log = self.core.logs.get(slot)
            if log and log.tenure and log.tenure.phase is Phase.OPEN:
                for follower in log.tenure.followers.values():
                    follower.adopted = False
                self.probe_all(log, log.tenure)

    def probe_all(self, log: SlotLog, tenure: Tenure) -> None:
        """Ask every replica where it stands."""
        for peer in tenure.followers:
            self.probe(log, tenure, peer)

    def doubt(self, peer: str) -> None:
        """Ask a peer anew where it stands, soon: its link is new, and it may be as well."""
        for _, tenure in self.core.reigns():
            follower = tenure.followers.get(peer)
            if follower is not None:
                follower.adopted, follower.sent_at = False, NEVER

    def gap(self, sender: str, message: Gap) -> None:
        """A replica's log does not join ours: find out how to mend it, and begin."""
        found = self._asked_by(sender, message)
        if found is None:
            return
        log, tenure = found
        follower = tenure.followers[sender]
        if message.full:
            follower.copied = None  # A copy is over, also if the answer that said so was lost.
        common = self.common_with(log, message)
        if not message.full or common < log.kept:
            self._copying.ask(log, tenure, sender, message)
        elif common == message.end:
            follower.sent = common
            self.push(log, tenure, sender)
        else:
            self._adopt(log, tenure, sender, common)

    def _asked_by(self, sender: str, gap: Gap) -> tuple[SlotLog, Tenure] | None:
        """Return the log that a replica needs something of; None if that is not ours to give."""
        log = self.core.logs.get(gap.slot)
        tenure = log.tenure if log else None
        if log is None or tenure is None or tenure.ballot != (gap.epoch, self.core.me):
            return None
        follower = tenure.followers.get(sender)
        if follower is None or tenure.phase is Phase.PREPARING or follower.reading:
            return None
        if self._stands_behind_base(log, tenure):
            return None  # We are still fetching the base ourselves.
        return log, tenure

    def common_with(self, log: SlotLog, gap: Gap) -> int:
        """Return up to where the replica's log equals ours, 0 at the least."""
        return common_end(log.reigns, log.end, gap.reigns, gap.end)

    def push(self, log: SlotLog, tenure: Tenure, peer: str) -> None:
        """Send a follower the next rows after what it was sent, a page of them."""
        follower = tenure.followers[peer]
        if follower.reading or follower.copied is not None or not self.core.peers[peer].linked:
            return
        first, last = follower.sent + 1, log.end - len(tenure.fresh)
        if first > last:
            return

        def send(rows: Sequence[Row]) -> None:
            follower.sent, follower.sent_at = rows[-1].n, self.core.now
            self.core.send(peer, Propose([offer_of(log, tenure, first, rows)]))

        self._pages.tail(log, tenure, follower, first, last, send)

    def push_behind(self, peer: str, logs: list[SlotLog]) -> None:
        """Go on with the logs that a follower has just acknowledged, but not to the end."""
        for log in logs:
            if log.tenure is not None and log.tenure.phase is not Phase.PREPARING:
                self.push(log, log.tenure, peer)

    def resend(self, log: SlotLog, tenure: Tenure) -> bool:
        """Send again what has not been acknowledged for a while; say whether there was any."""
        lagging = [] if self._stands_behind_base(log, tenure) else self._lagging(log, tenure)
        for peer, follower in lagging:
            follower.reading = False
            self.core.counters["resent"] += 1
            if follower.copied is not None:
                follower.copied = WHEREVER
                self.probe(log, tenure, peer)
            elif follower.adopted:
                follower.sent = follower.acked
                self.push(log, tenure, peer)
            else:
                self.probe(log, tenure, peer)
        return bool(lagging)

    def _stands_behind_base(self, log: SlotLog, tenure: Tenure) -> bool:
        """Say whether this node has yet to fetch rows of its own base."""
        return log.adopted != tenure.ballot

    def _adopt(self, log: SlotLog, tenure: Tenure, peer: str, common: int) -> None:
        """Have a replica cut its log to what is common and go on from there (rule SL4)."""
        self.core.counters["adopts"] += 1
        follower = tenure.followers[peer]
        first, last = common + 1, log.end - len(tenure.fresh)

        def send(rows: Sequence[Row]) -> None:
            until = rows[-1].n if rows else common
            follower.sent, follower.sent_at = until, self.core.now
            reigns = reigns_until(log.reigns, until)
            epoch, base, decided = tenure.ballot[0], tenure.base, log.decided
            self.core.send(peer, Adopt(log.slot, epoch, base, common, decided, rows, reigns))

        if first > last:
            send(())
        else:
            self._pages.tail(log, tenure, follower, first, last, send)


def _is_awaited(log: SlotLog) -> bool:
    """Say whether somebody may wait for rows of a log."""
    return log.decided < log.end
