"""One node, from its start to its end: builds every part, runs the parts, and stops them.

The parts that need no other node start first: disk, links, membership, HTTP server. Then the node
finds its group (stored, learned from a member, or founded) and takes part in it (`running.py`). The
part started last stops first. Before that comes a drain: the node gives its slots away, and the
last answers leave.
"""

import asyncio
import contextlib
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from docstore.config import Config, database_in, streams_in
from docstore.documents.events import Event
from docstore.documents.view import ReplicaView
from docstore.errors import BadConfig, StoreBroken, StoreDamaged
from docstore.http.access import Access
from docstore.http.declarations import check_declarable
from docstore.machines.events import Received
from docstore.maintenance.declaring import Declaring
from docstore.maintenance.restored import Restored, restored_in
from docstore.maintenance.webhooks.calling import caller_of
from docstore.model.tokens import Token, token_in, with_token
from docstore.node.authors import load
from docstore.node.backend import NodeBackend
from docstore.node.client_listeners import ClientListeners
from docstore.node.gate import Gate
from docstore.node.handler_calls import HandlerCalls
from docstore.node.members.founding import Founding, identity
from docstore.node.members.joining import JoinRequests
from docstore.node.members.lookup import Located, Lookup, OverHttp, system_s
from docstore.node.members.membership import GossipMembership
from docstore.node.parts import Parts
from docstore.node.quarantine import end_process, refuse_damaged, tell_lost_records
from docstore.node.registration import ServiceRegistration
from docstore.node.reloading import Reloading
from docstore.node.running import RunningNode
from docstore.runtime.audit import AUDIT
from docstore.runtime.links.connections import PeerEvents
from docstore.runtime.links.peers import PeerLinks
from docstore.runtime.links.rpc import Rpc
from docstore.runtime.secret_files import warn_of_open
from docstore.runtime.tls.settings import TlsFiles
from docstore.services.registry import Registry
from docstore.storage.partitions import StreamsRecovered, StreamStore
from docstore.storage.sqlite import SqliteStore
from docstore.storage.starting import Sizes
from docstore.storage.store import Recovered, Store
from docstore.storage.streams_sqlite import SqliteStreamStore
from docstore.streams.partitions import Partitions
from docstore.wire.link_messages import Message, RpcReply, RpcRequest
from docstore.wire.messages import Configured
from docstore.wire.sessions_messages import is_calling
from docstore.wire.streams_messages import is_streaming

if TYPE_CHECKING:
    from docstore.http.spans import Spans
    from docstore.runtime.links.certified import Certified
    from docstore.runtime.tls.credentials import Credentials

HAND_OVER_TIMEOUT_S = 5.0
LAST_ANSWER_TIMEOUT_S = 8.0
"""Seconds from the request to stop until all connections are closed, the hand-over included. The
disk closes after that."""
POLL_S = 0.02

log = structlog.get_logger("docstore.node")


