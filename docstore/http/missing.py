"""The reason for a missing partition: no such topic, too few partitions, or not created yet."""

from docstore.errors import DocstoreError
from docstore.runtime.streams_backend import StreamBackend
from docstore.streams.replica_set import topic_link_of
from docstore.streams.requests import NoSuchPartition, NotProvisioned


async def missing(streams: StreamBackend, link: str, timeout_s: float) -> DocstoreError:
    """Return the error for a partition without a document.

    Raises NoSuchTopic, or Unavailable if the topic cannot be read.
    """
    name, number = topic_link_of(link).rpartition("/")[2], link.rpartition("/")[2]
    topic = await streams.topic(name, timeout_s)
    if int(number) < topic.partitions:
        return NotProvisioned(f"partition {number} of {name} is not provisioned yet")
    return NoSuchPartition(f"{name} has {topic.partitions} partitions")
