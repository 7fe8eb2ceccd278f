"""State of a partition at its controller, including an election under way."""

from dataclasses import dataclass, field

from docstore.machines.core import NEVER
from docstore.machines.updates import Tag
from docstore.streams.replica_set import ReplicaSet, partition_name
from docstore.wire.streams_messages import LogState


@dataclass(slots=True)
class ControlledPartition:
    """A partition whose document lies in a slot that this node owns."""

    link: str
    tag: Tag
    found: ReplicaSet
    state: bytes
    since: float
    """When the document took its present resolution."""
    is_updating: bool = False
    answers: dict[str, LogState] = field(default_factory=dict)
    """State of the log of each replica that has promised the epoch of this election."""
    fenced_at: float = NEVER
    excluded: set[str] = field(default_factory=set)
    """Candidates of this round that did not answer."""
    alive: frozenset[str] = frozenset()
    """Eligible nodes that were alive when the partition went offline."""
    is_asking: bool = False
    """Whether the topic is being read, to learn if unclean elections are allowed."""
    wished: tuple[int, str] = (0, "")
    """(epoch, node): preferred successor of that epoch's leader, among logs of equal length."""
    is_unclean: bool = False
    """Whether a replica without all committed records may be elected, which may lose records."""

    @property
    def name(self) -> str:
        """Return the name of the partition's data."""
        return partition_name(self.link, self.found.incarnation)

    def rank(self, node: str) -> int:
        """Return the rank of a node as a leader; the least is preferred."""
        if self.wished == (self.found.epoch - 1, node):
            return -1
        return self.found.replicas.index(node)

    @property
    def is_fresh(self) -> bool:
        """Say whether the partition never had a leader, so that no record can be lost."""
        return not self.found.lrs and not self.found.elr

    @property
    def eligible_nodes(self) -> frozenset[str]:
        """Return the nodes of the live replica set and of the eligible replicas."""
        if self.is_fresh or self.is_unclean:
            return frozenset(self.found.replicas)
        return frozenset(node for node, _ in (*self.found.lrs, *self.found.elr))
