"""The client: documents, and a face for each other thing that a group of nodes offers.

Each is imported when it is asked for: most programs want one, and `docstore get` none of them.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

from docstore.client.documents import DocumentRequests
from docstore.client.queries import QueryRequests

if TYPE_CHECKING:
    from docstore.client.consumer import ReadRecord
    from docstore.client.elections import Election, Lock
    from docstore.client.groups import ConsumerGroup
    from docstore.client.leases import Lease
    from docstore.client.producer import Producer
    from docstore.client.roles import Role


class Client(DocumentRequests, QueryRequests):
    """Speaks to a group through any of its nodes."""

    # Streams

    def producer(
        self,
        topic: str,
        *,
        id: str = "",  # noqa: A002 - as in `docstore produce --id`
        acks: str = "committed",
        batch: int = 500,
    ) -> "Producer":
        """Return a producer, for `async with`; see `docstore/client/producer.py`."""
        from docstore.client.producer import Producer

        return Producer(self, topic, id=id, acks=acks, batch=batch)

    def consume(
        self,
        topic: str,
        *,
        partition: int | None = None,
        since: str = "beginning",
        isolation: str = "committed",
        follow: bool = True,
    ) -> "AsyncGenerator[ReadRecord, None]":
        """Yield records of a partition in order, or of all partitions side by side.

        A caller that stops before the end must close it (`contextlib.aclosing`).

        since: an offset, beginning, end, end-N, a time with its zone, or @ and microseconds.
        follow: go on for ever, else until what is committed now has been read.
        """
        from docstore.client.consumer import ReadOptions, consume

        reading = ReadOptions(since, isolation, follow)
        return consume(self, topic, partition, reading)

    # Locks, elections and leases

    def lock(
        self, name: str, *, candidate: str = "", ttl_s: float = 10.0, lease: "Lease | None" = None
    ) -> "Lock":
        """Return a lock, for `async with`; see `docstore/client/elections.py`.

        ttl_s: seconds of silence after which the next candidate holds it. lease: one
        that stands already, for this and for others, instead.
        """
        from docstore.client.elections import Lock

        return Lock(self, name, candidate=candidate, lease=lease, ttl_s=ttl_s)

    def election(
        self, name: str, *, candidate: str = "", ttl_s: float = 10.0, lease: "Lease | None" = None
    ) -> "Election":
        """Return an election: to `observe`, or for `async with` to be a candidate of it."""
        from docstore.client.elections import Election

        return Election(self, name, candidate=candidate, lease=lease, ttl_s=ttl_s)

    # Roles and groups

    def role(self, name: str, **settings: Any) -> "Role":
        """Return a part in leading roles, for `async with`; settings: of `roles.Role`."""
        from docstore.client.roles import Role

        return Role(self, name, **settings)

    def group(self, name: str, topics: Sequence[str], **settings: Any) -> "ConsumerGroup":
        """Return a part in reading topics, for `async with`; settings: of `ConsumerGroup`."""
        from docstore.client.groups import ConsumerGroup

        return ConsumerGroup(self, name, topics, **settings)
