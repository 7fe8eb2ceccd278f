"""Twins of what the blocking client makes.

Written by `python -m tests.blocking_twin`.
"""

from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from docstore.client.consumer import ReadRecord
from docstore.client.elections import Election as AsyncElection
from docstore.client.elections import ElectionState
from docstore.client.elections import Lock as AsyncLock
from docstore.client.groups import ConsumerGroup as AsyncConsumerGroup
from docstore.client.leases import Lease as AsyncLease
from docstore.client.portal import Held
from docstore.client.producer import Position
from docstore.client.producer import Producer as AsyncProducer
from docstore.client.roles import Role as AsyncRole
from docstore.ownership.by_induction import Event

__all__ = ["ConsumerGroup", "Election", "Lease", "Lock", "Producer", "Role"]


class Lease(Held[AsyncLease]):
    """Blocking twin of `docstore.client.leases.Lease`."""

    @property
    def link(self) -> str:
        """Return the link of its document."""
        return self.twin.link

    def held(self) -> bool:
        """Say whether this process holds the lease now, by its clock; any thread may ask."""
        return self.twin.held()

    def left_s(self) -> float:
        """Return for how many seconds the lease is held without another answer; else 0."""
        return self.twin.left_s()

    def kept_s(self) -> float:
        """Return for how many seconds its owner certainly keeps the lease, even if not held."""
        return self.twin.kept_s()

    def grant(self) -> None:
        """Create the lease, and keep it alive from now on. Raises ClientError."""
        self._portal.run(self.twin.grant())

    def adopt(self) -> None:
        """Keep an existing lease alive. Raises ClientError."""
        self._portal.run(self.twin.adopt())

    def release(self) -> None:
        """End the lease, here and at its owner, which removes attached documents at once."""
        self._portal.run(self.twin.release())


class Lock(Held[AsyncLock]):
    """Blocking twin of `docstore.client.elections.Lock`."""

    def held(self) -> bool:
        """Say whether this process holds the lock now, by its clock."""
        return self.twin.held()

    @property
    def lease(self) -> Lease:
        """Return the lease on which this candidacy depends."""
        return Lease(self._portal, self.twin.lease)

    @property
    def token(self) -> int:
        """Return the fencing token of our turn. Raises Lost if the turn is over."""
        return self.twin.token

    def fence(self) -> str:
        """Return the `Fence` for writes during our turn. Raises Lost if the turn is over."""
        return self.twin.fence()

    def lost(self) -> None:
        """Wait until this candidate no longer holds."""
        self._portal.run(self.twin.lost())


class Election(Held[AsyncElection]):
    """Blocking twin of `docstore.client.elections.Election`."""

    def leads(self) -> bool:
        """Say whether this candidate leads now, by its clock."""
        return self.twin.leads()

    def campaign(self, value: Any = None) -> int:
        """Return the token once this candidate leads. Raises Lost."""
        return self._portal.run(self.twin.campaign(value))

    def proclaim(self, value: Any) -> None:
        """Proclaim another value."""
        self._portal.run(self.twin.proclaim(value))

    def resign(self) -> None:
        """Stop leading, or leave the queue; the next candidate then leads."""
        self._portal.run(self.twin.resign())

    def transfer(self, to: str) -> None:
        """Pass the lead on to the candidate `to`, which must be in the queue."""
        self._portal.run(self.twin.transfer(to))

    def observe(self, *, since: str | None = None) -> Generator[ElectionState, None, None]:
        """Yield the present state of the election, then each later version in order, without end."""
        return self._portal.iterate(self.twin.observe(since=since))

    @property
    def lease(self) -> Lease:
        """Return the lease on which this candidacy depends."""
        return Lease(self._portal, self.twin.lease)

    @property
    def token(self) -> int:
        """Return the fencing token of our turn. Raises Lost if the turn is over."""
        return self.twin.token

    def fence(self) -> str:
        """Return the `Fence` for writes during our turn. Raises Lost if the turn is over."""
        return self.twin.fence()

    def lost(self) -> None:
        """Wait until this candidate no longer holds."""
        self._portal.run(self.twin.lost())


