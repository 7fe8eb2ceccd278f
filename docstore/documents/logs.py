"""The slots that this node holds: their logs, and the reigns over those that are its own."""

from collections.abc import Mapping

from docstore.documents.log import SlotLog, log_from_disk
from docstore.documents.reign import Reign
from docstore.model.document import Ballot
from docstore.ownership.by_hash import Placement
from docstore.storage.store import SlotRecovered


class Logs(dict[int, SlotLog]):
    """slot -> log."""

    __slots__ = ("_reigns", "changes", "dirty", "epoch_seen", "former", "newly_decided")

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
        """How often a reign has begun, opened or ended."""
        self._reigns: list[tuple[SlotLog, Reign]] | None = None  # None: not known any more.

    def reset(self, me: str, placement: Placement, found: Mapping[int, SlotRecovered]) -> None:
        """Begin again from what is on disk; every reign of ours is over.

        What is known to be decided, and is on the disk, stays so (I5): that is saved only now
        and then.
        """
        known = {slot: min(log.decided, log.durable) for slot, log in self.items()}
        self.clear()
        for slot in placement.held_by(me):
            log = log_from_disk(slot, placement, found.get(slot))
            log.decided = max(log.decided, min(known.get(slot, 0), log.end))
            self[slot] = log
        self._reigns = None
        self.former = {
            slot: each.record.promised for slot, each in found.items() if slot not in self
        }
        self.epoch_seen = max((log.promised[0] for log in self.values()), default=0)
        self.dirty.clear()
        self.newly_decided.clear()

    def reigns(self) -> list[tuple[SlotLog, Reign]]:
        """Return the slots that this node owns or tries to; every timer asks, at every tick."""
        if self._reigns is None:
            self._reigns = [(log, log.reign) for log in self.values() if log.reign]
        return self._reigns

    def set_reign(self, log: SlotLog, reign: Reign | None) -> None:
        """Begin a reign over a slot, or end it."""
        log.reign, self._reigns = reign, None
        self.changes += 1
