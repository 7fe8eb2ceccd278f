"""A side road: the owner brings a replica's log to its own.

By tail when the replica merely lacks rows, by Adopt when it holds rows that lost, by Copy when
its slot is damaged or what it needs is not kept any more. Rows are taken from memory while they
are there, from the disk in pages otherwise; at most a page is on its way unacknowledged, so a
slow replica costs no memory. What is not acknowledged is sent again (rule O2): at once where
somebody waits for it, otherwise so many slots a tick, so that a replica that comes back with
something to catch up in every slot does not make everybody else wait.
"""

from collections.abc import Callable, Sequence

from docstore.document import Row, common_end, reigns_until
from docstore.protocol.core import NEVER, Core
from docstore.protocol.log import SlotLog
from docstore.protocol.propose import offer_of
from docstore.protocol.tenure import Follower, Phase, Tenure
from docstore.storage.store import After, Corrupt, Result, Rows
from docstore.wire import Adopt, Copy, Gap, Propose

SLOTS_A_TICK = 16
"""Of those that lag, looked after in one tick: 1,024 slots in a little more than 3 s."""


class CatchUp:
    """The owner's side of replicas that lag."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._copying: dict[str, set[int]] = {}
        """Replica -> the slots that are being copied to it."""
        self._looked_at = NEVER
        self._overdue: list[SlotLog] = []

    def tick(self) -> None:
        """Send again what has not been acknowledged for a while."""
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
        for log in self.core.logs.values():
            if log.tenure is not None and log.tenure.phase is not Phase.PREPARING:
                times = [follower.sent_at for _, follower in self._lagging(log, log.tenure)]
                if times:
                    found.append((_is_awaited(log), -min(times), log))
        return [log for _, _, log in sorted(found, key=lambda each: each[:2])]

    def _lagging(self, log: SlotLog, tenure: Tenure) -> list[tuple[str, Follower]]:
        """Return the replicas within reach that have not answered for a while."""
        before = self.core.now - self.core.config.resend_interval_s
        return [
            (peer, follower)
            for peer, follower in tenure.followers.items()
            if not (follower.adopted and follower.acked >= log.end)
            and follower.sent_at <= before
            and self.core.peers[peer].linked
        ]

    def probe(self, log: SlotLog, tenure: Tenure, peer: str) -> None:
        """Ask a replica where it stands, by an offer without rows at the end of our log."""
        follower = tenure.followers[peer]
        follower.sent, follower.sent_at = log.end - len(tenure.fresh), self.core.now
        offer = offer_of(log, tenure, follower.sent + 1, ())
        self.core.send(peer, Propose([offer]))

    def probe_all(self, log: SlotLog, tenure: Tenure) -> None:
        """Ask every replica where it stands."""
        for peer in tenure.followers:
            self.probe(log, tenure, peer)

    def doubt(self, peer: str) -> None:
        """Ask a peer anew where it stands, soon: its link is new, and it may be as well."""
        for log in self.core.logs.values():
            follower = log.tenure.followers.get(peer) if log.tenure else None
            if follower is not None:
                follower.adopted, follower.sent_at = False, NEVER

    def gap(self, sender: str, message: Gap) -> None:
        """A replica's log does not join ours: find out how to mend it, and begin."""
        log = self.core.logs.get(message.slot)
        tenure = log.tenure if log else None
        if log is None or tenure is None or tenure.ballot != (message.epoch, self.core.me):
            return
        follower = tenure.followers.get(sender)
        if follower is None or tenure.phase is Phase.PREPARING or follower.reading:
            return
        if self._stands_behind_base(log, tenure):
            return  # We are still fetching the base ourselves.
        common = self.common_with(log, message)
        if not message.full or common < log.kept:
            self._copy_on(log, tenure, sender, message)
        elif common == message.end:
            follower.sent = common
            self.push(log, tenure, sender)
        else:
            self._adopt(log, tenure, sender, common)

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

        self._with_rows(log, tenure, follower, first, last, send)

    def push_behind(self, peer: str, logs: list[SlotLog]) -> None:
        """Go on with the logs that a follower has just acknowledged, but not to the end."""
        for log in logs:
            if log.tenure is not None and log.tenure.phase is not Phase.PREPARING:
                self.push(log, log.tenure, peer)

    def resend(self, log: SlotLog, tenure: Tenure) -> bool:
        """Send again what has not been acknowledged for a while; say whether there was any."""
        lagging = [] if self._stands_behind_base(log, tenure) else self._lagging(log, tenure)
        for peer, follower in lagging:
            follower.copied, follower.reading = None, False
            self.core.counters["resent"] += 1
            if follower.adopted:
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
            self._with_rows(log, tenure, follower, first, last, send)

    def _copy_on(self, log: SlotLog, tenure: Tenure, peer: str, gap: Gap) -> None:
        """Send the first page of a copy, or the next when the one before has arrived."""
        follower = tenure.followers[peer]
        if not self._may_copy(peer, log.slot):
            return  # Enough at once; the next probe asks again.
        goes_on = follower.copied is not None and gap.end == follower.copied and not gap.full
        if follower.copied is not None and not goes_on and gap.end != 0:
            return  # An answer to something older.
        after, last = gap.end if goes_on else 0, log.end - len(tenure.fresh)
        self.core.counters["copy_pages"] += 1

        def send(rows: Sequence[Row]) -> None:
            until = rows[-1].n if rows else after
            follower.copied, follower.sent, follower.sent_at = until, until, self.core.now
            reigns = reigns_until(log.reigns, max(until, log.kept))
            self.core.send(
                peer,
                Copy(
                    log.slot, tenure.ballot[0], tenure.base, after, log.kept, log.floor,
                    log.decided, rows, reigns, until >= last,
                ),
            )  # fmt: skip

        if after >= last:
            send(())
        elif after + 1 in log.pending:
            send(self._from_memory(log, after + 1, self._page_end(after + 1, last)))
        else:
            self._read_page(log, tenure, follower, after, send)

    def _read_page(
        self,
        log: SlotLog,
        tenure: Tenure,
        follower: Follower,
        after: int,
        send: Callable[[Sequence[Row]], None],
    ) -> None:
        """Call `send` with the next rows that are left after one, from the disk."""
        config = self.core.config
        self._ask_disk(
            log, tenure, follower,
            After(log.slot, after, log.durable, config.page_rows, config.page_bytes), send,
        )  # fmt: skip

    def _page_end(self, first: int, last: int) -> int:
        return min(last, first + self.core.config.page_rows - 1)

    def _may_copy(self, peer: str, slot: int) -> bool:
        """Bound how many slots are copied to one replica at once, so that others are served."""
        slots = self._copying.setdefault(peer, set())
        if slot not in slots and len(slots) >= self.core.config.copies_max:
            slots -= {each for each in slots if not self._is_copying(peer, each)}
            if len(slots) >= self.core.config.copies_max:
                return False
        slots.add(slot)
        return True

    def _is_copying(self, peer: str, slot: int) -> bool:
        log = self.core.logs.get(slot)
        follower = log.tenure.followers.get(peer) if log and log.tenure else None
        return follower is not None and follower.copied is not None

    def _with_rows(
        self,
        log: SlotLog,
        tenure: Tenure,
        follower: Follower,
        first: int,
        last: int,
        send: Callable[[Sequence[Row]], None],
    ) -> None:
        """Call `send` with rows first.. of the log: at least one, at most a page."""
        last = self._page_end(first, last)
        if first in log.pending:
            send(self._from_memory(log, first, last))
            return

        def of_the_log(rows: Sequence[Row]) -> None:
            if rows[0].n == first:
                send(rows)

        # Beyond `durable` the disk may still hold rows that were cut in memory.
        query = Rows(log.slot, first, min(last, log.durable), self.core.config.page_bytes)
        self._ask_disk(log, tenure, follower, query, of_the_log)

    def _ask_disk(
        self,
        log: SlotLog,
        tenure: Tenure,
        follower: Follower,
        query: Rows | After,
        send: Callable[[Sequence[Row]], None],
    ) -> None:
        follower.reading, follower.sent_at = True, self.core.now

        def found(result: Result) -> None:
            follower.reading = False
            if log.tenure is not tenure:
                return
            if isinstance(result, Corrupt):
                self.core.corrupt(log)
            elif result:
                send(result)

        self.core.read(query, found)

    def _from_memory(self, log: SlotLog, first: int, last: int) -> list[Row]:
        rows, size = [log.pending[first]], len(log.pending[first].state)
        for n in range(first + 1, last + 1):
            row = log.pending.get(n)
            if row is None or size + len(row.state) > self.core.config.page_bytes:
                break
            rows.append(row)
            size += len(row.state)
        return rows


def _is_awaited(log: SlotLog) -> bool:
    """Say whether somebody may wait for rows of a log."""
    return log.decided < log.end
