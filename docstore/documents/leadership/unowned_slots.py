"""Slots without an owner, and since when: they count in the node's readiness.

At each hand-over, and while members change, a slot has no owner for some tenths of a second.
Requests wait meanwhile, and none is refused. A load balancer should not move clients away and back
for that, so an unowned slot counts only after half the time in which a silent owner is replaced. A
slot that had no owner when this node started counts at once.
"""

from collections.abc import Iterable
from math import inf

from docstore.documents.core import Core
from docstore.documents.owners import claimant


class UnownedSlots:
    """The slots without an owner, as this node sees them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._since = dict.fromkeys(range(core.placement.slots), -inf)
        self._as_of: tuple[int, frozenset[str]] | None = None

    def tick(self) -> None:
        """Look at all slots again if the live members or their claims have changed."""
        core = self._core
        as_of = core.ownership_changes, frozenset(filter(core.is_alive, core.peers))
        if as_of != self._as_of:
            self._as_of = as_of
            vacant = (slot for slot in range(core.placement.slots) if not self._is_owned(slot))
            self._since = {slot: self._since.get(slot, core.now) for slot in vacant}

    def lasting(self) -> int:
        before = self._core.now - self._core.config.leadership.vacant_after_s
        return sum(since <= before for since in self._since.values())

    def among(self, slots: Iterable[int]) -> int:
        return sum(slot in self._since for slot in slots)

    def _is_owned(self, slot: int) -> bool:
        log = self._core.logs.get(slot)
        is_ours = log is not None and log.open_term is not None
        return is_ours or claimant(self._core, slot) is not None
