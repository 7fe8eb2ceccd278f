"""Confirmation of the epoch before a producer is rejected for its sequence number (rule RN4).

A leader that was replaced without knowing it lacks the batches of its successor, so a producer's
next number looks like a gap to it. Followers that it cannot reach do not correct it. So it reads
the partition's document from a majority after the records have arrived. If the document names this
epoch and this node, no other node has led until then, and the gap is real.
"""

from collections.abc import Callable
from functools import partial

from docstore.machines.updates import Updates
from docstore.model.operation import Answer
from docstore.streams.core import Core
from docstore.streams.leading import Leading, Leads, PendingAppend
from docstore.streams.purgatory import Purgatory
from docstore.streams.replica_set import read_replica_set

Judge = Callable[[Leading, PendingAppend], None]


class EpochCheck:
    """Reads the document of a partition before its leader rejects records."""

    def __init__(self, core: Core, leads: Leads, purgatory: Purgatory, updates: Updates) -> None:
        self._core = core
        self._leads = leads
        self._purgatory = purgatory
        self._updates = updates

    def ask(self, leading: Leading, pending: PendingAppend, judge: Judge) -> None:
        """Call `judge` again once a read of the document has confirmed this epoch."""
        self._core.counters["refusals_confirmed"] += 1
        self._updates.read(leading.log.link, partial(self._read, leading, pending, judge))

    def _read(self, leading: Leading, pending: PendingAppend, judge: Judge, answer: Answer) -> None:
        found = None
        if answer.is_success and answer.row is not None:
            self._updates.learn(answer.row)  # Ends our lead, if the document says so.
            found = read_replica_set(answer.row.state)
        own = (leading.epoch, self._core.me)
        is_own = found is not None and (found.epoch, found.leader) == own
        pending.is_confirmed = True
        if not is_own or self._leads.get(leading.log.name) is not leading:
            self._purgatory.answer(pending, leading, "not-leader")
        elif not pending.is_answered:
            judge(leading, pending)
