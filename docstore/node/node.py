"""One node, from its start to its end: builds every part, runs them, and stops them.

First what needs nobody else: the disk, the links to peers, membership, the HTTP face. Then the
group is found (stored, told, or founded), and the node takes part in it (`running.py`). What was
started last is stopped first, after a drain: slots are given away, and the last answers leave.
"""

import asyncio
import contextlib
from math import inf

import structlog

from docstore.config import Config, database_in, streams_in
from docstore.errors import StoreBroken, StoreDamaged
from docstore.http.guard import machine_names
from docstore.http.server import HttpServer
from docstore.http.staged_files import Staging
from docstore.links.peers import PeerEvents, PeerLinks
from docstore.links.rpc import Rpc
from docstore.members.founding import Founding, identity
from docstore.members.joining import Joining
from docstore.members.lookup import Located, Lookup
from docstore.members.membership import Membership
from docstore.node.backend import Face
from docstore.node.damage import end_process, refuse_damaged
from docstore.node.draining import all_given_away
from docstore.node.gate import Entrance
from docstore.node.parts import Ground
from docstore.node.running import Serving
from docstore.protocol.events import Event, Received
from docstore.services.declaring import Declaring
from docstore.services.registry import Registry
from docstore.sessions import events as sessions
from docstore.sessions.messages import is_calling
from docstore.storage.partitions import StreamsRecovered, StreamStore
from docstore.storage.sqlite import SqliteStore
from docstore.storage.store import Recovered, Store
from docstore.storage.streams_sqlite import SqliteStreamStore
from docstore.streams import events as streams
from docstore.streams.messages import is_streaming
from docstore.wire import Ask, Configured, Message, Told

HAND_OVER_TIMEOUT_S = 5.0
LAST_ANSWER_TIMEOUT_S = 8.0
"""From the wish to stop until all connections are closed, the hand-over in it; then the disk is."""
POLL_S = 0.02

log = structlog.get_logger("docstore.node")


