"""Topics as this node last read them, for retention and unclean elections."""

from collections.abc import Callable

from docstore.machines.updates import Updates
from docstore.model.operation import Answer
from docstore.streams.core import Core
from docstore.streams.replica_set import STREAMS, incarnation_of
from docstore.streams.topic import Topic, read_topic

Then = Callable[[Topic | None], None]


class Topics:
    """Reads topic documents; requests for the same topic share one read."""

    def __init__(self, core: Core, updates: Updates) -> None:
        self._core = core
        self._updates = updates
        self._waiting: dict[str, list[tuple[str, Then]]] = {}
        """Topic's document -> (incarnation, callback) of each request."""

    def read(self, partition: str, then: Then) -> None:
        """Read the topic of a partition, given by its name; call `then` with None if that fails.

        A topic that was created again is not the topic of the partition.
        """
        link = f"{STREAMS}/{partition.partition('/')[0]}"
        waiting = self._waiting.setdefault(link, [])
        waiting.append((incarnation_of(partition), then))
        if len(waiting) == 1:
            self._updates.read(link, lambda answer: self._read(link, answer))

    def _read(self, link: str, answer: Answer) -> None:
        found: Topic | None = None
        if answer.is_success and answer.row is not None:
            found = read_topic(answer.row.state)
            self._core.counters["topics_not_understood"] += found is None
        for incarnation, then in self._waiting.pop(link):
            then(found if found is not None and found.incarnation == incarnation else None)
