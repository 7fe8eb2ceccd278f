"""What the nodes of a group said when they were asked: the pages that findings are made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Page = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node's own pages, or why there are none."""

    page: Page = field(default_factory=dict)
    """/core/management."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """/metrics by name and labels; nothing where they were not shown."""
    ahead_s: float = 0.0
    """Of its clock, before that of whoever asked."""
    unsure_s: float = 0.0
    """By how much `ahead_s` may be wrong: half of the time that the answer took."""
    why_not: str = ""
    """Why it did not say; "" if it did."""

    def metric(self, name: str) -> float:
        """Return a counter or a gauge, 0 where it is not there: it has not been counted yet."""
        return self.metrics.get(name, 0.0)


@dataclass(frozen=True, slots=True)
class Seen:
    """A group at one moment."""

    group: Page
    """/core/node-groups/default."""
    selector: Page
    """/core/node-selectors/default."""
    nodes: Mapping[str, NodeReport]
    """Those that were asked: whoever may be there."""
    factories: Sequence[Page] = ()
    """Declarations, with their `warnings`."""
    topics: Sequence[Page] = ()
    """Topics with their partitions."""
    now_s: float = 0.0
    """When it was seen, in seconds since 1970."""

    @property
    def configuration(self) -> Page:
        """Return the configuration in use."""
        found: Page = self.group["configuration"]
        return found

    @property
    def members(self) -> Sequence[Page]:
        """Return the entries of the configuration: who belongs to the group."""
        found: Sequence[Page] = self.configuration["members"]
        return found

    def answering(self) -> Iterator[tuple[str, NodeReport]]:
        """Yield the nodes that have said what they are."""
        yield from ((name, node) for name, node in self.nodes.items() if node.page)

    def is_there(self, name: str) -> bool:
        """Say whether a member is alive, and answers; one that must not say counts as answering."""
        alive = any(each["id"] == name and each["status"] == "ALIVE" for each in self.members)
        return alive and name in self.nodes and not self.nodes[name].why_not


def metrics_of(text: str) -> dict[str, float]:
    """Return name, with its labels, -> value for each sample in the text of /metrics."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name and not line.startswith("#"):
            try:
                found[name] = float(value)
            except ValueError:
                continue
    return found
