"""What is left of partitions that are known here no more: removed in slices, until all is gone.

A partition may be large, and one commit that removes it all would hold up those of all others. A
start finds what was left, as a partition without a copy.
"""

from functools import partial

from docstore.storage.partitions import DropPartition, Oldest, PartitionResult
from docstore.streams.core import Core


class Dropping:
    """Goes on dropping what `core.dropped` names."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._looking: set[str] = set()

    def tick(self) -> None:
        """See what is left of each."""
        for name in self._core.dropped - self._looking:
            self._looking.add(name)
            self._core.look(Oldest(name, 1), partial(self._looked, name))

    def _looked(self, name: str, found: PartitionResult) -> None:
        self._looking.discard(name)
        if name not in self._core.dropped:
            return  # Begun anew, and so dropped to the end.
        self._core.store(DropPartition(name))
        if not found:
            self._core.dropped.discard(name)
