"""The slots that this node holds: their logs, and the terms over those that are its own."""

from collections.abc import Mapping

from docstore.documents.log import SlotLog, log_from_disk
from docstore.documents.term import Term
from docstore.model.document import Ballot
from docstore.ownership.by_hash import Placement
from docstore.storage.store import SlotRecovered


class Logs(dict[int, SlotLog]):
    """slot -> log."""

    __slots__ = ("_terms", "changes", "dirty", "epoch_seen", "former", "newly_decided")

    def __init__(self) -> None:
        super().__init__()
        self.dirty: set[int] = set()
        """Slots with rows that are not proposed yet."""
        self.newly_decided: set[int] = set()
        """Owned slots whose replicas have not been told how far they are decided."""
        self.former: dict[int, Ballot] = {}
        """What was promised about slots that have left this node."""
        self.epoch_seen = 0
        """No epoch was heard of that is greater."""
        self.changes = 0
        """How often a term has begun, opened or ended."""
        self._terms: list[tuple[SlotLog, Term]] | None = None  # None: not known any more.

    def reset(self, me: str, placement: Placement, found: Mapping[int, SlotRecovered]) -> None:
        """Begin again from what is on disk; every term of ours is over.

        What is known to be decided, and is on the disk, stays so (I5): that is saved only now
        and then.
        """
        known = {slot: min(log.decided, log.durable) for slot, log in self.items()}
        self.clear()
        for slot in placement.held_by(me):
            log = log_from_disk(slot, placement, found.get(slot))
            log.decided = max(log.decided, min(known.get(slot, 0), log.end))
            self[slot] = log
        self._terms = None
        self.former = {
            slot: each.record.promised for slot, each in found.items() if slot not in self
        }
        self.epoch_seen = max((log.promised[0] for log in self.values()), default=0)
        self.dirty.clear()
        self.newly_decided.clear()

    def terms(self) -> list[tuple[SlotLog, Term]]:
        """Return the slots that this node owns or tries to; every timer asks, at every tick."""
        if self._terms is None:
            self._terms = [(log, log.term) for log in self.values() if log.term]
        return self._terms

    def set_term(self, log: SlotLog, term: Term | None) -> None:
        """Begin a term over a slot, or end it."""
        log.term, self._terms = term, None
        self.changes += 1
