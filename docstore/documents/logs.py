"""The logs of the slots that this node holds, and its terms over the slots that it owns."""

from collections.abc import Mapping

from docstore.documents.log import SlotLog, log_from_disk
from docstore.documents.term import Term
from docstore.model.document import Ballot
from docstore.ownership.by_hash import Placement
from docstore.storage.store import SlotRecovered


class Logs(dict[int, SlotLog]):
    __slots__ = ("_terms", "changes", "dirty", "epoch_seen", "former", "newly_decided")

    def __init__(self) -> None:
        super().__init__()
        self.dirty: set[int] = set()
        """Slots with rows that are not proposed yet."""
        self.newly_decided: set[int] = set()
        """Owned slots whose newly decided rows the replicas have not been told of."""
        self.former: dict[int, Ballot] = {}
        """Slot that has left this node -> its last promise."""
        self.epoch_seen = 0
        """Greatest epoch that this node has seen."""
        self.changes = 0
        """Count of terms begun, opened or ended."""
        self._terms: list[tuple[SlotLog, Term]] | None = None  # None: to be rebuilt.

    def reset(self, me: str, placement: Placement, found: Mapping[int, SlotRecovered]) -> None:
        """Reload from the disk; every term of this node is over.

        Decided rows that are on the disk stay decided (I5): records on the disk lag behind.
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
        """Return the slots that this node owns or tries to own; cached, since every tick asks."""
        if self._terms is None:
            self._terms = [(log, log.term) for log in self.values() if log.term]
        return self._terms

    def set_term(self, log: SlotLog, term: Term | None) -> None:
        log.term, self._terms = term, None
        self.changes += 1
