"""The client: documents, and methods for everything else that a group of nodes offers.

Those methods import their module when they are called, since most programs need at most one of
them, and `docstore get` none.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from docstore.client.documents import DocumentRequests
from docstore.client.queries import QueryRequests

if TYPE_CHECKING:
    from docstore.client.consumer import ReadRecord
    from docstore.client.elections import Election, Lock
    from docstore.client.groups import ConsumerGroup, PartitionCallback
    from docstore.client.leases import Lease
    from docstore.client.membership import Callback
    from docstore.client.producer import Producer
    from docstore.client.roles import Role


class Client(DocumentRequests, QueryRequests):
    """Client of a group, which sends requests to any of its nodes."""

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
        """Yield the records of a partition in order, or those of all partitions interleaved.

        A caller that stops before the end must close it (`contextlib.aclosing`).

        since: an offset, beginning, end, end-N, a time with its zone, or @ and microseconds.
        follow: whether to wait for more records for ever; else end once the records committed by
        now have been read.
        """
        from docstore.client.consumer import ReadOptions, consume

        reading = ReadOptions(since, isolation, follow)
        return consume(self, topic, partition, reading)

    # Locks, elections and leases

    def lock(
        self,
        name: str,
        *,
        candidate: str = "",
        ttl_s: float = 10.0,
        lease: "Lease | None" = None,
        wait_s: float | None = None,
    ) -> "Lock":
        """Return a lock, for `async with`; see `docstore/client/elections.py`.

        ttl_s: seconds of silence after which the next candidate holds it. lease: an existing lease
        to share, instead of a new one of `ttl_s`. wait_s: time after which entering raises
        TimeoutError, 0 to try once; None waits without a limit.
        """
        from docstore.client.elections import Lock

        lock = Lock(self, name, candidate=candidate, lease=lease, ttl_s=ttl_s)
        lock.wait_s = wait_s
        return lock

    def election(
        self, name: str, *, candidate: str = "", ttl_s: float = 10.0, lease: "Lease | None" = None
    ) -> "Election":
        """Return an election, to `observe`, or to be a candidate of within `async with`."""
        from docstore.client.elections import Election

        return Election(self, name, candidate=candidate, lease=lease, ttl_s=ttl_s)

    # Roles and groups

    def role(
        self,
        name: str,
        *,
        roles: int = 1,
        partitions: int = 0,
        mode: str = "exclusive",
        session_s: float | None = None,
        group: str = "",
        instance: str = "",
        capacity: int = 1,
        on_acquired: "Callback" = None,
        on_revoked: "Callback" = None,
        on_fenced: "Callback" = None,
    ) -> "Role":
        """Return a member that leads roles, for `async with`; arguments as of `roles.Role`."""
        from docstore.client.roles import Role

        return Role(
            self, name, roles=roles, partitions=partitions, mode=mode, session_s=session_s,
            group=group, instance=instance, capacity=capacity, on_acquired=on_acquired,
            on_revoked=on_revoked, on_fenced=on_fenced,
        )  # fmt: skip

    def group(
        self,
        name: str,
        topics: Sequence[str],
        *,
        since: str = "beginning",
        isolation: str = "committed",
        commit_s: float = 5.0,
        session_s: float | None = None,
        instance: str = "",
        capacity: int = 1,
        max_poll_s: float | None = None,
        on_acquired: "PartitionCallback | None" = None,
        on_revoked: "PartitionCallback | None" = None,
        on_fenced: "PartitionCallback | None" = None,
    ) -> "ConsumerGroup":
        """Return a member that reads topics, for `async with`; arguments as of `ConsumerGroup`."""
        from docstore.client.groups import ConsumerGroup

        return ConsumerGroup(
            self, name, topics, since=since, isolation=isolation, commit_s=commit_s,
            session_s=session_s, instance=instance, capacity=capacity, max_poll_s=max_poll_s,
            on_acquired=on_acquired, on_revoked=on_revoked, on_fenced=on_fenced,
        )  # fmt: skip
