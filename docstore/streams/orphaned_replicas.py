"""Orphaned replicas: those no longer needed, found by reading their documents at intervals.

A partition may be deleted, or moved to other nodes, while this node cannot be reached. If its
leader is gone too, no message tells this node. So it reads the documents of the replicas on its
disk, one at a time.
"""

from collections import deque

from docstore.streams.core import Core
from docstore.streams.log import PartitionLogs
from docstore.streams.role_transitions import Roles


class OrphanedReplicas:
    """Reads the documents of this node's replicas in rounds."""

    def __init__(self, core: Core, logs: PartitionLogs, roles: Roles) -> None:
        self._core = core
        self._logs = logs
        self._roles = roles
        self._left: deque[str] = deque()
        self._looked_at = core.now

    def tick(self) -> None:
        """Read the document of the next partition, if it is due."""
        core, logs = self._core, self._logs
        if (core.now - self._looked_at) * max(1, len(logs)) < core.config.upkeep.strays_s:
            return
        self._looked_at = core.now
        if not self._left:
            self._left.extend(sorted(logs))
        log = logs.get(self._left.popleft()) if self._left else None
        if log is not None:
            self._roles.reread(log)
