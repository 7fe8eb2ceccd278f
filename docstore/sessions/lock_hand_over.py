"""Turns in elections and locks: wakes the next candidate, and promotes it after the grace.

The order of candidates follows from the document alone (`ownership/by_store.py`). This file adds
two things. A waiting candidate is answered when its turn has come, and no other is woken. And when
the lease of a holder has expired, the next candidate may have to wait for a grace, which the owner
measures by its own clock, and in full again under a new term. So a promotion names its term.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from docstore.errors import DocstoreError
from docstore.machines.updates import Updates
from docstore.model import json
from docstore.model.document import Row
from docstore.model.service import Refusal
from docstore.ownership.by_store import Turns
from docstore.services.lock_queue import turns_of
from docstore.sessions.calling import Served
from docstore.sessions.core import Core
from docstore.sessions.deadlines import Deadlines
from docstore.sessions.owned import Known, OwnedDocuments
from docstore.sessions.waiting import Waiting

PROMOTE = json.dump({"kind": "PromoteRequest"})


class QueueState(NamedTuple):
    """State of an election or a lock.

    present: (name, lease) of the holder and of each candidate in the queue.
    """

    row: Row
    turns: Turns
    present: frozenset[tuple[str, str]]


class Promoting:
    """Promotes candidates in the elections of this node's slots, or in its locks.

    The calls of one of the two parts serve both.
    """

    def __init__(
        self, path: str, core: Core, owned: OwnedDocuments, updates: Updates, *, waiting: Waiting
    ) -> None:
        self.path = path
        self.calls: Mapping[str, Callable[[Served], None]] = {"turn": self._turn}
        self._core = core
        self._owned = owned
        self._updates = updates
        self._waiting = waiting
        self._graces: Deadlines[tuple[str, int]] = Deadlines(core)
        """Graces by (link, token of the former holder): each expiry has a grace of its own."""
        self._promoting: set[tuple[str, int]] = set()

    def read(self, row: Row) -> QueueState | None:
        """Return the state of an election or a lock, None if the row is of neither."""
        try:
            turns = turns_of(json.load(row.state))
        except (Refusal, DocstoreError):
            return None
        entries = turns.queue if turns.holder is None else (turns.holder, *turns.queue)
        return QueueState(row, turns, frozenset((each.name, each.lease) for each in entries))

    def entered(self, known: Known) -> None:
        """Do nothing: `changed`, which is called next, grants the grace in full."""

    def changed(self, known: Known) -> None:
        """Begin a grace, or promote a candidate that joined after the grace had ended."""
        turns: Turns = known.found.turns
        key = (known.link, turns.token)
        if not turns.is_in_grace:
            self._graces.drop(key)
        elif key not in self._graces:
            self._graces.grant(key, turns.grace_ms / 1000)
        elif self._graces.is_ending(key):
            self._promote(known)

    def left(self, known: Known) -> None:
        """Stop measuring the grace."""
        self._graces.drop((known.link, known.found.turns.token))

    def tick(self) -> None:
        """Promote the next candidates where the grace is over."""
        for (link, token), _ in self._graces.overdue(self._core.config.endings_max):
            known = self._owned.at(link)
            if known is not None and known.found.turns.token == token:
                self._promote(known)

    def _promote(self, known: Known) -> None:
        link, tag, turns = known.link, known.tag, known.found.turns
        key = (link, turns.token)
        if not turns.queue or key in self._promoting:
            return
        self._promoting.add(key)

        def told(row: Row | None, is_done: bool) -> None:
            """Check again if the promotion failed because the queue had changed."""
            self._promoting.discard(key)
            now = self._owned.at(link)
            if not is_done and now is not None and now.tag != tag:
                self.changed(now)

        self._core.counters["promotions"] += 1
        self._updates.change(
            link, tag, PROMOTE, told, only_epoch=known.epoch,
            is_relevant=lambda: self._owned.at(link) is not None,
        )  # fmt: skip

    def _turn(self, served: Served) -> None:
        """Keep a candidate waiting until it is the holder or is no longer in the queue.

        argument: (name, lease, time before the deadline at which to answer in ms, version that has
        the candidate; an older version is ignored). The result is the row of the document, empty if
        there is none. At the end of the wait it is the present row, or None if no row has been
        read.
        """
        name, lease, spare_ms, version = served.argument

        def wanted(known: Known | None) -> list[object] | None:
            if known is None:
                return []
            standing: QueueState = known.found
            if standing.row.version < version:
                return None
            holder = standing.turns.holder
            is_holder = holder is not None and (holder.name, holder.lease) == (name, lease)
            waits_on = not is_holder and (name, lease) in standing.present
            return None if waits_on else list(standing.row)

        def late(known: Known | None) -> list[object] | None:
            return None if known is None else list(known.found.row)

        wait_s = served.deadline - self._core.now - spare_ms / 1000
        self._waiting.wait(served, max(0.0, wait_s), wanted, late)
