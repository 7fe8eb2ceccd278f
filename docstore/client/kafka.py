"""Roles on Kafka: their leaders, by a topic and a consumer group (`docstore[kafka]`).

    async with KafkaRole("kafka:9092", "pricing", topic="pricing-roles", roles=64) as role:
        if role.leads(7): ...                               # compares a proof with the clock
        await client.put("/prices/EURUSD", quote, fence=role.fence(7))

The rules are in `ownership/on_kafka.py`; this file sends requests and delivers events. Once in a
heartbeat H it writes the missing records, commits, and checks the client of Kafka. The topic must
exist; its number of partitions M must not change while the group has members.

A rebalance revokes all partitions of all members, so exclusive roles pause, and each new holder
waits for the grace: after a crash S + a rebalance + G. Non-exclusive roles are led meanwhile.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Self

try:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, errors
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.structs import TopicPartition
except ImportError as error:
    raise ImportError("roles on Kafka need aiokafka: pip install 'docstore[kafka]'") from error

from docstore.client.boot_clock import boot_clock, drop_in_child
from docstore.client.event_delivery import Callback, EventDelivery
from docstore.client.leading import LeadsRoles, checked_roles
from docstore.client.membership import GroupEnded
from docstore.ownership.by_induction import Acquired, Event, Fenced, Induced, Mode, Revoked, Windows
from docstore.ownership.on_kafka import Membership, windows_on_kafka

LASTING = (
    errors.AuthenticationFailedError,
    errors.AuthenticationMethodNotSupported,
    errors.SaslAuthenticationFailed,
    errors.ClusterAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.TopicAuthorizationFailedError,
    errors.InvalidGroupIdError,
    errors.InvalidSessionTimeoutError,
    errors.InvalidTopicError,
    errors.InconsistentGroupProtocolError,
)
"""Errors that a retry does not repair, so they end the role; all other errors are retried."""


class KafkaRole(LeadsRoles):
    """Member of a Kafka consumer group that shares the roles of one name; for `async with`."""

    def __init__(
        self,
        bootstrap: str,
        name: str,
        *,
        topic: str,
        roles: int,
        mode: str = Mode.EXCLUSIVE,
        session_s: float = 6.0,
        window_s: float | None = None,
        member: str = "docstore",
        on_acquired: Callback | None = None,
        on_revoked: Callback | None = None,
        on_fenced: Callback | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """bootstrap: host:port of brokers. name: that of the consumer group.

        roles: number of hash slots of keys. mode: "exclusive" or "nonExclusive". session_s: S,
        within the broker's bounds (usually from 6 s on). window_s: T, else S/2 or 3S. member: name
        by which brokers know this process. options: for both clients of aiokafka, such as
        `security_protocol`. Raises ValueError if `roles` is less than 1 or the times contradict
        each other.
        """
        self.name, self.topic, self.roles = name, topic, checked_roles(name, roles)
        self.windows = windows_on_kafka(Mode(mode), session_s, window_s)
        self._member = member
        self._clock = boot_clock()
        callbacks = {Acquired: on_acquired, Revoked: on_revoked, Fenced: on_fenced}
        self._telling = EventDelivery(callbacks)
        request_ms = int(1_000 * session_s) + 2_000  # The broker may hold a join for S.
        self._options = {
            "bootstrap_servers": bootstrap,
            "client_id": member,
            "request_timeout_ms": request_ms,
        } | dict(options or {})
        self._membership: Membership | None = None
        self._failure: BaseException | None = None
        self._is_over = False
        self._troubles: dict[str, Exception] = {}
        self._titles_due, self._proof_due = asyncio.Event(), asyncio.Event()
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._undo = AsyncExitStack()
        self._leaving: asyncio.Task[None] | None = None

    @property
    def trouble(self) -> Exception | None:
        """Return the last error that is being retried, None once the retry has succeeded."""
        return next(iter(self._troubles.values()), None)

    @property
    def _induced(self) -> Induced | None:
        return None if self._membership is None else self._membership.induced

    def now(self) -> float:
        """Return the time by the clock of proofs, for `event.protected(now)`."""
        return self._clock()

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield Acquired, Revoked and Fenced; requesting the next acknowledges the one before.

        Ends with the context, or raises GroupEnded. Not to be used together with callbacks.
        """
        return self._telling.events()

    async def while_leading(self, role: int, step: Callable[[], Awaitable[None] | None]) -> None:
        """Call `step` repeatedly whenever a role is led, until the context ends. Raises GroupEnded.

        A step is not interrupted, so it should take far less than T.
        """
        while not self._is_over:
            answer = step() if self.leads(role) else asyncio.sleep(self.windows.heartbeat_s / 4.0)
            await (asyncio.sleep(0) if answer is None else answer)
        if self._failure is not None:
            raise self._failed()

    # Joining and leaving

    async def __aenter__(self) -> Self:
        """Join the group, and return after the first rebalance.

        Raises errors.KafkaError, or GroupEnded if the membership ended meanwhile.
        """
        async with AsyncExitStack() as undo:
            undo.push_async_callback(
                _cancelled, self._tasks
            )  # The last step of leaving: requests under way still get their answers.
            self._producer = AIOKafkaProducer(acks="all", **self._options)
            undo.push_async_callback(self._producer.stop)
            await self._producer.start()
            self._partitions = len(await self._producer.partitions_for(self.topic))
            self._membership = Membership(self._partitions, self.windows)
            drop_in_child(self._membership.induced)
            self._consumer = _consumer(self.name, self.windows, self._options)
            listener = _Listener(self._revoked, self._assigned)
            self._consumer.subscribe([self.topic], listener=listener)
            undo.push_async_callback(self._consumer.stop)
            if self._telling.has_callbacks:
                self._tasks.append(asyncio.create_task(self._telling.call()))
            await self._consumer.start()
            for work in (
                self._repeat(self._prove, self._proof_due),
                self._repeat(self._title, self._titles_due),
                self._pass_time(),
            ):
                self._tasks.append(asyncio.create_task(work))
            if self._failure is not None:
                raise self._failed()
            self._undo = undo.pop_all()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Stop leading, wait for the callbacks, and leave."""
        assert self._membership is not None
        self._is_over = True
        self._telling.put(self._membership.leaving())
        try:
            await self._telling.drained(self.windows.session_s)
        finally:
            self._telling.end()
            await self._leave()

    def _leave(self) -> asyncio.Task[None]:
        """Stop all tasks and leave the group; later calls return the same task."""
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._undo.aclose())
        return self._leaving

    async def _revoked(self) -> None:
        """Wait for the callbacks during a rebalance, for S at most, as the broker does.

        Heartbeats continue.
        """
        if self._membership is not None and not self._is_over:
            self._tell_of(self._membership.revoked())
            await self._telling.drained(self.windows.session_s)
            self._membership.released()

    def _assigned(self, partitions: Collection[int]) -> None:
        if self._membership is not None and not self._is_over:
            self._membership.assigned(partitions)
            # Records prove nothing, so none are fetched.
            self._consumer.pause(*self._consumer.assignment())
            self._titles_due.set()

    # Background tasks

    async def _repeat(self, work: Callable[[], Awaitable[None]], due: asyncio.Event) -> None:
        """Call `work` once in each heartbeat interval, and whenever `due` is set."""
        while not self._is_over:
            due.clear()
            try:
                await work()
                self._troubles.pop(work.__name__, None)
            except Exception as error:  # noqa: BLE001 - A permanent error ends the role, and is reported.
                passes = isinstance(error, errors.KafkaError | TimeoutError)
                if not passes or isinstance(error, LASTING):
                    self._fail(error)
                self._troubles[work.__name__] = error
            try:
                async with asyncio.timeout(self.windows.heartbeat_s):
                    await due.wait()
            except TimeoutError:
                continue

    async def _prove(self) -> None:
        """Prove that our generation is the latest; a commit for one partition proves them all."""
        assert self._membership is not None
        await self._look()
        attempt = self._membership.attempt(self._clock())
        if not attempt.tokens:
            return
        partition, token = min(attempt.tokens.items())
        place = {TopicPartition(self.topic, partition): (token, self._member)}
        try:  # No timeout: a commit may be repeated, and the stamp was taken before.
            await self._consumer.commit(place)
        except errors.CommitFailedError as error:
            if not isinstance(error.__cause__, errors.RebalanceInProgressError):
                self._tell_of(self._membership.refused(attempt))
            raise
        self._tell_of(self._membership.accepted(attempt, self._clock()))

    async def _look(self) -> None:
        """Call the consumer, which keeps it from leaving the group, and raise its errors."""
        try:
            await self._consumer.getmany(timeout_ms=0)
        except errors.KafkaError as error:
            if error.__cause__ is None:  # An error of the consumer's own task, which continues.
                raise
            raise RuntimeError(
                "the Kafka client ended by itself; see its log, and start this process again"
            ) from error
        found = self._consumer.partitions_for_topic(self.topic)
        # With another number of partitions, roles would move for some members only.
        if found and len(found) != self._partitions:
            raise ValueError(
                f"topic {self.topic} must have {self._partitions} partitions, "
                f"one for each role; got {len(found)}"
            )

    async def _title(self) -> None:
        """Append the empty records whose offsets become tokens."""
        assert self._membership is not None
        era, untitled = self._membership.era, self._membership.untitled
        # Other partitions may become due meanwhile.
        async with asyncio.timeout(self.windows.session_s):
            records = (
                self._producer.send_and_wait(self.topic, b"", partition=each) for each in untitled
            )
            found = await asyncio.gather(*records, return_exceptions=True)
        failed = [record for record in found if isinstance(record, BaseException)]
        for partition, record in zip(untitled, found, strict=True):
            if not isinstance(record, BaseException):
                self._membership.titled(partition, record.offset, era)
                self._proof_due.set()
        if failed:
            raise failed[0]

    async def _pass_time(self) -> None:
        """Report the leaderships that begin or end by time alone."""
        assert self._membership is not None
        while True:
            now = self._clock()
            self._changed.clear()
            self._telling.put(self._membership.induced.lapsed(now))
            next_at = self._membership.induced.next_at(now)
            try:
                async with asyncio.timeout(None if next_at == float("inf") else next_at - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _tell_of(self, events: list[Event]) -> None:
        self._telling.put(events)
        self._changed.set()

    def _fail(self, error: BaseException) -> None:
        """Stop leading, report the error to readers of events, and leave."""
        if not self._is_over and self._membership is not None:
            self._is_over, self._failure = True, error
            self._telling.put(self._membership.failed())
            self._telling.end(self._failed())
            self._leave()

    def _failed(self) -> GroupEnded:
        failed = GroupEnded(f"roles of {self.name} cannot be led here any more: {self._failure}")
        failed.__cause__ = self._failure
        return failed


def _consumer(group: str, windows: Windows, options: Mapping[str, Any]) -> Any:
    session_ms = int(windows.session_s * 1_000)
    return AIOKafkaConsumer(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        heartbeat_interval_ms=int(windows.heartbeat_s * 1_000),
        max_poll_interval_ms=2 * session_ms,
        enable_auto_commit=False,
        partition_assignment_strategy=(RoundRobinPartitionAssignor,),
        **options,
    )


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types.
    """Callbacks of aiokafka before and after a rebalance."""

    def __init__(
        self, revoked: Callable[[], Awaitable[None]], assigned: Callable[[Collection[int]], None]
    ) -> None:
        self._revoked, self._assigned = revoked, assigned

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        await self._revoked()

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        self._assigned([each.partition for each in assigned])
