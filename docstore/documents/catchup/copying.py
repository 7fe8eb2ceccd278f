"""Copies: the owner replaces a replica's slot page by page if it is new, damaged or too far behind.

The owner sends a limited number of rows per tick, so that filling a node with a million documents
does not slow down clients. A slot with rows that stay undecided goes first, without that limit: it
may need this replica for its quorum.

A replica reports how far it has come, and the copy continues from there, however long its disk
took. (If copies began anew after each timeout, a replica with a slow disk would get first pages for
ever and never complete a slot.)
"""

from collections.abc import Callable, Sequence

from docstore.documents.catchup.pages import Pages
from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.term import WHEREVER, Term
from docstore.model.document import Row, ballots_until
from docstore.wire.messages import Copy, Gap

ROWS_AT_ONCE = 64
ROWS_A_TICK, ROWS_A_PAGE = 40, 4
"""Rows copied per tick on average, and the cost of a page besides its rows, counted in rows.

Each owner so copies 750 rows or 200 empty slots a second. Copying slows down clients of the same
host: with 96 rows per tick, their p99 was 2.1 and 2.4 times the p99 without copying.
"""

Asked = Callable[[str, Gap], tuple[SlotLog, Term] | None]
"""Returns the log that a replica asks for; None if this node cannot serve it."""


class Copying:
    def __init__(self, core: Core, pages: Pages, asked_by: Asked) -> None:
        self.core = core
        self.outbox = core.outbox
        self._pages = pages
        self._asked_by = asked_by
        self._copying: dict[str, set[int]] = {}
        """Replica -> the slots that are being copied to it."""
        self._waiting: dict[tuple[str, int], Gap] = {}
        """(Replica, slot) -> its last Gap, for those that wait for a page."""
        self._room = 0
        """Rows that may be copied in this tick; below 0 after a page that was larger."""

    def tick(self) -> None:
        """Send the next pages within this tick's limit, to the longest waiting replicas first."""
        self._room = min(ROWS_A_TICK, self._room + ROWS_A_TICK)
        full: set[str] = set()
        for (peer, slot), gap in list(self._waiting.items()):
            log = self.core.logs.get(slot)
            if log is None or not self._is_stuck(log):
                if self._room <= 0 or (peer in full and slot not in self._copying[peer]):
                    continue
                if not self._may_copy(peer, slot):
                    full.add(peer)
                    continue
            del self._waiting[peer, slot]
            found = self._asked_by(peer, gap)
            if found is not None:  # Otherwise the replica asks the present owner.
                self._room -= self._go_on(*found, peer, gap)

    def ask(self, log: SlotLog, term: Term, peer: str, gap: Gap) -> None:
        """Send the next page now if the limit allows or the slot is stuck; else queue it."""
        if self._is_stuck(log) or (self._room > 0 and self._may_copy(peer, log.slot)):
            self._waiting.pop((peer, log.slot), None)
            self._room -= self._go_on(log, term, peer, gap)
        else:
            self._waiting[peer, log.slot] = gap

    def is_in_line(self, peer: str, slot: int) -> bool:
        """Say whether a replica is queued for a page: then it need not report again."""
        return (peer, slot) in self._waiting

    def _is_stuck(self, log: SlotLog) -> bool:
        """Say whether rows of the slot stay undecided: their quorum may need the copied replica."""
        if log.term is None or log.decided >= log.end:
            return False
        return self.core.now - log.term.progress_at >= self.core.config.sending.resend_interval_s

    def _go_on(self, log: SlotLog, term: Term, peer: str, gap: Gap) -> int:
        """Send the first page of a copy, or the next once the page before has arrived.

        Return its size in rows, roughly.
        """
        follower = term.followers[peer]
        is_known = follower.copied not in (None, WHEREVER)
        if is_known and not (gap.copying and gap.end == follower.copied):
            return 0  # This Gap answers an older page.
        goes_on = gap.copying and not gap.full
        after, last = gap.end if goes_on else 0, log.end - len(term.fresh)
        count = min(self.core.config.sending.page_rows, ROWS_AT_ONCE)
        self.core.counters["copy_pages"] += 1

        def send(rows: Sequence[Row]) -> None:
            until = rows[-1].n if rows else after
            follower.copied, follower.sent, follower.sent_at = until, until, self.core.now
            ballots = ballots_until(log.ballots, max(until, log.kept))
            self.outbox.send(
                peer,
                Copy(
                    log.slot, term.ballot[0], term.base, after, log.kept, log.floor,
                    log.decided, rows, ballots, until >= last,
                ),
            )  # fmt: skip

        if after >= last:
            send(())
        elif after + 1 in log.pending:
            send(self._pages.from_memory(log, after + 1, min(last, after + count)))
        else:
            self._pages.left(log, term, follower, after, count, send)
        return ROWS_A_PAGE + min(count, max(0, last - after))

    def _may_copy(self, peer: str, slot: int) -> bool:
        """Say whether a slot may be copied to a replica now: few at once, so that some complete."""
        slots = self._copying.setdefault(peer, set())
        if slot not in slots and len(slots) >= self.core.config.sending.copies_max:
            slots -= {each for each in slots if not self._is_copying(peer, each)}
            if len(slots) >= self.core.config.sending.copies_max:
                return False
        slots.add(slot)
        return True

    def _is_copying(self, peer: str, slot: int) -> bool:
        log = self.core.logs.get(slot)
        follower = log.term.followers.get(peer) if log and log.term else None
        return follower is not None and follower.copied is not None
