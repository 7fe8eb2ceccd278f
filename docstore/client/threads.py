"""Roles and leases for programs without an event loop, or with one that may be blocked.

    with ThreadedRole(urls, "pricing", roles=64) as role:
        while True:
            if role.leads(7):
                publish(fence=role.fence(7))

Heartbeats run on a loop of their own, in a daemon thread; `leads` does not wait for that thread.
Callbacks run in it, and must not block it for longer than a proof is valid.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from ssl import SSLContext
from typing import Any, Generic, Self, TypeVar

from docstore.client.client import Client
from docstore.client.leases import Lease
from docstore.client.roles import Role
from docstore.model.tokens import Token

T = TypeVar("T")
Held = TypeVar("Held", Role, Lease)

THREAD = "docstore"
START_S = 60.0


class _Threaded(ABC, Generic[Held]):
    """A client and a role or lease of it, on an event loop in a thread of its own."""

    def __init__(
        self, urls: Sequence[str], what: dict[str, Any], token: Token, ssl: SSLContext | None
    ) -> None:
        self._urls = urls
        self._token = token
        self._ssl = ssl
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Client | None = None
        self._held: Held | None = None

    @property
    def held_thing(self) -> Held:
        """Return the role or lease; it exists only within the `with` block."""
        if self._held is None:
            raise RuntimeError(f"this {type(self).__name__} is not open: use it within `with`")
        return self._held

    @abstractmethod
    def _make(self, client: Client) -> Held:
        """Return the role or lease to hold."""

    def __enter__(self) -> Self:
        """Start the thread, and begin to hold."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=THREAD, daemon=True)
        self._thread.start()
        try:
            self._run(self._begin())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        """End the role or lease, and the thread."""
        try:
            self._run(self._end(), None)  # No timeout, as it ends after revokeMs at the latest.
        finally:
            self._stop()

    async def _begin(self) -> None:
        self._client = Client(self._urls, token=self._token, ssl=self._ssl)
        await self._client.__aenter__()
        try:
            held = self._make(self._client)
            await held.__aenter__()
            self._held = held
        except BaseException:
            await self._client.__aexit__(None, None, None)
            raise

    async def _end(self) -> None:
        assert self._client is not None
        assert self._held is not None
        try:
            await self._held.__aexit__(None, None, None)
        finally:
            await self._client.__aexit__(None, None, None)

    def _run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = START_S) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def _stop(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class ThreadedRole(_Threaded[Role]):
    """`client.role` for programs without an event loop, with the same settings."""

    def __init__(
        self,
        urls: Sequence[str],
        name: str,
        *,
        token: Token = "",
        ssl: SSLContext | None = None,
        **settings: Any,
    ) -> None:
        """token, ssl: as for `Client`."""
        super().__init__(urls, settings, token, ssl)
        self._name = name

    def _make(self, client: Client) -> Role:
        return client.role(self._name, **self._what)

    def leads(self, role: int) -> bool:
        """Say whether this process leads a role now."""
        return self.held_thing.leads(role)

    def leads_key(self, key: str, slots: int = 0) -> bool:
        """Say whether this process leads the hash slot of a key now."""
        return self.held_thing.leads_key(key, slots)

    def token(self, role: int) -> int:
        """Return the token of the tenure. Raises NotLeading without one."""
        return self.held_thing.token(role)

    def fence(self, role: int) -> str:
        """Return the fence that guarded writes must carry.

        Raises NotLeading unless the role is led now.
        """
        return self.held_thing.fence(role)


class ThreadedLease(_Threaded[Lease]):
    """`client.lease` for programs without an event loop, with the same settings."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: Token = "",
        ssl: SSLContext | None = None,
        **settings: Any,
    ) -> None:
        """token, ssl: as for `Client`."""
        super().__init__(urls, settings, token, ssl)

    def _make(self, client: Client) -> Lease:
        return client.lease(**self._what)

    @property
    def link(self) -> str:
        """Return the link of the lease's document."""
        return self.held_thing.link

    def held(self) -> bool:
        """Say whether the lease is held now."""
        return self.held_thing.held()
