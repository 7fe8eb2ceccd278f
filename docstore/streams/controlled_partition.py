"""State of a partition at its controller, with that of an election under way."""

from dataclasses import dataclass, field

from docstore.machines.core import NEVER
from docstore.machines.updates import Tag
from docstore.streams.replica_set import ReplicaSet, partition_name
from docstore.wire.streams_messages import LogState


@dataclass(slots=True)
class ControlledPartition:
    """A partition whose document lies in a slot of ours."""

    link: str
    tag: Tag
    found: ReplicaSet
    state: bytes
    since: float
    """When the document came to say so."""
    is_updating: bool = False
    answers: dict[str, LogState] = field(default_factory=dict)
    """Election: what the replicas have that promised its epoch."""
    fenced_at: float = NEVER
    excluded: set[str] = field(default_factory=set)
    """Candidates of this round that did not answer."""
    alive: frozenset[str] = frozenset()
    """Eligible nodes that were alive when the partition went offline."""
    is_asking: bool = False
    """Whether its topic is being asked about unclean elections."""
    wished: tuple[int, str] = (0, "")
    """(epoch, node): the preferred successor of that epoch's leader, if its log is as long."""
    is_unclean: bool = False
    """Whether a replica without all committed records may be elected: records may be lost."""

    @property
    def name(self) -> str:
        """Return the name under which replicas keep it."""
        return partition_name(self.link, self.found.incarnation)

    def rank(self, node: str) -> int:
        """Return the rank of a node in the order of preferred leaders; least first."""
        if self.wished == (self.found.epoch - 1, node):
            return -1
        return self.found.replicas.index(node)

    @property
    def is_fresh(self) -> bool:
        """Say whether it never had a leader: there is nothing to be lost."""
        return not self.found.lrs and not self.found.elr

    @property
    def eligible_nodes(self) -> frozenset[str]:
        """Return the nodes that may hold a copy that may lead."""
        if self.is_fresh or self.is_unclean:
            return frozenset(self.found.replicas)
        return frozenset(node for node, _ in (*self.found.lrs, *self.found.elr))
