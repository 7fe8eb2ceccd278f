"""Step 5 of the write path: propose the rows of a turn to all replicas and to the own disk at once.

In: the end of a turn. Out: one Persist, and one Propose per peer for any number of updates.

The owner offers new rows only to followers that have every row before them. Catch-up
(`catchup/catchup.py`) brings the rows to the others.
"""

from collections.abc import Callable, Iterator, Sequence

from docstore.documents import parts
from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.term import Term
from docstore.documents.write_path.in_flight import InFlightProposals, ProposedUpTo
from docstore.model.document import Row, ballot_at
from docstore.wire.messages import Offer


def offer_of(log: SlotLog, term: Term, first: int, rows: Sequence[Row]) -> Offer:
    """Return the offer of rows that begin at `first`, with the ballot of the row before."""
    previous = ballot_at(log.ballots, first - 1)
    epoch = term.ballot[0]
    return Offer(log.slot, epoch, term.base, first, previous, log.decided, rows)


def pages(rows: Sequence[Row], rows_max: int, bytes_max: int) -> list[Sequence[Row]]:
    """Split rows into messages of bounded size, in order; no rows give one page.

    No page ends within a batch (rule A2).
    """
    if len(rows) == 1 or (len(rows) <= rows_max and sum(row.weight for row in rows) <= bytes_max):
        return [rows]
    result: list[Sequence[Row]] = []
    while rows:
        page, size = 0, 0
        for row in rows[:rows_max]:
            size += row.weight
            if page and size > bytes_max:
                break
            page += 1
        found = rows[:page] if page == len(rows) else parts.whole(rows[:page])
        result.append(found)
        rows = rows[len(found) :]
    return result


class Proposer:
    def __init__(
        self, core: Core, offered: InFlightProposals, stored: Callable[[list[ProposedUpTo]], None]
    ) -> None:
        self.core = core
        self.outbox = core.outbox
        self.offered = offered
        self.stored = stored
        """Callback for a turn's rows once they are on this disk, which counts as a replica's."""

    def propose_all(self) -> None:
        """Store and offer the rows of this turn (rule O2)."""
        offers: dict[str, list[Offer]] = {}
        reached: list[ProposedUpTo] = []
        for slot in self.core.logs.dirty:
            log = self.core.logs[slot]
            if log.term is not None:
                self._propose(log, log.term, offers)
                reached.append((log, log.term, log.end))
        self.core.logs.dirty.clear()
        if reached:
            self.outbox.when_durable(lambda: self.stored(reached))
        self._send(offers)

    def _propose(self, log: SlotLog, term: Term, offers: dict[str, list[Offer]]) -> None:
        rows, term.fresh = term.fresh, []
        assert rows
        self.outbox.store_rows(log, rows)
        first, end = rows[0].n, log.end
        self._remember(term, first)
        offered: list[Offer] = []
        for peer, follower in term.followers.items():
            if follower.sent != first - 1 or not self.core.peers[peer].linked:
                continue
            follower.sent, follower.sent_at = end, self.core.now
            offered = offered or self._offers(log, term, rows)
            offers.setdefault(peer, []).extend(offered)

    def _offers(self, log: SlotLog, term: Term, rows: Sequence[Row]) -> list[Offer]:
        bounds = self.core.config.sending
        found = pages(rows, bounds.page_rows, bounds.page_bytes)
        return [offer_of(log, term, page[0].n, page) for page in found]

    def _remember(self, term: Term, first: int) -> None:
        """Remember the operations of proposed rows: from now on they may take effect."""
        for n, inflight in reversed(term.clients.updates):
            if n < first:
                return
            origin = (inflight.entry, inflight.boot)
            self.core.proposed.note(origin, inflight.seq, inflight.oldest)

    def _send(self, offers: dict[str, list[Offer]]) -> None:
        """Send each peer its offers; peers with equal offers share the messages.

        Links pack a shared message once.
        """
        alike: list[tuple[list[Offer], list[str]]] = []
        for peer, offered in offers.items():
            if alike and alike[-1][0] == offered:
                alike[-1][1].append(peer)
            else:
                alike.append((offered, [peer]))
        for offered, peers in alike:
            for batch in self._bounded(offered):
                message = self.offered.message(batch, peers)
                for peer in peers:
                    self.outbox.send(peer, message)

    def _bounded(self, offers: list[Offer]) -> Iterator[list[Offer]]:
        """Yield the offers of each message, so that no message is too large.

        Each message has its own number: one may arrive and the next be lost (rule SL8).
        """
        batch: list[Offer] = []
        size = 0
        for offer in offers:
            more = sum([row.weight for row in offer.rows])
            if batch and size + more > self.core.config.sending.page_bytes:
                yield batch
                batch, size = [], 0
            batch.append(offer)
            size += more
        yield batch
