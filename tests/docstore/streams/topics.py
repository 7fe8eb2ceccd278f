"""One topic in a group of machines: made, changed and deleted as clients do."""

from typing import Any

from docstore.model import json
from docstore.model.operation import ANY_TOMBSTONE, Answer, Operation
from docstore.streams.replica_set import ReplicaSet, replica_set_of
from docstore.streams.topic import Topic, topic_of
from tests.docstore.streams.group import Group

TOPIC = "/core/streams/t"


def ask(group: Group, verb: str, link: str = TOPIC, /, **fields: Any) -> Answer:
    """Carry out an operation on a document, as a client does."""
    answer = group.apply(
        Operation(
            verb=verb, link=link, recreate_below=ANY_TOMBSTONE if verb == "POST" else None, **fields
        )
    )
    assert answer.is_success, answer
    group.settle()
    return answer


def make(group: Group, partitions: int = 1, replicas: int = 3, **more: Any) -> None:
    """Create the topic."""
    least = more.pop("min_in_sync", 1)
    topic = Topic(
        name="t", incarnation=more.pop("incarnation", "i1"), partitions=partitions,
        replication_factor=replicas, min_in_sync=least, **more,
    )  # fmt: skip
    ask(group, "POST", body=topic.pack())


def change(group: Group, **change: Any) -> None:
    """Patch the topic."""
    ask(group, "PATCH", body=json.dump(change), media="handler")


def topic(group: Group) -> Topic:
    """Return the topic of its document."""
    return topic_of(json.load(group.documents[TOPIC].state))


def partitions(group: Group) -> dict[int, ReplicaSet]:
    """Return the documents of the topic's partitions, by number."""
    found = {
        int(link.rpartition("/")[2]): replica_set_of(json.load(row.state))
        for link, row in group.documents.items()
        if "/partitions/" in link and not row.deleted
    }
    return dict(sorted(found.items()))


def names(group: Group, node: str) -> set[str]:
    """Return the partitions that a node keeps."""
    return set(group.machines[node].logs)
