"""Retention: delete records that are too old or too many, by the settings of their topic.

Only the leader decides (rule RC11), by times that are certainly past (rule D6) and by sizes;
followers trim to the log start that it sends. It deletes whole batches below the high watermark,
and always keeps one.
"""

import heapq
from functools import partial

from docstore.model.streams_batch import BatchHeader
from docstore.storage.partitions import CorruptPartition, Oldest, PartitionResult, Size
from docstore.streams.catchup import FollowerCatchUp
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.leading import Leading, Leads
from docstore.streams.replicas import Replicas
from docstore.streams.topic import Topic
from docstore.streams.topics import Topics

LOOKED_AT = 64
"""Batches that one pass over a partition may delete; after a deletion the next pass follows soon.
"""


class RetentionTask:
    """Applies retention at intervals to the partitions that this node leads."""

    def __init__(
        self,
        core: Core,
        leads: Leads,
        disk: Disk,
        *,
        replicas: Replicas,
        catchup: FollowerCatchUp,
        topics: Topics,
    ) -> None:
        self._core = core
        self._leads = leads
        self._disk = disk
        self._replicas = replicas
        self._catchup = catchup
        self._topics = topics
        self._due: list[tuple[float, int, Leading]] = []

    def opened(self, leading: Leading) -> None:
        """Plan the passes over a partition that this node has begun to lead."""
        self._plan(leading, self._core.config.upkeep.retention_s)

    def _plan(self, leading: Leading, after_s: float) -> None:
        heapq.heappush(self._due, (self._core.now + after_s, self._core.next_token(), leading))

    def tick(self) -> None:
        """Begin the passes that are due."""
        while self._due and self._due[0][0] <= self._core.now:
            leading = heapq.heappop(self._due)[2]
            if self._is_led(leading):
                self._topics.read(leading.log.name, partial(self._judge, leading))

    def _is_led(self, leading: Leading) -> bool:
        return self._leads.get(leading.log.name) is leading

    def _judge(self, leading: Leading, topic: Topic | None) -> None:
        log = leading.log
        if topic is None or not topic.expires or not self._is_led(leading):
            self._plan(leading, self._core.config.upkeep.retention_s)
            return
        self._disk.read(
            Size(log.name),
            lambda size: self._disk.read(
                Oldest(log.name, LOOKED_AT), partial(self._trim, leading, topic, size)
            ),
        )

    def _trim(
        self, leading: Leading, topic: Topic, size: PartitionResult, found: PartitionResult
    ) -> None:
        log, core = leading.log, self._core
        if isinstance(found, CorruptPartition) or isinstance(size, CorruptPartition):
            self._plan(leading, core.config.upkeep.retention_s)
            return
        headers = [each for each in found if isinstance(each, BatchHeader)]
        left = sum(each for each in size if isinstance(each, int))
        before_us = core.view.past_us() - topic.retention_ms * 1000
        start = log.start
        for header in headers:
            too_old = topic.retention_ms and header.last_us < before_us
            too_much = topic.retention_bytes and left > topic.retention_bytes
            if not (too_old or too_much) or header.end > min(log.high, log.end - 1):
                break
            start, left = header.end, left - header.size
        if self._is_led(leading) and start > log.start:
            core.counters["trimmed_records"] += start - log.start
            self._replicas.trim(log, start)
            self._catchup.remind(leading)  # Followers must trim their logs as well.
            self._plan(leading, 0.0)
        else:
            self._plan(leading, core.config.upkeep.retention_s)
