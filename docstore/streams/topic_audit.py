"""Audit: each controller of partitions compares them with their topics at intervals.

The work of a topic's controller may be undone. An update that it sent and abandoned may arrive
after its successor has found nothing to do. A partition may be created for a topic that was deleted
meanwhile. The controller of a deleted topic may die before it has marked all partitions. The audit
changes the partitions that differ from their topic, and marks those without one.
"""

from collections import deque
from dataclasses import replace
from functools import partial

from docstore.machines.updates import Updates
from docstore.model.operation import Answer
from docstore.streams.controlled_partition import ControlledPartition
from docstore.streams.controller import Controller
from docstore.streams.core import Core
from docstore.streams.provisioning import with_settings
from docstore.streams.replica_set import Resolution, topic_link_of
from docstore.streams.topic import Provision, Topic, read_topic


class TopicAudit:
    """Audits the topics of this controller's partitions."""

    def __init__(self, core: Core, controller: Controller, updates: Updates) -> None:
        self._core = core
        self._controller = controller
        self._updates = updates
        self._links: dict[str, set[str]] = {}
        """Topic -> links of its partitions that this controller governs."""
        self._looks: deque[tuple[float, str]] = deque()
        """(when to audit, topic), in order of time."""

    def entered(self, known: ControlledPartition) -> None:
        """Take a new version of a document."""
        if known.found.resolution is Resolution.DELETED:
            self.forgotten(known)
            return
        topic = topic_link_of(known.link)
        if topic not in self._links:
            self._links[topic] = set()
            self._look_later(topic)
        self._links[topic].add(known.link)

    def forgotten(self, known: ControlledPartition) -> None:
        """Drop a partition that this node no longer governs."""
        self._links.get(topic_link_of(known.link), set()).discard(known.link)

    def tick(self) -> None:
        """Audit the topics that are due."""
        while self._looks and self._looks[0][0] <= self._core.now:
            _, topic = self._looks.popleft()
            if self._links[topic]:
                self._look(topic)
            else:
                del self._links[topic]

    def _look_later(self, topic: str) -> None:
        if self._core.config.upkeep.orphans_s:
            self._looks.append((self._core.now + self._core.config.upkeep.orphans_s, topic))

    def _look(self, topic: str) -> None:
        """Read a topic, and compare it with those partitions that were known before the read."""
        judged = [self._controller.governed[link] for link in sorted(self._links[topic])]
        self._updates.read(topic, partial(self._looked, topic, judged))

    def _looked(self, topic: str, judged: list[ControlledPartition], answer: Answer) -> None:
        self._look_later(topic)
        found = None
        if answer.is_success and answer.row is not None:
            found = read_topic(answer.row.state)
        if found is None and answer.status != 404:
            return
        for known in judged:
            # A partition created again meanwhile is another object.
            if self._controller.governed.get(known.link) is known and not known.is_updating:
                self._judge(known, found)

    def _judge(self, known: ControlledPartition, topic: Topic | None) -> None:
        found = known.found
        if topic is None or topic.incarnation != found.incarnation:
            self._core.counters["orphans"] += 1
            after = replace(found, resolution=Resolution.DELETED)
        elif topic.resolution is Provision.PROVISIONED:
            after = with_settings(found, topic)
        else:
            return  # The topic's controller still provisions it.
        if after != found:
            self._controller.update(known, after)
