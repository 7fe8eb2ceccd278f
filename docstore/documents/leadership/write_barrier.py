"""Write barrier: all owners defer updates for a moment, which gives an instant without updates.

Rows under way are decided. Updates that arrive wait for a twentieth of a second. Reads are served,
because they see only rows that were decided before. An instant at which every owner pauses is a
consistent cut through all slots: no update after it caused one before it
(`reads/scans/barrier.py`). Safety does not depend on the barrier: it only delays.

Source: the pause of a coordinated snapshot (Chandy and Lamport, 1985, avoid the pause by marking
the channels; here the channels are the clients, which carry no marks).
"""

from collections.abc import Callable

from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.term import Phase, Term

Reopen = Callable[[SlotLog, Term], None]
"""Callback that serves the operations that waited."""

STILL_S_MAX = 0.2


class WriteBarrier:
    def __init__(self, core: Core, reopen: Reopen) -> None:
        self.core = core
        self._reopen = reopen
        self._until = 0.0

    def begin(self, seconds: float) -> None:
        """Defer new updates in the slots of this node for some seconds."""
        self._until = self.core.now + min(seconds, STILL_S_MAX)
        for _, term in self.core.logs.terms():
            if term.phase is Phase.OPEN:
                term.updates_deferred_until = self._until
        self.core.counters["stood_still"] += 1

    def tick(self) -> None:
        if self._until == 0.0 or self.core.now < self._until:
            return
        self._until = 0.0
        for log, term in self.core.logs.terms():
            if term.clients.deferred and term.updates_deferred_until:
                self._reopen(log, term)
