"""Read the page of a topic: the offsets and the leader of each partition."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from docstore.pipeline.errors import PipelineError
from docstore.pipeline.group_client import GroupClient, attempts
from docstore.pipeline.options import Options

TOPICS = "/core/streams"
MEMBERS = "/core/node-groups/default"
RETRIES, TIMEOUT_MS = 5, 30_000


class NoLeader(PipelineError):
    """A partition has no leader that knows its committed offset."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Offsets of a partition, as its leader knows them.

    base: the first offset that is kept. high: the offset after the last committed record. end: the
    offset after the last record of the leader. All are -1 while no leader answers. Only high is -1
    while a new leader does not know what its predecessor has committed.
    """

    base: int
    high: int
    end: int
    leader: str
    """The id of the leader."""

    @property
    def is_known(self) -> bool:
        """True if the leader has answered and knows the committed offset."""
        return self.high >= 0

    @property
    def why_unknown(self) -> str:
        """The reason why the committed offset is unknown."""
        if not self.leader:
            return "it has no leader"
        if self.base < 0:
            return f"its leader {self.leader} does not answer"
        return f"its leader {self.leader} does not know yet what is committed"


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic at one moment."""

    name: str
    incarnation: str
    """Id that differs for each topic that is created under the same name."""
    batch_bytes: int
    """Greatest number of bytes of records in a request for one partition."""
    partitions: tuple[Partition, ...]


def group_of(options: Options) -> GroupClient:
    timeout_s, retries = options.timeout_s(TIMEOUT_MS), options.number("retries", RETRIES)
    return GroupClient(options.urls, timeout_s=timeout_s, retries=retries)


def link_of(topic: str) -> str:
    return f"{TOPICS}/{quote(topic, safe='')}"


def topic_now(options: Options) -> TopicState:
    """Return the topic, whose partitions may be unknown. Raises GroupError, OSError."""
    page = group_of(options).json("GET", link_of(options.topic))
    partitions = tuple(map(_partition, page["partitions"]))
    return TopicState(options.topic, page["incarnation"], page["batchBytesMax"], partitions)


def whole_topic(options: Options) -> TopicState:
    """Return the topic once the committed offset of every partition is known.

    Raises NoLeader, GroupError, OSError.
    """
    why = ""
    for _ in attempts(options.number("retries", RETRIES) + 1):
        topic = topic_now(options)
        unknown = next((n for n, each in enumerate(topic.partitions) if not each.is_known), None)
        if unknown is None:
            return topic
        why = f"partition {unknown} of {topic.name}: {topic.partitions[unknown].why_unknown}"
    raise NoLeader(f"docstore: {why}")


def node_urls(options: Options, topic: TopicState) -> list[tuple[str, ...]]:
    """Return the URLs to ask for each partition: that of its leader, then those of the options.

    Every node forwards requests to the leader, so the order only saves a hop. Raises GroupError,
    OSError.
    """
    members = group_of(options).json("GET", MEMBERS)["members"]
    urls = {each["id"]: each.get("address", "").rstrip("/") for each in members}
    found = []
    for each in topic.partitions:
        leader = urls.get(each.leader, "")
        others = [url for url in options.urls if url != leader]
        found.append((leader, *others) if leader else tuple(others))
    return found


def _partition(page: Mapping[str, Any]) -> Partition:
    base, high, end = (
        -1 if page[name] is None else int(page[name]) for name in ("base", "hw", "leo")
    )
    return Partition(base, high, end, page["leader"])