class Node:
    """A running node. stores: its disk, by default that of the configuration.

    Raises BadConfig for an unusable service class.
    """

    parts: Parts
    """Set by `start`."""

    def __init__(
        self, config: Config, store: Store | None = None, streams_store: StreamStore | None = None
    ) -> None:
        self.config = config
        self.stopping = asyncio.Event()
        self.gate = Gate(self._why_not)
        self._calls = HandlerCalls(tells=config.services.development)
        self._registry = Registry(load(config.services.classes), self._calls)
        if store is None or streams_store is None:
            store, streams_store = _stores_in(config)
        self._store, self._streams_store = store, streams_store
        self._faces: ClientListeners | None = None
        self._spans: Spans | None = None
        self._last_answer_by = inf
        self._refused: BadConfig | None = None
        self._stack = contextlib.AsyncExitStack()

    # Start

    async def start(self) -> None:
        """Start all parts that do not need the group, and begin to find it.

        Raises BadConfig, StoreBroken, or OSError when a port is taken.
        """
        config, stack = self.config, self._stack
        AUDIT.use(config.logging.audit_file, config.node_id)
        refuse_damaged(config.data)
        restored = restored_in(config.data)
        self._store.broken = self._broken
        stack.push_async_callback(self._store.close)
        recovered = await self._store.open()
        stack.push_async_callback(self._streams_store.close)
        streams_recovered = await self._streams_store.open()
        tell_lost_records(config.data / "streams.db", recovered.boot, streams_recovered)
        parts = self.parts = self._parts(recovered, streams_recovered, restored)
        # The files were read by now, so they exist.
        secrets = (config.token_file, config.gossip_key_file, config.callbacks.key_file)
        warn_of_open(Path(each) for each in secrets if each)
        if parts.credentials is not None:
            watching = asyncio.get_running_loop().create_task(parts.credentials.watch())
            stack.push_async_callback(_cancel, watching)
        await parts.links.start(config.peer_host, config.peer_port)
        stack.push_async_callback(parts.links.stop)
        stack.push_async_callback(self._stop_running)
        stack.push_async_callback(parts.joining.stop)
        stack.push_async_callback(parts.rpc.stop)
        await parts.membership.start()
        stack.push_async_callback(parts.membership.stop)
        drain = partial(self.drain, "DELETE of /core/management")
        backend = NodeBackend(parts, self.gate, drain, self._calls)
        self._registration = ServiceRegistration(
            list(self._registry.authors.values()),
            backend.submit,
            backend.announce,
            partial(check_declarable, backend),
        )
        stack.push_async_callback(self._registration.stop)
        self._spans = spans_of(config, parts.node_id)
        if self._spans is not None:
            stack.push_async_callback(self._spans.stop)
        self._faces = ClientListeners(parts, backend, self._spans)
        stack.push_async_callback(self._stop_faces, self._faces)
        await self._faces.start()
        stack.push_async_callback(parts.lookup.stop)
        parts.lookup.look_for(parts.founding.others())
        founder = asyncio.get_running_loop().create_task(self._join_group(recovered))
        stack.push_async_callback(_cancel, founder)
        stack.callback(self.gate.close)

    def _access(self) -> Access | None:
        """Return the users' permissions, and begin to watch their file. Raises BadConfig."""
        if not self.config.access_file:
            return None
        from docstore.node.access_file import AccessFile  # noqa: PLC0415 - as `_certified`.

        watched = AccessFile(Path(self.config.access_file))
        watching = asyncio.get_running_loop().create_task(watched.watch())
        self._stack.push_async_callback(_cancel, watching)
        return Access(watched.authenticator, is_anonymous=self.config.anonymous_versions)

    def _token(self) -> Token:
        token = token_in(self.config.token_file)
        try:
            # Check the token now: an unusable one would only show in other nodes' 401.
            with_token(None, token)
        except ValueError as error:
            raise BadConfig(f"token_file: {error}") from None
        return token

    def _parts(
        self, recovered: Recovered, streams_recovered: StreamsRecovered, restored: Restored | None
    ) -> Parts:
        node_id = identity(self.config, recovered)
        founding = Founding(
            self.config, node_id, recovered,
            learnt=self._learnt, outdated=self._outdated, restored=restored,
        )  # fmt: skip
        credentials, certified = _certified(self.config.tls, node_id)
        links = PeerLinks(
            PeerEvents(
                hello=founding.hello,
                admit=founding.admit,
                received=self._received,
                linked=self._linked,
                lost=self._lost,
            ),
            certified=certified,
        )
        if credentials is not None:
            credentials.changed = links.judge_again
        token = self._token()
        over_http = OverHttp(
            self.config.tls.scheme, token, credentials.asking if credentials else system_s
        )
        return Parts(
            config=self.config,
            node_id=node_id,
            store_id=recovered.store_id,
            store=self._store,
            streams=self._streams_store,
            streams_recovered=streams_recovered,
            credentials=credentials,
            registry=self._registry,
            founding=founding,
            joining=JoinRequests(founding.request, lambda: founding.has_group, over_http),
            lookup=Lookup(self._located, over_http),
            links=links,
            rpc=Rpc(node_id, links),
            membership=GossipMembership(self.config, node_id, recovered, self._view_changed),
            access=self._access(),
            caller=caller_of(self.config.callbacks),
        )

    def _why_not(self) -> str:
        return self.parts.founding.why_not()

    async def _join_group(self, recovered: Recovered) -> None:
        parts = self.parts
        try:
            if self.config.join:
                parts.joining.start(self.config.join)
            await parts.founding.configuration(parts.store)
            if recovered.configuration is None:
                recovered = await parts.store.recover()
            declaring = Declaring(parts.registry, self.gate.submit)
            running = RunningNode(parts, recovered, declaring, self._broken)
            await running.recall()
        except StoreBroken as error:
            self._broken(error)
        except BadConfig as error:  # The settings contradict those of the group.
            self._refused = error
            self.stopping.set()
        else:
            self.gate.open(running, self._registration.why_not)
            if self._spans is not None:
                self._spans.watch(running.driver.recorder, running.streams.recorder)
            running.start()
            self._registration.start()
            if self.config.services.reload:
                self._reload_services(running)
            _tell_other_port(self.config, parts.node_id, running.driver.view)
            if self._faces is not None:
                await self._faces.serve_group()

    def _reload_services(self, running: RunningNode) -> None:
        reloading = Reloading(
            self.config.services.classes, self._registry, self._registration, running.recall
        )
        reloading.start()
        self._stack.push_async_callback(reloading.stop)

    def reload(self) -> None:
        """Read the certificate files again."""
        if self.parts.credentials is not None:
            self.parts.credentials.reload()

    # Stop

    def drain(self, reason: str = "") -> None:
        if not self.stopping.is_set():
            log.info("this node stops", reason=reason)
            AUDIT.note("node stops", reason=reason)
        self._begin_to_stop()
        if self.gate.running is not None:
            self.gate.running.drain()
        if self._faces is not None:
            self._faces.send_away()
        self.stopping.set()

    def _begin_to_stop(self) -> None:
        now = asyncio.get_running_loop().time()
        self._last_answer_by = min(self._last_answer_by, now + LAST_ANSWER_TIMEOUT_S)
        self.gate.leave()

    async def drained(self) -> None:
        """Return when this node owns nothing and has answered its clients, or its time is over.

        Until then the node serves requests or forwards them to the new owners; later requests get
        503. Raises BadConfig if the node stops because its settings are not the group's.
        """
        running = self.gate.running
        if running is not None:
            await all_given_away(running.driver.view, running.streams.machine, HAND_OVER_TIMEOUT_S)
        self.gate.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._last_answer_by):
                while running is not None and running.in_flight:  # noqa: ASYNC110 - once
                    await asyncio.sleep(POLL_S)
        if self._refused is not None:
            raise self._refused

    async def stop(self) -> None:
        """Stop all parts; safe after a start that failed halfway."""
        await self._stack.aclose()

    async def _stop_faces(self, faces: ClientListeners) -> None:
        self._begin_to_stop()
        await faces.stop(max(POLL_S, self._last_answer_by - asyncio.get_running_loop().time()))

    async def _stop_running(self) -> None:
        if self.gate.running is not None:
            await self.gate.running.stop()

    def _broken(self, error: BaseException) -> None:
        try:
            if self.gate.running is not None:
                self.gate.running.trace.dump(log.error, str(error))
        finally:  # Stop the parts even if the trace cannot be logged.
            end_process(self.config.data, error)

    def _outdated(self, boot: int) -> None:
        """End the node: peers met a later start of this disk, which may lack promises (rule M4)."""
        self._broken(StoreDamaged(f"an older copy, of before start {boot}: replace this disk"))

    # Callbacks of links and membership

    def _feed(self, event: Event) -> None:
        if self.gate.running is not None:
            self.gate.running.driver.feed(event)

    def _linked(self, peer: str) -> None:
        if self.gate.running is not None:
            self.gate.running.link_made(peer)

    def _lost(self, peer: str) -> None:
        if self.gate.running is not None:
            self.gate.running.link_lost(peer)

    def _located(self, member: str, located: Located) -> None:
        self.parts.links.connect(member, located.peer)
        self.parts.membership.look_at(located.gossip)

    def _learnt(self, packed: bytes) -> None:
        self._feed(Received(self.parts.node_id, Configured(packed)))

    def _received(self, peer: str, message: Message, configuration: int) -> None:
        if is_streaming(message):
            # Deliver it in any configuration: partitions are fenced by their epoch.
            if self.gate.running is not None:
                self.gate.running.streams.feed(Received(peer, message))
        elif is_calling(message):
            if self.gate.running is not None:
                self.gate.running.sessions.feed(Received(peer, message))
        elif isinstance(message, RpcRequest):
            if self.gate.running is not None:
                self.parts.rpc.asked(peer, message)
        elif isinstance(message, RpcReply):
            self.parts.rpc.told(message)
        else:
            self._feed(Received(peer, message, configuration))

    def _view_changed(self) -> None:
        if self.gate.running is not None:
            self.gate.running.group.view_changed()
            return
        known = self.parts.founding.others()
        for peer, address in self.parts.membership.peer_addresses().items():
            if peer in known:
                self.parts.links.connect(peer, address)


