"""Ledgers on which roles are led by induction, for tests that hold on each of them (scenario N18).

A test takes the fixture `ledger` and uses only `Ledger`: members join, members are cut off, and
bounds of times. To add one, write a class like these and name it in LEDGERS: it is made for each
test, and is a context in that test's loop.
"""

import itertools
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any, NamedTuple, Protocol, Self

import aiohttp
import pytest
from aiokafka.errors import KafkaError

from docstore.client import Client, roles
from docstore.client.kafka import KafkaRole
from docstore.ownership.by_induction import Event
from tests.chaos.proxy import Proxy
from tests.kafka.broker import COMMIT, LOADING, Broker
from tests.kafka.road import Road

ROLES = 64
REBALANCE_S = 0.5
_numbers = itertools.count()


class Role(Protocol):
    """One member's view of the roles."""

    def leads(self, role: int) -> bool: ...
    def leads_key(self, key: str) -> bool: ...
    def token(self, role: int) -> int: ...
    def fence(self, role: int) -> str: ...
    def events(self) -> AsyncGenerator[Event, None]: ...
    async def while_leading(
        self, role: int, step: Callable[[], Awaitable[None] | None]
    ) -> None: ...


class Ledger(Protocol):
    """A service that assigns partitions to members. Times are upper bounds in seconds."""

    window_s: float
    """T of exclusive roles."""
    alone_s: float
    """From the join of a first member until it leads everything."""
    shared_s: float
    """From the join of a second one until both lead."""
    succession_s: float
    """From a member's crash until its roles are led by another."""

    def member(
        self, name: str, mode: str = ..., **callbacks: Any
    ) -> AbstractAsyncContextManager[Role]:
        """Return a member that joins as it is entered; callbacks as `on_acquired=`."""

    def cut(self, name: str) -> None:
        """Drop all messages of this member, unnoticed by it."""

    def kill(self, name: str) -> None:
        """Cut it off as if its process had died: connections are closed without a leave."""

    def heal(self, name: str) -> None:
        """End a cut or a kill."""

    def mute(self) -> None:
        """Stop answering proofs, although sessions live."""

    def unmute(self) -> None:
        """Answer proofs again."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_exception: object) -> None: ...


class Listener(NamedTuple):
    """A docstore node. port: for Kafka clients, to which it advertises the port `advertised`."""

    url: str
    port: int
    advertised: int


class OnMock:
    """Kafka, by the mock broker: a group and a topic of its own for each test."""

    session_s, window_s = 1.5, 0.7
    # A first join takes 0.1, a later one S - 1; then G, and one commit: less than a window.
    alone_s = 0.1 + 3 * window_s
    shared_s = REBALANCE_S + 3 * window_s
    # Silent members are searched for once a second.
    succession_s = session_s + 1.0 + shared_s

    def __init__(self, broker: Broker, partitions: int) -> None:
        self._broker = broker
        self.name = f"roles-{next(_numbers)}"
        broker.create_topic(self.name, partitions)
        host, port = broker.bootstrap.split(":")
        self.road = Road(host, int(port))

    @property
    def bootstrap(self) -> str:
        return self.road.bootstrap

    def role(
        self, name: str, mode: str = "exclusive", group: str = "", **callbacks: Any
    ) -> KafkaRole:
        return KafkaRole(
            self.bootstrap,
            group or self.name,
            topic=self.name,
            roles=ROLES,
            mode=mode,
            session_s=self.session_s,
            window_s=self.window_s if mode == "exclusive" else None,
            member=name,
            **callbacks,
        )

    @asynccontextmanager
    async def member(
        self, name: str, mode: str = "exclusive", **of_role: Any
    ) -> AsyncIterator[KafkaRole]:
        async with AsyncExitStack() as stack:
            for attempts_left in (2, 1, 0):
                role = self.role(name, mode, **of_role)
                try:
                    await stack.enter_async_context(role)
                    break
                except KafkaError as error:
                    # The mock broker, unlike Kafka, rejects a SyncGroup in a rebalance.
                    if "InvalidRequest" not in str(error) or not attempts_left:
                        raise
            yield role

    def cut(self, name: str) -> None:
        self.road.cut(name)

    def kill(self, name: str) -> None:
        self.road.kill(name)

    def heal(self, name: str) -> None:
        self.road.heal(name)

    def mute(self) -> None:
        self._broker.fail(COMMIT, LOADING, times=1_000)

    def unmute(self) -> None:
        self._broker.mend(COMMIT)

    async def __aenter__(self) -> Self:
        await self.road.__aenter__()
        self._broker.advertise(self.road.port)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.unmute()
        await self.road.__aexit__()


class OnListener(OnMock):
    """Kafka, by a docstore node that listens for its clients; they reach it by the road."""

    alone_s = 0.5 + 3 * OnMock.window_s

    def __init__(self, listener: Listener, partitions: int) -> None:
        self.name = f"roles-{next(_numbers)}"
        self.road = Road("127.0.0.1", listener.port, listener.advertised)
        self._url, self._partitions = listener.url, partitions

    def mute(self) -> None:
        self.road.is_muted = True

    def unmute(self) -> None:
        self.road.is_muted = False

    async def __aenter__(self) -> Self:
        asked = {"name": self.name, "partitions": self._partitions}
        async with (
            aiohttp.ClientSession(self._url) as http,
            http.post("/core/streams", json=asked) as answer,
        ):
            assert answer.status == 201, await answer.text()
        await self.road.__aenter__()
        return self


class OnNodes:
    """A document of roles on a docstore node, which each member reaches by a proxy."""

    session_s = 1.5
    window_s = session_s / 2.0
    alone_s = shared_s = 5.0
    succession_s = session_s + 2.0

    def __init__(self, url: str, partitions: int) -> None:
        self.name = f"roles-{next(_numbers)}"
        self._port = int(url.rsplit(":", 1)[1])
        self._partitions = partitions
        self._proxies = defaultdict(lambda: Proxy(self._port, Random(0)))

    @asynccontextmanager
    async def member(
        self, name: str, mode: str = "exclusive", **callbacks: Any
    ) -> AsyncIterator[roles.Role]:
        proxy = self._proxies[name]
        await proxy.start()
        async with Client([f"http://127.0.0.1:{proxy.port}"]) as client:
            role = client.role(
                self.name,
                roles=ROLES,
                partitions=self._partitions,
                mode=mode,
                session_s=self.session_s,
                **callbacks,
            )
            async with role:
                yield role

    def cut(self, name: str) -> None:
        self._proxies[name].link.frozen = True

    def kill(self, name: str) -> None:
        self._proxies[name].link.cut = True
        self._proxies[name].break_all()

    def heal(self, name: str) -> None:
        self._proxies[name].link.clear()
        self._proxies[name].break_all()

    def mute(self) -> None:
        for name in self._proxies:
            self.kill(name)

    def unmute(self) -> None:
        for name in self._proxies:
            self.heal(name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        for proxy in self._proxies.values():
            await proxy.stop()


def on_mock(request: pytest.FixtureRequest, partitions: int) -> Ledger:
    return OnMock(request.getfixturevalue("broker"), partitions)


def on_nodes(request: pytest.FixtureRequest, partitions: int) -> Ledger:
    return OnNodes(request.getfixturevalue("node"), partitions)


def on_listener(request: pytest.FixtureRequest, partitions: int) -> Ledger:
    return OnListener(request.getfixturevalue("listener"), partitions)


LEDGERS: dict[str, Callable[[pytest.FixtureRequest, int], Ledger]] = {
    "mock": on_mock,
    "native": on_nodes,
    "listener": on_listener,
}
"""Name -> how to make a ledger with a number of partitions for a test."""
