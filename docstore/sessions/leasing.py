"""Leases at their owner: how long each lives, and how it ends.

S1 decisions: by the owner of the lease's slot, for one term; its table begins empty (`owned.py`).
S2 full again: a lease that is first seen under a term has its whole time from that moment. A
   change of owner lengthens leases and never shortens one.
S3 renewal: in memory, the moment it arrives (longer is always safe), and answered after a read that
   was asked later has confirmed the term (`confirming.py`).
S4 expiry: an overdue lease is *ending*: until the outcome of the update is known, the owner neither
   renews it nor answers that it is alive. The update names the term: otherwise the next owner would
   apply an update of a deposed one, since the document is unchanged. The endings in flight and the
   endings per second are bounded, so that clients are served as well.
S5 what has ended is swept: `attachment_cleanup.py`.
S6 a holder that has stopped ends its lease at once. A client that ends the lease of another holder
   stops its renewals, and it ends when its time is over.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from docstore.machines.updates import Updates
from docstore.model import json
from docstore.model.document import Row
from docstore.services.leases import LEASES, LeasePhase, LeaseState, read_lease
from docstore.sessions.attachment_cleanup import Sweeping
from docstore.sessions.calling import Served
from docstore.sessions.confirming import Confirming
from docstore.sessions.core import Core
from docstore.sessions.deadlines import Deadlines
from docstore.sessions.owned import Known, OwnedDocuments


@dataclass(slots=True)
class KeepAliveBatch:
    """Keep-alives of one call, which is answered once all of them are decided."""

    served: Served
    left: int
    alive: dict[str, int] = field(default_factory=dict)
    """Lease id -> its time to live in ms."""
    ended: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    """Ids whose state this node cannot confirm now."""

    def decided(self) -> None:
        """Count one decided keep-alive, and reply after the last."""
        self.left -= 1
        if not self.left:
            self.served.reply((self.alive, self.ended, self.missing, self.again))


class Leasing:
    """Renews and ends the leases whose documents this node owns."""

    path = LEASES

    def __init__(
        self, core: Core, owned: OwnedDocuments, confirming: Confirming, updates: Updates
    ) -> None:
        self._core = core
        self._owned = owned
        self._confirming = confirming
        self._updates = updates
        self.deadlines = Deadlines[str](core)
        self.sweeping = Sweeping(core, owned)
        self.calls: Mapping[str, Callable[[Served], None]] = {
            "keep-alive": self._keep_alive,
            "remaining": self._remaining,
        }
        self._endings = 0
        """Number of endings in flight."""
        self._allowed = 0.0
        """Number of endings that the rate allows to begin now."""
        self._allowed_at = core.now
        self._again: deque[tuple[float, Known]] = deque()
        """(when to try again, lease) for each ending that failed, under the same term."""

    # Documents of leases

    def read(self, row: Row) -> LeaseState | None:
        """Return the state of a lease's document."""
        return read_lease(row.state)

    def entered(self, known: Known) -> None:  # Tests replace this.
        """Give a lease its whole time, from now (S2)."""
        lease: LeaseState = known.found
        if lease.phase is not LeasePhase.ENDED:
            self.deadlines.grant(known.link, lease.ttl_ms / 1000)
            self._core.counters["granted_again"] += known.tag[0] < known.epoch

    def changed(self, known: Known) -> None:
        """Sweep a lease that has ended; read it first if only a listing says so."""
        if known.found.phase is not LeasePhase.ENDED:
            if known.link not in self.deadlines:
                self.entered(known)  # A listing had shown an end that was never decided.
        elif known.is_sure:
            self.deadlines.drop(known.link)
            self.sweeping.begin(known)
        else:
            self._make_sure(known)

    def left(self, known: Known) -> None:
        """Stop measuring and sweeping a lease."""
        self.deadlines.drop(known.link)
        self.sweeping.forget(known.link)

    # Calls of clients

    def _keep_alive(self, served: Served) -> None:
        """Renew leases.

        argument: the ids of leases in slots of this node. The result: ({id: ttlMs} of those alive,
        ids that have ended, ids that are unknown, ids to ask for again).
        """
        ids: Sequence[str] = served.argument
        batch = KeepAliveBatch(served, len(ids))
        self._core.counters["keepalives"] += len(ids)
        for each in ids:
            link = f"{LEASES}/{each}"
            known = self._owned.at(link)
            if known is not None and known.found.phase is LeasePhase.ALIVE:
                self.deadlines.renew(link)
            self._confirm(batch, each, link)

    def _confirm(self, batch: KeepAliveBatch, each: str, link: str) -> None:
        def read(known: Known | None) -> None:
            if known is None:
                batch.missing.append(each)
            elif known.found.phase is not LeasePhase.ALIVE:
                batch.ended.append(each)
            elif self.deadlines.is_ending(link):
                batch.again.append(each)
            else:
                batch.alive[each] = known.found.ttl_ms
            batch.decided()

        def lost() -> None:
            batch.again.append(each)
            batch.decided()

        self._confirming.confirm(link, read, lost)

    def _remaining(self, served: Served) -> None:
        """Reply how long a lease has left in ms; None if it has ended or does not exist."""

        def read(known: Known | None) -> None:
            left_s = self.deadlines.left_s(served.link)
            served.reply(None if left_s is None else int(left_s * 1000))

        self._confirming.confirm(served.link, read, served.elsewhere)

    # Endings of overdue leases

    def tick(self) -> None:
        """End overdue leases, within the bounds, and go on with the sweeps."""
        core, config = self._core, self._core.config
        allowed = self._allowed + (core.now - self._allowed_at) * config.endings_per_s
        self._allowed, self._allowed_at = min(allowed, config.endings_max), core.now
        for _ in range(len(self._again)):
            if self._again[0][0] > core.now or self._room < 1:
                break
            known = self._again.popleft()[1]
            if self._owned.at(known.link) is known:
                self._end(known)
        for link, overdue_s in self.deadlines.overdue(self._room):
            core.counters["expired"] += 1
            core.counters["expiry_lag_us"] += int(overdue_s * 1e6)
            overdue = self._owned.at(link)
            if overdue is not None:
                self._end(overdue)
        self.sweeping.tick()

    @property
    def _room(self) -> int:
        return min(int(self._allowed), self._core.config.endings_max - self._endings)

    def _end(self, known: Known) -> None:
        """Update an overdue lease's document to ended, unless it has changed meanwhile."""
        if known.found.phase is LeasePhase.ENDED:
            if not known.is_sure:
                self._make_sure(known)
            return
        link = known.link
        self._endings += 1
        self._allowed -= 1
        ended_us = self._core.view.wall_now_us()
        request = {"kind": "EndRequest", "why": "expired", "endedMicros": ended_us}
        self._updates.change(
            link,
            known.tag,
            json.dump(request),
            lambda row, is_done: self._ended(known, row),
            is_relevant=lambda: self._owned.at(link) is known,
            only_epoch=known.epoch,
        )

    def _make_sure(self, known: Known) -> None:
        """Read a lease that a listing shows as ended, so that the table has the decided version."""

        def unanswered() -> None:
            self._again.append((self._core.now + self._core.config.again_s, known))

        self._confirming.confirm(known.link, lambda _: None, unanswered)

    def _ended(self, known: Known, row: Row | None) -> None:
        """Continue after an ending; a lease that is still alive is still overdue."""
        self._endings -= 1
        if row is None:  # The document may be deleted: read it.
            go_on = partial(self._go_on, known)
            self._confirming.confirm(known.link, go_on, go_on)
        else:
            self._go_on(known)

    def _go_on(self, known: Known, now: Known | None = None) -> None:
        is_ours = self._owned.at(known.link) is known
        if is_ours and known.found.phase is not LeasePhase.ENDED:
            self._again.append((self._core.now + self._core.config.again_s, known))