def _tell_other_port(config: Config, me: str, view: ReplicaView) -> None:
    """Warn that the group sends clients to another port, since a member's address cannot change."""
    for member in view.members.configuration.members:
        if member.id == me and member.port != config.advertise.port:
            log.warning(
                "the group sends clients to another port: start this node with that port",
                known=member.address.url(config.tls.scheme), here=config.url,
            )  # fmt: skip


def _stores_in(config: Config) -> tuple[Store, StreamStore]:
    """Return the stores of a node. The stream store leaves its room to documents on a full disk."""
    documents = SqliteStore(database_in(config.data), sizes=Sizes.of(config.journal_mb))
    streams = SqliteStreamStore(streams_in(config.data), stands_aside=lambda: documents.is_full)
    return documents, streams


def _certified(tls: TlsFiles, me: str) -> "tuple[Credentials | None, Certified | None]":
    """Read the files of TLS, if the settings name any. Raises BadConfig.

    Imports late, so that a node without TLS starts without `cryptography`: 25 ms and 8 MiB.
    """
    if not tls.paths:
        return None, None
    from docstore.runtime.links.certified import Certified  # noqa: PLC0415
    from docstore.runtime.tls.credentials import Credentials  # noqa: PLC0415

    credentials = Credentials(tls, me)
    return credentials, Certified(credentials) if tls.peers else None


def spans_of(config: Config, node_id: str) -> "Spans | None":
    """Return what makes spans, None without a collector. Raises BadConfig without OpenTelemetry."""
    if not config.logging.otlp_endpoint:
        return None
    try:
        from docstore.http.spans import Spans  # noqa: PLC0415 - as `_certified`.
    except ImportError as error:
        raise BadConfig(
            f"otlp_endpoint: {error.name} is not installed: pip install 'docstore[otel]'"
        ) from None
    return Spans(config.logging.otlp_endpoint, node_id)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def all_given_away(view: ReplicaView, partitions: Partitions, timeout_s: float) -> None:
    """Return when nothing is left to give away, no node can take it, or the time is over."""
    deferring = partitions.deferring
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while view.owners.has_to_give or deferring.leads_what_others_could:  # noqa: ASYNC110 - once
                await asyncio.sleep(POLL_S)
