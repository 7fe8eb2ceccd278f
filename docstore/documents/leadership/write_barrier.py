"""A side road: for a moment an owner proposes nothing, so that all owners can stand still at once.

What is under way is decided; updates that arrive wait, for a twentieth of a second; reads are
served, since all that they can see was decided before. An instant at which every owner stands still
is one cut through all slots that no cause crosses (`reads/scans/barrier.py`). Safety does not rest
on it: it is a delay.

Source: the pause of a coordinated snapshot (Chandy and Lamport, 1985, do without one by marking the
channels; ours are the clients, who carry no marks).
"""

from collections.abc import Callable

from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.reign import Phase, Reign

Reopen = Callable[[SlotLog, Reign], None]
"""Serves what has waited."""

STILL_S_MAX = 0.2


class WriteBarrier:
    """The owner's side of a barrier."""

    def __init__(self, core: Core, reopen: Reopen) -> None:
        self.core = core
        self._reopen = reopen
        self._until = 0.0

    def begin(self, seconds: float) -> None:
        """Propose nothing new in the slots that are ours, for so long."""
        self._until = self.core.now + min(seconds, STILL_S_MAX)
        for _, reign in self.core.logs.reigns():
            if reign.phase is Phase.OPEN:
                reign.updates_deferred_until = self._until
        self.core.counters["stood_still"] += 1

    def tick(self) -> None:
        """Serve what has waited, once the time is over."""
        if self._until == 0.0 or self.core.now < self._until:
            return
        self._until = 0.0
        for log, reign in self.core.logs.reigns():
            if reign.clients.deferred and reign.updates_deferred_until:
                self._reopen(log, reign)
