"""A topic as its page shows it: how far each partition is, and which node leads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from docstore.pipeline.errors import PipelineError
from docstore.pipeline.group_client import GroupClient, pause
from docstore.pipeline.options import Options

TOPICS = "/core/streams"
MEMBERS = "/core/node-groups/default"
RETRIES, TIMEOUT_MS = 5, 30_000


class NoLeader(PipelineError):
    """A partition that nobody leads who knows how far it is."""


@dataclass(frozen=True, slots=True)
class Partition:
    """How far a partition is, as its leader says.

    base: the first offset that is kept. high: the one after the last that is committed. end: the
    one after the last that the leader has. All are -1 while no leader answers, and high alone while
    a new one does not know yet what its predecessor may have committed.
    """

    base: int
    high: int
    end: int
    leader: str
    """The leader's id."""

    @property
    def is_known(self) -> bool:
        """Say whether the leader has answered, and knows what is committed."""
        return self.high >= 0

    @property
    def why_unknown(self) -> str:
        """Return what there is to say about its leader while nothing is known."""
        if not self.leader:
            return "nobody leads it"
        if self.base < 0:
            return f"its leader {self.leader} does not answer"
        return f"its leader {self.leader} does not know yet what is committed"


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic at one moment. incarnation: a topic made again under its name has another."""

    name: str
    incarnation: str
    batch_bytes: int
    """Of a request's records for one partition, at the most."""
    partitions: tuple[Partition, ...]


def group_of(options: Options) -> GroupClient:
    """Return the group that the options name."""
    timeout_s = options.number("timeoutMs", TIMEOUT_MS, 1) / 1000
    return GroupClient(
        options.urls, timeout_s=timeout_s, retries=options.number("retries", RETRIES)
    )


def link_of(topic: str) -> str:
    """Return where a topic's page is."""
    return f"{TOPICS}/{quote(topic, safe='')}"


def topic_now(options: Options) -> TopicState:
    """Return the topic, of which some partitions may not be known. Raises GroupError, OSError."""
    page = group_of(options).json("GET", link_of(options.topic))
    partitions = tuple(map(_partition, page["partitions"]))
    return TopicState(options.topic, page["incarnation"], page["batchBytesMax"], partitions)


def whole_topic(options: Options) -> TopicState:
    """Return the topic once every partition's leader has answered, and knows its committed end.

    Raises NoLeader, GroupError, OSError.
    """
    attempt, retries = 0, options.number("retries", RETRIES)
    while True:
        topic = topic_now(options)
        unknown = [n for n, each in enumerate(topic.partitions) if not each.is_known]
        if not unknown:
            return topic
        if attempt == retries:
            why = topic.partitions[unknown[0]].why_unknown
            raise NoLeader(f"docstore: partition {unknown[0]} of {topic.name}: {why}")
        pause(attempt)
        attempt += 1


def roads(options: Options, topic: TopicState) -> list[tuple[str, ...]]:
    """Return for each partition which nodes to ask: its leader, then those that were given.

    Any node passes on what it is asked, so this only saves a way. Raises GroupError, OSError.
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
