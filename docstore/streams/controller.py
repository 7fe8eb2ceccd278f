"""Controller of partitions: the node that owns the slot of a partition's document governs it.

The controller reads the documents, sends them to the replicas, and has a leader elected
(`elections.py`) where there is none. It acts only by conditional updates, so a controller that was
replaced changes nothing.
"""

from collections.abc import Callable, Sequence

from docstore.machines.core import NEVER
from docstore.machines.effects import Survey
from docstore.machines.reading import PagedReads
from docstore.machines.updates import Updates, tag_of
from docstore.model.document import Row
from docstore.ownership.by_lag import LED
from docstore.streams.controlled_partition import ControlledPartition
from docstore.streams.core import Core
from docstore.streams.elections import Elections
from docstore.streams.replica_set import ReplicaSet, Resolution, read_replica_set
from docstore.streams.topics import Topics
from docstore.streams.witnesses import Witnesses
from docstore.wire.streams_messages import (
    Notice,
)


class Controller:
    """Governs the partitions whose documents this node owns."""

    def __init__(
        self,
        core: Core,
        *,
        updates: Updates,
        witnesses: Witnesses,
        topics: Topics,
        entered: Callable[[ControlledPartition], None],
        forgotten: Callable[[ControlledPartition], None],
    ) -> None:
        """entered: called with each new version of a document.

        forgotten: called when this node stops governing a partition.
        """
        self._core = core
        self._entered = entered
        self._forgotten = forgotten
        self._updates = updates
        self._witnesses = witnesses
        self.governed: dict[str, ControlledPartition] = {}
        self.elections = Elections(
            core, topics, self.governed, update=self.update, notify=self.notify
        )
        self._led_by: dict[str, set[str]] = {}
        """Node -> links of the partitions that it leads, to find them when it dies."""
        self._terms_opened = -1
        self._survey = self._surveyed = 0
        """Numbers of the newest listing of our slots, and of the newest that was answered."""
        self._reading = PagedReads(core.view, updates, updates.learn)  # Calls `learn`.

    # Versions of documents

    def learn(self, row: Row) -> None:
        """Take a decided version of a replica-set document, if this node owns its slot."""
        known = self.governed.get(row.link)
        if known is not None and tag_of(row) <= known.tag:
            return
        if row.deleted or not self._core.view.owns(row.link):
            self.forget(row.link)
            return
        found = read_replica_set(row.state)
        if found is None:
            return
        before = known.found if known is not None else None
        if known is None or before is None or before.incarnation != found.incarnation:
            self.forget(row.link)
            known = ControlledPartition(row.link, tag_of(row), found, row.state, self._core.now)
            self.governed[row.link] = known
        else:
            self._led_by.get(before.leader, set()).discard(row.link)
            for node in set(before.replicas) - set(found.replicas):
                self._core.post(node, Notice, (row.link, *tag_of(row), row.state))
            known.tag, known.found, known.state = tag_of(row), found, row.state
            known.since = self._core.now
        self._enter(known)

    def forget(self, link: str) -> None:
        """Stop governing a partition."""
        known = self.governed.pop(link, None)
        if known is not None:
            self._led_by.get(known.found.leader, set()).discard(link)
            self.elections.forget(link)
            self._forgotten(known)

    def _enter(self, known: ControlledPartition) -> None:
        found = known.found
        if found.resolution is not Resolution.ELECTION:
            self.notify(known)
        if found.resolution in LED:
            self._led_by.setdefault(found.leader, set()).add(known.link)
        self.elections.enter(known)
        self._entered(known)
        self.elections.go_on(known)

    def notify(self, known: ControlledPartition, to: str | None = None) -> None:
        """Send the document to its replicas, or only to the node `to`."""
        found = known.found
        item = (known.link, *known.tag, known.state)
        for node in dict.fromkeys((*found.replicas, *found.adding, *found.leaving)):
            if to is None or node == to:
                self._core.post(node, Notice, item)

    # Passing of time

    def tick(self) -> None:
        """Replace the leaders whose nodes are dead, and advance the elections."""
        core = self._core
        if core.view.terms_opened != self._terms_opened:
            self._terms_opened = core.view.terms_opened
            for link in [link for link in self.governed if not core.view.owns(link)]:
                self.forget(link)
            self._survey = core.next_token()
            core.emit(Survey(self._survey))
        self._reading.go_on()
        for node, links in list(self._led_by.items()):
            if not links:
                del self._led_by[node]
            elif not core.view.is_alive(node) and self._witnesses.is_gone(node, self._near(links)):
                for link in sorted(links):
                    self.elections.elect(self.governed[link], "its leader is gone")
        self.elections.tick()

    def _near(self, links: set[str]) -> frozenset[str]:
        """Return the nodes that share a replica set with the leader: they are connected to it."""
        near: set[str] = set()
        for link in links:
            near.update(self.governed[link].found.replicas)
        return frozenset(near)

    @property
    def knows_all(self) -> bool:
        """Say whether all documents in the slots that this node owns have been read."""
        is_surveyed = (
            self._surveyed == self._survey and self._terms_opened == self._core.view.terms_opened
        )
        return is_surveyed and self._reading.is_done

    def surveyed(self, token: int, rows: Sequence[Row]) -> None:
        """Read the listed documents: a version found on the disk may not be decided."""
        self._surveyed = token
        self._reading.begin(
            row.link
            for row in reversed(rows)
            if row.link not in self.governed or tag_of(row) > self.governed[row.link].tag
        )

    def link_made(self, peer: str) -> None:
        """Send the partitions' documents to that node again: earlier messages may be lost."""
        for known in self.governed.values():
            if known.found.resolution is not Resolution.ELECTION:
                self.notify(known, peer)
            else:
                known.fenced_at = NEVER

    # Updates of documents

    def update(self, known: ControlledPartition, after: ReplicaSet) -> None:
        """Update a document if this node still owns it and its known version is the newest."""
        if not self._core.view.owns(known.link):
            self.forget(known.link)
            return
        known.is_updating = True
        self._updates.change(
            known.link,
            known.tag,
            after.pack(),
            lambda row, is_done: self._updated(known),
            is_relevant=lambda: self.governed.get(known.link) is known,
        )

    def _updated(self, known: ControlledPartition) -> None:
        """Continue after an update; `learn` was called first with the document that resulted."""
        known.is_updating = False
        if self.governed.get(known.link) is known:
            self.elections.go_on(known)
