"""Proposals in flight (step 5 of the write path): the owner maps message numbers to their rows.

A replica that appended all rows of a message acknowledges the number of the message instead of each
log. Only the owner can expand it: each log of the message is durable at that replica up to the last
row offered, under the ballot that offered it (rule SL8).

The owner forgets a message that stays unacknowledged. That costs only time: timers propose again
the rows that are not acknowledged (rule O2).
"""

from collections.abc import Iterable, Sequence

from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.term import Term
from docstore.wire.messages import Offer, Propose

REMEMBERED_S = 1.0
"""Least seconds that a message is kept; at most twice that. By then the owner has probed."""

ProposedUpTo = tuple[SlotLog, Term, int]
"""A log, the term that offered its rows, and the n of the last of them."""


class InFlightProposals:
    """Messages that this process has sent, and that a replica may acknowledge as a whole."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._last = 0
        self._since = core.now
        self._newer: dict[tuple[str, int], Sequence[ProposedUpTo]] = {}
        self._older: dict[tuple[str, int], Sequence[ProposedUpTo]] = {}
        """(Replica, number) -> rows that its acknowledgement covers; messages before `_since`."""

    def message(
        self, offers: Sequence[Offer], peers: Iterable[str]
    ) -> Propose:  # Tests replace this.
        """Return a message to these peers, numbered if it has several offers."""
        if len(offers) == 1:
            return Propose(offers)
        self._last += 1
        reached = [self._reached(offer) for offer in offers]
        for peer in peers:
            self._newer[peer, self._last] = reached
        return Propose(offers, self.core.boot, self._last)

    def _reached(self, offer: Offer) -> ProposedUpTo:
        log = self.core.logs[offer.slot]
        assert log.term is not None
        return log, log.term, offer.rows[-1].n

    def taken(self, peer: str, number: int) -> Sequence[ProposedUpTo]:
        """Remove and return the proposals of a message; empty if they were forgotten."""
        message = (peer, number)
        return self._newer.pop(message, None) or self._older.pop(message, ())

    def tick(self) -> None:
        if self.core.now - self._since >= REMEMBERED_S:
            self._since = self.core.now
            self._older, self._newer = self._newer, {}
