"""Leaders of partitions as an entry node knows them, from documents that it reads when needed.

An entry may be outdated: then the node that it names answers that it does not lead, and the
document is read again. Only partitions that a client has asked for here, or whose documents this
node has learned, have an entry.
"""

from collections.abc import Callable

from docstore.machines.updates import Tag, Updates, tag_of
from docstore.model.document import Row
from docstore.model.operation import Answer
from docstore.ownership.by_lag import LED
from docstore.streams.core import Core
from docstore.streams.effects import Problem
from docstore.streams.replica_set import ReplicaSet, Resolution, partition_name, read_replica_set

Then = Callable[[Problem | None], None]

NO_PARTITION = Problem(404, "no-such-partition", "there is no such partition")
ENTRIES_MAX = 100_000


class Directory:
    """Partition's document -> its last known version."""

    def __init__(self, core: Core, updates: Updates) -> None:
        self._core = core
        self._updates = updates
        self._known: dict[str, tuple[Tag, ReplicaSet, str, str]] = {}
        """Document -> (its tag, its content, leader, name of the partition's data)."""
        self._waiting: dict[str, list[Then]] = {}

    def learn(self, row: Row) -> None:
        """Take a version of a document, or its deletion."""
        found = None if row.deleted else read_replica_set(row.state)
        known = self._known.get(row.link)
        if found is not None:
            self.take(row.link, tag_of(row), found)
        elif known is not None and known[0] < tag_of(row):
            del self._known[row.link]

    def take(self, link: str, tag: Tag, found: ReplicaSet) -> None:
        """Take a version of a document, unless a newer one is known."""
        known = self._known.get(link)
        if known is not None and known[0] >= tag:
            return
        if len(self._known) >= ENTRIES_MAX:
            del self._known[next(iter(self._known))]
        leader = found.leader if found.resolution in LED else found.candidate
        self._known[link] = (tag, found, leader, partition_name(link, found.incarnation))

    def find(self, link: str) -> ReplicaSet | None:
        """Return the known version of a partition's document, None if there is none."""
        known = self._known.get(link)
        return known[1] if known is not None else None

    def leader(self, link: str) -> str:
        """Return the node that leads a partition, as far as known; "" if none does."""
        known = self._known.get(link)
        return known[2] if known is not None else ""

    def name(self, link: str) -> str:
        """Return the name of a partition's data, whose document must be known."""
        return self._known[link][3]

    def refresh(self, link: str, then: Then) -> None:
        """Read a document, then call `then` with None, or with the problem if the read failed."""
        waiting = self._waiting.setdefault(link, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._updates.read(link, lambda answer: self._read(link, answer))

    def _read(self, link: str, answer: Answer) -> None:
        waiting = self._waiting.pop(link)
        problem: Problem | None = None
        if answer.row is not None and answer.is_success:
            self._updates.learn(answer.row)
            found = self.find(link)
            if found is None or found.resolution is Resolution.DELETED:
                problem = NO_PARTITION
        elif answer.status == 404:
            self._known.pop(link, None)
            problem = NO_PARTITION
        else:
            problem = Problem(503, "no-leader", f"{link} cannot be read: {answer.detail}")
        for then in waiting:
            then(problem)