class Role(Held[AsyncRole]):
    """Blocking twin of `docstore.client.roles.Role`."""

    def leave(self, *, drain: bool = True) -> None:
        """Leave; in mode nonExclusive, lead on until a successor does."""
        self._portal.run(self.twin.leave(drain=drain))

    def led(self, role: int) -> str:
        """Wait until this process leads a role, and return its fence. Raises GroupEnded."""
        return self._portal.run(self.twin.led(role))

    @property
    def is_over(self) -> bool:
        """Say whether this process is no member any more."""
        return self.twin.is_over

    def leads_partition(self, partition: int) -> bool:
        """Say whether this process leads a partition, by its clock of this moment."""
        return self.twin.leads_partition(partition)

    @property
    def partitions(self) -> list[int]:
        """Return the partitions that this process leads now, by the numbers that events use."""
        return self.twin.partitions

    def now(self) -> float:
        """Return the time by the clock of proofs, for `event.protected(now)`."""
        return self.twin.now()

    def changed(self) -> None:
        """Wait for the next event: acquired, revoked or fenced."""
        self._portal.run(self.twin.changed())

    def events(self) -> Generator[Event, None, None]:
        """Yield events; requesting the next one acknowledges the one before."""
        return self._portal.iterate(self.twin.events())

    def leads(self, role: int) -> bool:
        """Say whether this process leads a role now. Raises ValueError if there is no such role."""
        return self.twin.leads(role)

    def leads_key(self, key: str, slots: int = 0) -> bool:
        """Say whether this process leads the hash slot of a key; 0 slots: as many as roles."""
        return self.twin.leads_key(key, slots)

    def token(self, role: int) -> int:
        """Return the token of the tenure."""
        return self.twin.token(role)

    def fence(self, role: int) -> str:
        """Return the fence that guarded writes must carry."""
        return self.twin.fence(role)

    def roles_of(self, partition: int) -> list[int]:
        """Return the roles of a partition, which is numbered as in events."""
        return self.twin.roles_of(partition)


class ConsumerGroup(Held[AsyncConsumerGroup]):
    """Blocking twin of `docstore.client.groups.ConsumerGroup`."""

    def leave(self, *, drain: bool = False) -> None:
        """Leave the group; see `GroupMembership.leave`."""
        self._portal.run(self.twin.leave(drain=drain))

    def __iter__(self) -> Iterator[ReadRecord]:
        """Iterate over the records."""
        return self._portal.iterate(self.twin.__aiter__())

    def commit(self) -> None:
        """Commit what was processed. Raises ClientError if that may have failed."""
        self._portal.run(self.twin.commit())

    @property
    def is_over(self) -> bool:
        """Say whether this process is no member any more."""
        return self.twin.is_over

    def leads_partition(self, partition: int) -> bool:
        """Say whether this process leads a partition, by its clock of this moment."""
        return self.twin.leads_partition(partition)

    @property
    def partitions(self) -> list[int]:
        """Return the partitions that this process leads now, by the numbers that events use."""
        return self.twin.partitions

    def now(self) -> float:
        """Return the time by the clock of proofs, for `event.protected(now)`."""
        return self.twin.now()

    def changed(self) -> None:
        """Wait for the next event: acquired, revoked or fenced."""
        self._portal.run(self.twin.changed())

    def events(self) -> Generator[Event, None, None]:
        """Yield events; requesting the next one acknowledges the one before."""
        return self._portal.iterate(self.twin.events())


class Producer(Held[AsyncProducer]):
    """Blocking twin of `docstore.client.producer.Producer`."""

    def send(
        self,
        key: str | bytes | None,
        value: Any,
        *,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
    ) -> Future[Position]:
        """Queue a record; return a future of its position, which need not be awaited."""
        return self._portal.later(self.twin.send(key, value, headers=headers, partition=partition))

    def flush(self) -> None:
        """Wait until all records are acknowledged. Raises the error that prevents it."""
        self._portal.run(self.twin.flush())
