"""The blocking client, for programs without an event loop.

Written by `python -m tests.blocking_twin`.
"""

from collections.abc import Generator, Mapping, Sequence
from ssl import SSLContext
from typing import Any

from docstore.client.blocking_parts import ConsumerGroup, Election, Lease, Lock, Producer, Role
from docstore.client.client import Client as AsyncClient
from docstore.client.consumer import ReadRecord
from docstore.client.documents import Document
from docstore.client.feed import Change, Changes
from docstore.client.groups import PartitionCallback
from docstore.client.membership import Callback
from docstore.client.portal import Found, Opened
from docstore.model.tokens import Token

__all__ = ["Client", "ConsumerGroup", "Election", "Found", "Lease", "Lock", "Producer", "Role"]


class Client(Opened[AsyncClient]):
    """Blocking twin of `docstore.client.client.Client`."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        timeout_s: float = 30.0,
        token: Token = "",
        ssl: SSLContext | None = None,
    ) -> None:
        """timeout_s: deadline of a request with its retries.

        token: sent with each request; a function may return a new one in time. ssl: trusted CAs for
        https, such as `ssl.create_default_context(cafile="ca.pem")`; None for those of the system.
        Raises BadAddress without a URL, or for a URL with a password.
        """
        super().__init__(AsyncClient(urls, timeout_s=timeout_s, token=token, ssl=ssl))

    def producer(
        self, topic: str, *, id: str = "", acks: str = "committed", batch: int = 500
    ) -> Producer:
        """Return a producer, for `with`; see `docstore/client/producer.py`."""
        return Producer(self._portal, self.twin.producer(topic, id=id, acks=acks, batch=batch))

    def consume(
        self,
        topic: str,
        *,
        partition: int | None = None,
        since: str = "beginning",
        isolation: str = "committed",
        follow: bool = True,
    ) -> Generator[ReadRecord, None, None]:
        """Yield the records of a partition in order, or those of all partitions interleaved."""
        return self._portal.iterate(
            self.twin.consume(
                topic, partition=partition, since=since, isolation=isolation, follow=follow
            )
        )

    def lock(
        self,
        name: str,
        *,
        candidate: str = "",
        ttl_s: float = 10.0,
        lease: Lease | None = None,
        wait_s: float | None = None,
    ) -> Lock:
        """Return a lock, for `with`; see `docstore/client/elections.py`."""
        return Lock(
            self._portal,
            self.twin.lock(
                name,
                candidate=candidate,
                ttl_s=ttl_s,
                lease=None if lease is None else lease.twin,
                wait_s=wait_s,
            ),
        )

    def election(
        self, name: str, *, candidate: str = "", ttl_s: float = 10.0, lease: Lease | None = None
    ) -> Election:
        """Return an election, to `observe`, or to be a candidate of within `with`."""
        return Election(
            self._portal,
            self.twin.election(
                name, candidate=candidate, ttl_s=ttl_s, lease=None if lease is None else lease.twin
            ),
        )

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
        on_acquired: Callback = None,
        on_revoked: Callback = None,
        on_fenced: Callback = None,
    ) -> Role:
        """Return a member that leads roles, for `with`; arguments as of `roles.Role`."""
        return Role(
            self._portal,
            self.twin.role(
                name,
                roles=roles,
                partitions=partitions,
                mode=mode,
                session_s=session_s,
                group=group,
                instance=instance,
                capacity=capacity,
                on_acquired=on_acquired,
                on_revoked=on_revoked,
                on_fenced=on_fenced,
            ),
        )

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
        on_acquired: PartitionCallback | None = None,
        on_revoked: PartitionCallback | None = None,
        on_fenced: PartitionCallback | None = None,
    ) -> ConsumerGroup:
        """Return a member that reads topics, for `with`; arguments as of `ConsumerGroup`."""
        return ConsumerGroup(
            self._portal,
            self.twin.group(
                name,
                topics,
                since=since,
                isolation=isolation,
                commit_s=commit_s,
                session_s=session_s,
                instance=instance,
                capacity=capacity,
                max_poll_s=max_poll_s,
                on_acquired=on_acquired,
                on_revoked=on_revoked,
                on_fenced=on_fenced,
            ),
        )

    def get(
        self,
        link: str,
        *,
        version: int | None = None,
        at: str = "",
        consistency: str = "",
        timeout_s: float | None = None,
    ) -> Document:
        """Return a document in its present state, or in that of a version or time."""
        return self._portal.run(
            self.twin.get(
                link, version=version, at=at, consistency=consistency, timeout_s=timeout_s
            )
        )

    def put(
        self,
        link: str,
        value: dict[str, Any],
        *,
        if_match: str = "",
        if_none_match: str = "",
        fence: str = "",
        lease: Lease | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Document:
        """Replace a document, or create it."""
        return self._portal.run(
            self.twin.put(
                link,
                value,
                if_match=if_match,
                if_none_match=if_none_match,
                fence=fence,
                lease=None if lease is None else lease.twin,
                key=key,
                timeout_s=timeout_s,
            )
        )

    def patch(
        self,
        link: str,
        value: dict[str, Any],
        *,
        if_match: str = "",
        fence: str = "",
        lease: Lease | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Document:
        """Change some fields of a document; arguments, retries and errors as of `put`."""
        return self._portal.run(
            self.twin.patch(
                link,
                value,
                if_match=if_match,
                fence=fence,
                lease=None if lease is None else lease.twin,
                key=key,
                timeout_s=timeout_s,
            )
        )

    def post(
        self,
        factory: str,
        value: dict[str, Any],
        *,
        fence: str = "",
        lease: Lease | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Document:
        """Create a document under an id that the node chooses; arguments as of `put`."""
        return self._portal.run(
            self.twin.post(
                factory,
                value,
                fence=fence,
                lease=None if lease is None else lease.twin,
                key=key,
                timeout_s=timeout_s,
            )
        )

    def delete(
        self,
        link: str,
        *,
        if_match: str = "",
        fence: str = "",
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Document:
        """Delete a document; its history stays. Arguments as of `put`."""
        return self._portal.run(
            self.twin.delete(link, if_match=if_match, fence=fence, key=key, timeout_s=timeout_s)
        )

    def history(self, link: str) -> list[dict[str, Any]]:
        """Return all versions of a document, newest first."""
        return self._portal.run(self.twin.history(link))

    def declare(
        self,
        factory: str,
        *,
        kind: str | None = None,
        options: Sequence[str] | None = None,
        schema: Mapping[str, Any] | None = None,
        put_creates: bool | None = None,
        requires_precondition: bool | None = None,
        requires_fence: bool | None = None,
        default_expiration_seconds: int | None = None,
        indexes: Sequence[Any] | None = None,
        retention: Mapping[str, int] | None = None,
    ) -> None:
        """Declare a factory unless it exists. Raises Differs if it exists with other members."""
        self._portal.run(
            self.twin.declare(
                factory,
                kind=kind,
                options=options,
                schema=schema,
                put_creates=put_creates,
                requires_precondition=requires_precondition,
                requires_fence=requires_fence,
                default_expiration_seconds=default_expiration_seconds,
                indexes=indexes,
                retention=retention,
            )
        )

    def lease(
        self, *, ttl_s: float = 10.0, behavior: str = "delete", holder: str = "", name: str = ""
    ) -> Lease:
        """Return a lease, for `with`; see `docstore/client/leases.py`."""
        return Lease(
            self._portal, self.twin.lease(ttl_s=ttl_s, behavior=behavior, holder=holder, name=name)
        )

    def bulk(self, operations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Carry out operations one by one; return a result for each, in the same order."""
        return self._portal.run(self.twin.bulk(operations))

    def atomic(
        self, operations: Sequence[Mapping[str, Any]], *, key: str | None = None, fence: str = ""
    ) -> list[dict[str, Any]]:
        """Carry out all operations or none; return a result for each, in their order."""
        return self._portal.run(self.twin.atomic(operations, key=key, fence=fence))

    def changes(
        self,
        path: str | Sequence[str] = "",
        *,
        since: str = "latest",
        where: str = "",
        before: bool = False,
        wait_s: int = 20,
    ) -> Generator[Changes, None, None]:
        """Yield the changes of paths and of all paths below them, without end and without a gap."""
        return self._portal.iterate(
            self.twin.changes(path, since=since, where=where, before=before, wait_s=wait_s)
        )

    def follow(
        self,
        path: str | Sequence[str] = "",
        *,
        since: str = "latest",
        where: str = "",
        before: bool = False,
    ) -> Generator[Change, None, None]:
        """Yield each change of paths and of all paths below them once, as it happens, without end."""
        return self._portal.iterate(self.twin.follow(path, since=since, where=where, before=before))

    def subscribe(
        self,
        path: str,
        callback: str,
        *,
        where: str = "",
        before: bool = False,
        since: str | None = None,
        replay: bool = False,
        secret: str = "",
    ) -> dict[str, Any]:
        """Have a receiver called with the changes of a path and below it; return the subscription."""
        return self._portal.run(
            self.twin.subscribe(
                path,
                callback,
                where=where,
                before=before,
                since=since,
                replay=replay,
                secret=secret,
            )
        )

    def ls(self, factory: str, *, cursor: str = "", page: int = 1000) -> Found:
        """Return the documents of a factory, in the order of their links, to iterate over."""
        return Found(self._portal, self.twin.ls(factory, cursor=cursor, page=page))

    def links(self, factory: str) -> Generator[str, None, None]:
        """Yield the links of a factory's documents, in order, without reading the documents."""
        return self._portal.iterate(self.twin.links(factory))

    def query(
        self,
        factory: str,
        *,
        filter: str = "",
        where: str = "",
        order_by: str = "",
        select: str = "",
        limit: int | None = None,
        page: int = 1000,
        as_of: str = "latest",
        cursor: str = "",
    ) -> Found:
        """Return the documents that match conditions, in an order, each once, to iterate over."""
        return Found(
            self._portal,
            self.twin.query(
                factory,
                filter=filter,
                where=where,
                order_by=order_by,
                select=select,
                limit=limit,
                page=page,
                as_of=as_of,
                cursor=cursor,
            ),
        )

    def aggregate(
        self,
        factory: str,
        aggregates: str,
        *,
        group_by: str = "",
        filter: str = "",
        where: str = "",
        as_of: str = "latest",
    ) -> list[dict[str, Any]]:
        """Return a result for each group of documents, in the order of their keys."""
        return self._portal.run(
            self.twin.aggregate(
                factory, aggregates, group_by=group_by, filter=filter, where=where, as_of=as_of
            )
        )

    def json(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request with JSON, and return the parsed answer."""
        return self._portal.run(self.twin.json(method, path, body, **headers))
