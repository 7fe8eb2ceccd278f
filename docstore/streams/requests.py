"""Requests of clients for streams, as values that the HTTP layer makes for the node."""

from collections.abc import Sequence
from typing import NamedTuple

from docstore.errors import NotFound, Unavailable


class NoSuchTopic(NotFound):
    """There is no topic of this name."""

    code = "no-such-topic"


class NoSuchPartition(NotFound):
    """The topic has no partition with this number."""

    code = "no-such-partition"


class NotProvisioned(Unavailable):
    """The topic has this partition, but no replica holds it yet."""

    code = "no-leader"


class ProduceRequest(NamedTuple):
    """Records for one partition; see `messages.Produce`."""

    acks: str
    producer: Sequence[str | int]
    flags: int
    records: int
    body: bytes


class ReadRequest(NamedTuple):
    """Request of a reader for one partition; see `events.FetchAsked`."""

    origin: tuple[str, int]
    isolation: str = "committed"
    bytes_max: int = 1 << 20
    token: int = -1
    stale: bool = False
    trace: str = ""
