"""The port for Kafka clients: accepts connections, limits them, and closes them at the node's end.

Connections are counted and limited as those of HTTP. A connection is closed if its client is silent
for too long, or does not read its answers. One timer checks all of them, while there are any.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Mapping, Sequence

import structlog
from kio.schema.index import api_key_map

from docstore.http.access import Access
from docstore.http.admission import Admission
from docstore.http.backend import Backend
from docstore.http.slow_readers import LOOKS, SlowReaders
from docstore.kafka.brokers import Brokers
from docstore.kafka.config_pages import ConfigPages
from docstore.kafka.connection import Connection, Held
from docstore.kafka.deleting import DeletePages
from docstore.kafka.dispatch import Api, Call, Dispatch
from docstore.kafka.errors import ErrorCode
from docstore.kafka.fetch import FetchPages
from docstore.kafka.group_admin import GroupAdmin
from docstore.kafka.group_members import GroupMembers
from docstore.kafka.group_offsets import GroupOffsets
from docstore.kafka.metadata import MetadataPages
from docstore.kafka.offsets import OffsetFinder
from docstore.kafka.produce import ProducePages
from docstore.kafka.sasl import AUTHENTICATE, HANDSHAKE, MECHANISM, Login
from docstore.kafka.schemas import Fields
from docstore.kafka.topics import TopicPages
from docstore.model.limits import Limits
from docstore.runtime.tls.accepting import Entrance, RejectedConnections, TlsServer, listen

LOOK_S = 1.0
"""Seconds between two looks at the open connections, unless a limit asks for more."""
POLL_S = 0.01

log = structlog.get_logger("docstore.kafka")


class KafkaListener:
    """Serves one backend to clients of Kafka."""

    def __init__(
        self,
        backend: Backend,
        limits: Limits,
        *,
        access: Access | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """access, tls: as of the HTTP server."""
        self._limits = limits
        self._access = access
        self._tls = tls
        self._dispatch = Dispatch(_apis(backend))
        self._admission = Admission(limits)
        self._open: dict[Connection, None] = {}
        self._held = Held()
        self._slow_readers = SlowReaders()
        self._strangers = RejectedConnections("kafka_listen", self._count_refused)
        self._refused = self._silent = 0
        self._looking: asyncio.TimerHandle | None = None
        self._looked_at_readers = 0.0
        self._socket: asyncio.Server | TlsServer | None = None
        self._is_leaving = False

    async def bind(self, host: str, port: int) -> int:
        """Bind a port; return its number. Raises OSError when it is taken."""
        if self._tls is not None:
            self._socket = await listen(self._entrance(self._tls), host, port, start=False)
        else:
            self._socket = await asyncio.get_running_loop().create_server(
                self._connection, host, port, backlog=1024, reuse_address=True, start_serving=False
            )
        bound: int = self._socket.sockets[0].getsockname()[1]
        return bound

    async def serve(self) -> None:
        """Accept clients, now that the group is known."""
        if self._socket is not None and not self._is_leaving:
            await self._socket.start_serving()

    def send_away(self) -> None:
        """Accept no more clients; close each connection after its answers."""
        self._is_leaving = True
        if self._socket is not None:
            self._socket.close()
        for each in tuple(self._open):
            each.leave()

    async def stop(self, grace_s: float) -> None:
        """Let the requests finish within `grace_s`, then close all connections."""
        self.send_away()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while self._open:  # noqa: ASYNC110 - once
                    await asyncio.sleep(POLL_S)
        for each in tuple(self._open):
            each.abort()
        if self._looking is not None:
            self._looking.cancel()

    def metrics(self) -> Mapping[str, float]:
        """Return name -> value of the listener's counters."""
        found = {
            "docstore_kafka_connections": float(len(self._open)),
            "docstore_kafka_connections_refused_total": float(self._refused),
            "docstore_kafka_connections_silent_total": float(self._silent),
        }
        for key, count in self._dispatch.served.items():
            found[f'docstore_kafka_requests_total{{api="{api_key_map[key]}"}}'] = float(count)
        return found

    # Connections

    def _connection(self) -> Connection:
        return Connection(self._dispatch, self._limits, self._held, self._opened, self._closed)

    def _entrance(self, context: Callable[[], ssl.SSLContext]) -> Entrance:
        return Entrance(
            context=context, protocol=self._connection, failed=self._strangers.tell,
            enter=self._admission.enter, leave=self._admission.leave,
            patience_s=self._limits.first_request_timeout_s,
        )  # fmt: skip

    def _opened(self, connection: Connection) -> Login | None:
        """Count a connection; return its login, None if it is refused."""
        self._open[connection] = None
        why_not = ""
        if connection.is_encrypted:  # `_entrance` admitted it before its handshake.
            self._admission.count(connection.address)
        else:
            why_not = self._admission.enter(connection.address)
        if why_not or self._is_leaving:
            self._refused += bool(why_not)
            return None
        if self._looking is None:
            self._look_later()
        return Login(self._access, connection.address)

    def _closed(self, connection: Connection, why: str) -> None:
        del self._open[connection]
        self._admission.leave(connection.address)
        if why:
            self._strangers.tell(connection.address, why)

    def _count_refused(self) -> None:
        self._refused += 1

    def _look_later(self) -> None:
        pause_s = min(LOOK_S, self._limits.first_request_timeout_s / LOOKS)
        self._looking = asyncio.get_running_loop().call_later(pause_s, self._look)

    def _look(self) -> None:
        """Close the silent connections, and those whose clients do not read."""
        self._looking = None
        now = time.monotonic()
        for each in tuple(self._open):
            if each.overstays(now):
                self._silent += 1
                each.abort()
        if now - self._looked_at_readers >= self._limits.send_timeout_s / LOOKS:
            self._looked_at_readers = now
            self._slow_readers.look(self._open)
        if self._open:
            self._look_later()


def _apis(backend: Backend) -> Sequence[Api]:
    brokers = Brokers(backend)
    return (
        Api(HANDSHAKE, 0, 1, _handshake),
        Api(AUTHENTICATE, 0, 2, _authenticate),
        *MetadataPages(backend, brokers).apis(),
        *GroupMembers(backend, brokers).apis(),
        *GroupOffsets(backend, brokers).apis(),
        *GroupAdmin(backend, brokers).apis(),
        *ProducePages(backend, brokers).apis(),
        *FetchPages(backend, brokers).apis(),
        *OffsetFinder(backend, brokers).apis(),
        *DeletePages(backend, brokers).apis(),
        *TopicPages(backend).apis(),
        *ConfigPages(backend).apis(),
    )


async def _handshake(call: Call) -> Fields:
    if call.version == 0:  # librdkafka 2.0 wants it announced, and sends version 1 all the same.
        return Fields(error_code=ErrorCode.unsupported_version, mechanisms=())
    return Fields(error_code=call.login.choose(call.request.mechanism), mechanisms=[MECHANISM])


async def _authenticate(call: Call) -> Fields:
    code = call.login.authenticate(call.request.auth_bytes)
    why = "the user or the token is not valid" if code else None
    return Fields(error_code=code, error_message=why, auth_bytes=b"", session_lifetime=0)
