"""Growth of topics: groups that read a topic take in the partitions that are added to it.

The coordinator reads the topics of its groups at intervals. If a topic is deleted, or its read
fails, the group keeps its partitions; also if the topic has grown to more than a group may have.
"""

from functools import partial

from docstore.model import json
from docstore.model.operation import Answer, Operation
from docstore.services.group_document import PARTITIONS_MAX
from docstore.sessions.coordinated_group import CoordinatedGroup
from docstore.sessions.core import Core

TOPICS = "/core/streams"


class Growing:
    """Reads the topics of groups, to learn how many partitions they have."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def look(self, governed: CoordinatedGroup) -> None:
        """Read the topics of a group, if it has any and the interval is over."""
        core = self._core
        if "" in governed.group.parts or core.now < governed.look_at:
            return
        governed.look_at = core.now + core.config.topics_s
        for topic in governed.group.parts:
            operation = Operation(verb="GET", link=f"{TOPICS}/{topic}")
            core.ask(operation, partial(_read, governed, topic))


def _read(governed: CoordinatedGroup, topic: str, answer: Answer) -> None:
    if not answer.is_success or answer.row is None:
        return
    count = json.load(answer.row.state).get("partitions")
    parts = governed.changes.parts or governed.group.parts
    if not isinstance(count, int) or count <= parts.get(topic, count):
        return
    grown = {**parts, topic: count}
    if sum(grown.values()) <= PARTITIONS_MAX:  # Else no update of the group would be stored.
        governed.changes.parts = grown