class Node:
    """A running node. stores: its disk, that of the configuration unless others are given."""

    ground: Ground
    """Known once it has started."""

    def __init__(
        self,
        config: Config,
        store: Store | None = None,
        streams_store: StreamStore | None = None,
    ) -> None:
        self.config = config
        self.stopping = asyncio.Event()
        self.entrance = Entrance()
        self._store = store or SqliteStore(database_in(config.data))
        self._streams_store = streams_store or SqliteStreamStore(streams_in(config.data))
        self._http: HttpServer | None = None
        self._last_answer_by = inf
        self._running = contextlib.AsyncExitStack()

    # Start

    async def start(self) -> None:
        """Start everything that does not need the rest of the group, and begin to find it.

        Raises BadConfig, StoreBroken, or OSError when a port is taken.
        """
        config, running = self.config, self._running
        refuse_damaged(config.data)
        running.push_async_callback(self._store.close)
        recovered = await self._store.open()
        running.push_async_callback(self._streams_store.close)
        ground = self.ground = self._ground(recovered, await self._streams_store.open())
        self.entrance.why_not = ground.founding.why_not
        await ground.links.start(config.peer_host, config.peer_port)
        running.push_async_callback(ground.links.stop)
        running.push_async_callback(self._stop_serving)
        running.push_async_callback(ground.joining.stop)
        running.push_async_callback(ground.rpc.stop)
        await ground.membership.start()
        running.push_async_callback(ground.membership.stop)
        face = Face(ground, self.entrance, self.drain)
        names = config.host_names | machine_names()
        staging = Staging(config.data / "staging")
        self._http = HttpServer(face, config.limits, staging, names=names)
        await self._http.start(config.listen_host, config.listen_port)
        running.push_async_callback(self._stop_http, self._http)
        running.push_async_callback(ground.lookup.stop)
        ground.lookup.look_for(ground.founding.others())
        founder = asyncio.get_running_loop().create_task(self._join_group(recovered))
        running.push_async_callback(_cancel, founder)
        running.callback(self.entrance.close)

    def _ground(self, recovered: Recovered, streams_recovered: StreamsRecovered) -> Ground:
        node_id = identity(self.config, recovered)
        founding = Founding(self.config, node_id, recovered)
        founding.outdated = self._outdated
        links = PeerLinks(
            PeerEvents(
                hello=founding.hello,
                admit=founding.admit,
                received=self._received,
                linked=self._linked,
                lost=self._lost,
            )
        )
        return Ground(
            config=self.config,
            node_id=node_id,
            store_id=recovered.store_id,
            store=self._store,
            streams=self._streams_store,
            streams_recovered=streams_recovered,
            registry=Registry(),
            founding=founding,
            joining=Joining(founding.request, lambda: founding.has_group),
            lookup=Lookup(self._located),
            links=links,
            rpc=Rpc(node_id, links),
            membership=Membership(self.config, node_id, recovered, self._view_changed),
        )

    async def _join_group(self, recovered: Recovered) -> None:
        """Wait until the group is known, then take part in it."""
        ground = self.ground
        try:
            if self.config.join:
                ground.joining.start(self.config.join)
            await ground.founding.configuration(ground.store)
            if recovered.configuration is None:
                recovered = await ground.store.recover()
            declaring = Declaring(ground.registry, self.entrance.submit)
            serving = Serving(ground, recovered, declaring, self._broken)
            await serving.recall()
        except StoreBroken as error:
            self._broken(error)
        else:
            self.entrance.open(serving)
            ground.founding.learnt = self._learnt
            serving.start()

    # Stop

    def drain(self) -> None:
        """Begin to stop: give all slots and partitions away first."""
        self._begin_to_stop()
        if self.entrance.serving is not None:
            self.entrance.serving.drain()
        if self._http is not None:
            self._http.send_away()
        self.stopping.set()

    def _begin_to_stop(self) -> None:
        now = asyncio.get_running_loop().time()
        self._last_answer_by = min(self._last_answer_by, now + LAST_ANSWER_TIMEOUT_S)
        self.entrance.leave()

    async def drained(self) -> None:
        """Return when this node owns nothing and its clients wait for nothing, or time is over.

        Requests are served all the while, on their way to the new owners; only then refused.
        """
        serving = self.entrance.serving
        if serving is not None:
            await all_given_away(serving.driver.view, serving.streams.machine, HAND_OVER_TIMEOUT_S)
        self.entrance.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._last_answer_by):
                while serving is not None and serving.in_flight:  # noqa: ASYNC110 - once
                    await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        """Stop all parts; safe after a start that failed half-way."""
        await self._running.aclose()

    async def _stop_http(self, http: HttpServer) -> None:
        self._begin_to_stop()
        await http.stop(max(POLL_S, self._last_answer_by - asyncio.get_running_loop().time()))

    async def _stop_serving(self) -> None:
        if self.entrance.serving is not None:
            await self.entrance.serving.stop()

    def _broken(self, error: BaseException) -> None:
        try:
            if self.entrance.serving is not None:
                self.entrance.serving.trace.dump(log.error, str(error))
        finally:  # Whatever becomes of its last words.
            end_process(self.config.data, error)

    def _outdated(self, boot: int) -> None:
        """Others have met a later life of this disk: it may have forgotten promises (rule M4)."""
        self._broken(StoreDamaged(f"an older copy, of before start {boot}: replace this disk"))

    # What the links and membership say

    def _feed(self, event: Event) -> None:
        if self.entrance.serving is not None:
            self.entrance.serving.driver.feed(event)

    def _linked(self, peer: str) -> None:
        if self.entrance.serving is not None:
            self.entrance.serving.link_made(peer)

    def _lost(self, peer: str) -> None:
        if self.entrance.serving is not None:
            self.entrance.serving.link_lost(peer)

    def _located(self, member: str, located: Located) -> None:
        self.ground.links.connect(member, located.peer)
        self.ground.membership.look_at(located.gossip)

    def _learnt(self, packed: bytes) -> None:
        self._feed(Received(self.ground.node_id, Configured(packed)))

    def _received(self, peer: str, message: Message, configuration: int) -> None:
        if is_streaming(message):
            # Whatever configuration they count by: a partition's epoch fences, not that.
            if self.entrance.serving is not None:
                self.entrance.serving.streams.feed(streams.Received(peer, message))
        elif is_calling(message):
            if self.entrance.serving is not None:
                self.entrance.serving.sessions.feed(sessions.Received(peer, message))
        elif isinstance(message, Ask):
            if self.entrance.serving is not None:
                self.ground.rpc.asked(peer, message)
        elif isinstance(message, Told):
            self.ground.rpc.told(message)
        else:
            self._feed(Received(peer, message, configuration))

    def _view_changed(self) -> None:
        if self.entrance.serving is not None:
            self.entrance.serving.group.view_changed()
            return
        known = self.ground.founding.others()
        for peer, address in self.ground.membership.peer_addresses().items():
            if peer in known:
                self.ground.links.connect(peer, address)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
