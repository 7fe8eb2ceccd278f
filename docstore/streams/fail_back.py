"""Fail-back: the preferred replica leads again once it has been in step for long enough.

The controller asks the leader to yield (`back_pressure.py`). An ordinary election then finds all
logs equally long and chooses by preference, so no other way to become leader is needed.
"""

from dataclasses import dataclass

from docstore.machines.core import NEVER
from docstore.ownership.by_lag import LED
from docstore.streams.controlled_partition import ControlledPartition
from docstore.streams.core import Core
from docstore.streams.leading import in_set
from docstore.wire.streams_messages import Yield


@dataclass(slots=True)
class Misplaced:
    """A partition that is not led by its preferred replica."""

    known: ControlledPartition
    ready_since: float
    asked_at: float = NEVER


class FailBack:
    """Moves leads back to the preferred replicas of this controller's partitions."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._misplaced: dict[str, Misplaced] = {}

    def entered(self, known: ControlledPartition) -> None:
        """Take a new version of a document."""
        found = known.found
        preferred = found.replicas[0]
        if found.resolution in LED and found.leader != preferred:
            self._misplaced.setdefault(known.link, Misplaced(known, self._core.now)).known = known
        else:
            self._misplaced.pop(known.link, None)

    def forgotten(self, known: ControlledPartition) -> None:
        """Drop a partition that this node no longer governs."""
        self._misplaced.pop(known.link, None)

    def tick(self) -> None:
        """Ask leaders to yield, a few at a time."""
        core = self._core
        if not core.config.transfers.fail_back_s:
            return
        under_way = 0
        for each in self._misplaced.values():
            if not self._is_ready(each.known):
                each.ready_since = core.now
            elif core.now - each.asked_at < 2 * core.config.transfers.yield_s:
                under_way += 1
            elif (
                core.now - each.ready_since >= core.config.transfers.fail_back_s
                and under_way < core.config.transfers.transfers_max
            ):
                under_way += 1
                each.asked_at = core.now
                found = each.known.found
                item = (each.known.name, found.epoch, found.replicas[0])
                core.counters["fail_backs"] += 1
                core.post(found.leader, Yield, item)

    def _is_ready(self, known: ControlledPartition) -> bool:
        preferred = known.found.replicas[0]
        return in_set(known.found.lrs, preferred) and self._core.view.may_own(preferred)
