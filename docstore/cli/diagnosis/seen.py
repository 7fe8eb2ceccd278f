"""The pages with which the nodes of a group answered, from which findings are made."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Page = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node's pages, or the reason why the node did not answer."""

    page: Page = field(default_factory=dict)
    """Content of /core/management."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Samples of /metrics by name and labels; empty if the caller may not read them."""
    ahead_s: float = 0.0
    """Seconds by which the node's clock is ahead of the caller's."""
    unsure_s: float = 0.0
    """Error bound of `ahead_s`: half of the time that the answer took."""
    why_not: str = ""
    """Reason why the node did not answer; "" if it did."""

    def metric(self, name: str) -> float:
        """Return a counter or a gauge; 0 for one that is absent because nothing was counted yet."""
        return self.metrics.get(name, 0.0)


@dataclass(frozen=True, slots=True)
class Seen:
    """The pages of a group at one moment."""

    group: Page
    """Content of /core/node-groups/default."""
    selector: Page
    """Content of /core/node-selectors/default."""
    nodes: Mapping[str, NodeReport]
    """Members that were asked: those that are alive and have an address."""
    factories: Sequence[Page] = ()
    """Declarations, with their `warnings`."""
    topics: Sequence[Page] = ()
    """Topics with their partitions."""
    now_s: float = 0.0
    """Time of the answers, in seconds since 1970."""

    @property
    def configuration(self) -> Page:
        found: Page = self.group["configuration"]
        return found

    @property
    def members(self) -> Sequence[Page]:
        found: Sequence[Page] = self.configuration["members"]
        return found

    def answering(self) -> Iterator[tuple[str, NodeReport]]:
        yield from ((name, node) for name, node in self.nodes.items() if node.page)

    def is_there(self, name: str) -> bool:
        """Say whether a member is alive and answers; a refusal to show its page is an answer."""
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
