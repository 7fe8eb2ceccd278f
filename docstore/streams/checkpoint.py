"""Saves at intervals, which only make the next start quicker.

A high watermark on the disk is a lower bound. Producer state that was not saved is read again from
the headers of the batches.
"""

from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.log import PartitionLogs


class Saving:
    """Saves the records of partitions whose high watermark has moved."""

    def __init__(self, core: Core, logs: PartitionLogs, disk: Disk) -> None:
        self._core = core
        self._logs = logs
        self._disk = disk
        self._saved_at = core.now

    def tick(self) -> None:
        """Save the records of those partitions every few seconds."""
        core = self._core
        if core.now - self._saved_at < core.config.upkeep.save_s:
            return
        self._saved_at = core.now
        raised, self._disk.raised = self._disk.raised, {}
        for log in raised.values():
            if not self._logs.holds(log):
                continue
            if log.batches_since >= core.config.upkeep.snapshot_batches:
                log.producers.expire(core.expired_us(log.last_us))
                log.snapshot_producers()
            self._disk.save(log)
