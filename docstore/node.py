"""One node: builds every part, runs them, and stops them. The only place that knows them all.

The order of a start: the disk, the links to peers, the group (found it, or find it stored), the
replica and its driver, membership, and last the HTTP face. The order of a stop is the reverse,
after a drain: no new work, in-flight requests finished, the others told.
"""

import asyncio
import contextlib
import random
from math import inf

import structlog

from docstore.administration import Administration
from docstore.config import Config
from docstore.document import Row
from docstore.driver import Driver, clock
from docstore.errors import StoreBroken, StoreDamaged, Unavailable
from docstore.face import Face
from docstore.http.server import HttpServer
from docstore.links.peers import PeerEvents, PeerLinks
from docstore.links.questions import Questions
from docstore.members.founding import Founding, identity
from docstore.members.group import Group
from docstore.members.joining import Joining
from docstore.members.membership import Membership
from docstore.operation import Answer, Operation
from docstore.process.damage import end_process, refuse_damaged
from docstore.process.draining import all_given_away
from docstore.protocol.events import DrainAsked, LinkLost, LinkMade, Received
from docstore.protocol.replica import Replica
from docstore.protocol.timing import ReplicaConfig
from docstore.reads.feed import Feed
from docstore.reads.listings import Listings
from docstore.reads.local import declarations
from docstore.reads.scans import Scans
from docstore.services.declaring import Declaring
from docstore.services.registry import Registry
from docstore.staging import Staging
from docstore.storage.sqlite import SqliteStore
from docstore.storage.store import Recovered
from docstore.upkeep.expiring import Expiring
from docstore.upkeep.holding import Holding
from docstore.upkeep.repair import Repair
from docstore.upkeep.resync import Resync
from docstore.wire import Ask, Configured, Message, Told

EXIT_STOPPED = 0
HAND_OVER_TIMEOUT_S = 5.0
LAST_ANSWER_TIMEOUT_S = 8.0
"""From the wish to stop until all connections are closed, the hand-over in it; then the disk is."""
POLL_S = 0.02

log = structlog.get_logger("docstore.node")


class Node:
    """A running node, and the backend of its HTTP face."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.stopping = asyncio.Event()
        self.exit_code = EXIT_STOPPED
        self.registry = Registry()
        self.declaring = Declaring(self.registry, self.submit, self.publish)
        self.store = SqliteStore(config.data / "docstore.db")
        self.node_id = self.store_id = ""
        self.replica: Replica | None = None
        self.driver: Driver | None = None
        self.administration: Administration | None = None
        self._draining = False
        self._refusing = False
        self._last_answer_by = inf
        self._why_not_ready = "starting"

    # Start and stop

    async def start(self) -> None:
        """Start everything that does not need the rest of the group, and begin to find it.

        Raises BadConfig, StoreBroken, or OSError when a port is taken.
        """
        refuse_damaged(self.config.data)
        recovered = await self.store.open()
        self.node_id, self.store_id = identity(self.config, recovered), recovered.store_id
        self.founding = Founding(self.config, self.node_id, recovered)
        self.founding.outdated = self._outdated
        self.links = PeerLinks(
            PeerEvents(
                hello=self.founding.hello,
                admit=self.founding.admit,
                received=self._received,
                linked=self._linked,
                lost=self._lost,
            )
        )
        self.joining = Joining(self.founding.request, lambda: self.founding.has_group)
        self.questions = Questions(self.node_id, self.links)
        await self.links.start(self.config.peer_host, self.config.peer_port)
        self.membership = Membership(self.config, self.node_id, recovered, self._view_changed)
        await self.membership.start()
        staging = Staging(self.config.data / "staging")
        self.http = HttpServer(Face(self), self.config.limits, staging)
        await self.http.start(self.config.listen_host, self.config.listen_port)
        for peer, address in self.founding.addresses().items():
            self.links.connect(peer, address)
        self._founder = asyncio.get_running_loop().create_task(self._join_group(recovered))

    async def _join_group(self, recovered: Recovered) -> None:
        """Wait until the group is known, then take part in it."""
        try:
            if self.config.join:
                self.joining.start(self.config.join)
            await self.founding.configuration(self.store)
            if recovered.configuration is None:
                recovered = await self.store.recover()
            await self._take_part(recovered)
        except StoreBroken as error:
            self._broken(error)

    async def _take_part(self, recovered: Recovered) -> None:
        life = f"{self.node_id}/{recovered.store_id}/{recovered.boot}"
        replica = Replica(
            self.node_id,
            recovered,
            service_for=self.declaring.service_for,
            rng=random.Random(life),
            vote_rng=random.Random(f"{life}/vote"),
            config=ReplicaConfig(
                heartbeat_interval_s=self.config.heartbeat_interval_s,
                owner_timeout_s=self.config.owner_timeout_s,
                remove_after_s=self.config.remove_after_s,
                history_retention_s=self.config.history_retention_s,
            ),
            now=clock(),
        )
        for row in await declarations(self.store, replica.core.placement.slots):
            self.publish(row)
        driver = Driver(replica, self.store, self.links, publish=self.publish, broken=self._broken)
        resync = Resync(self.node_id, replica, self.store, self.questions, driver.feed)
        self.resync = resync
        interval_s = self.config.repair_interval_s
        self.expiring = Expiring(replica, self.store, driver.submit)
        self.repair = Repair(replica, self.store, resync.compare, driver.feed, interval_s)
        file = self.config.data / "docstore.db"
        segments_bytes = self.config.segments_mb << 20
        self.scans = Scans(replica, driver, self.store, self.questions, file, segments_bytes)
        self.feed = Feed(replica, self.questions, self.scans.page)
        self.listings = Listings(replica, self.store, self.questions, driver.stored)
        self.holding = Holding(replica, self.listings)
        self.group = Group(
            self.node_id, replica, driver, founding=self.founding, links=self.links,
            membership=self.membership, questions=self.questions,
        )  # fmt: skip
        self.administration = Administration(
            replica, self.store, self.questions, resync, self.membership.describe, self.group
        )
        self.replica, self.driver = replica, driver
        self.founding.learnt = self._learnt
        driver.start()
        self.repair.start()
        self.expiring.start()
        if replica.core.config.history_retention_s > 0:
            self.holding.start()  # Otherwise nothing is let go of until somebody asks for it.
        self.declaring.start(replica)
        self.group.start()

    async def drained(self) -> None:
        """Return when this node owns nothing and its clients wait for nothing, or time is over.

        Requests are served all the while, on their way to the new owners; only then refused.
        """
        if self.replica is not None:
            await all_given_away(self.replica, HAND_OVER_TIMEOUT_S)
        self._refusing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._last_answer_by):
                while self.driver is not None and self.driver.in_flight:  # noqa: ASYNC110 - once
                    await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        """Stop all parts; safe after a start that failed half-way."""
        self._refusing = True
        self._begin_to_stop()
        if hasattr(self, "http"):
            loop = asyncio.get_running_loop()
            await self.http.stop(max(POLL_S, self._last_answer_by - loop.time()))
        if hasattr(self, "membership"):
            await self.membership.stop()
        if hasattr(self, "_founder"):
            self._founder.cancel()
            await asyncio.gather(self._founder, return_exceptions=True)
            await self.questions.stop()
            await self.joining.stop()
        if self.driver is not None:
            self.group.stop()
            await self.expiring.stop()
            await self.holding.stop()
            await self.declaring.stop()
            await self.repair.stop()
            await self.resync.stop()
            await self.scans.stop()
            await self.driver.stop()
        if hasattr(self, "links"):
            await self.links.stop()
        await self.store.close()

    def _broken(self, error: BaseException) -> None:
        end_process(self.config.data, error)

    def _outdated(self, boot: int) -> None:
        """Others have met a later life of this disk: it may have forgotten promises (rule M4)."""
        self._broken(StoreDamaged(f"an older copy, of before start {boot}: replace this disk"))

    # What the links and membership say

    def _learnt(self, packed: bytes) -> None:
        if self.driver is not None:
            self.driver.feed(Received(self.node_id, Configured(packed)))

    def _received(self, peer: str, message: Message, configuration: int) -> None:
        if isinstance(message, Ask):
            if self.driver is not None:
                self.questions.asked(peer, message)
        elif isinstance(message, Told):
            self.questions.told(message)
        elif self.driver is not None:
            self.driver.feed(Received(peer, message, configuration))

    def _linked(self, peer: str) -> None:
        if self.driver is not None:
            self.driver.feed(LinkMade(peer))

    def _lost(self, peer: str) -> None:
        if self.driver is not None:
            self.driver.feed(LinkLost(peer))

    def _view_changed(self) -> None:
        if self.driver is not None:
            self.group.view_changed()
            return
        for peer, address in self.membership.peer_addresses().items():
            if peer in self.founding.addresses():
                self.links.connect(peer, address)

    def publish(self, row: Row) -> None:
        """Know a factory by its declaration, or forget it."""
        if row.deleted:
            self.registry.retire(row)
        else:
            self.registry.declare(row)

    # What its faces ask of it

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        """Carry an operation to its owner."""
        if self.driver is None or self._refusing:
            why = "this node is stopping" if self._refusing else "the group is not known yet"
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            future.set_result(Answer(503, "not-ready", why))
            return future
        return self.driver.submit(operation, timeout_s)

    def pages(self) -> Administration:
        """Return what the node can be asked of; Unavailable before the group is known."""
        if self.administration is None:
            raise Unavailable("the group is not known yet: " + self.founding.why_not())
        return self.administration

    def scanned(self) -> Scans:
        """Return what serves bulk reads; Unavailable before the group is known."""
        self.pages()
        return self.scans

    def _begin_to_stop(self) -> None:
        self._draining = True
        now = asyncio.get_running_loop().time()
        self._last_answer_by = min(self._last_answer_by, now + LAST_ANSWER_TIMEOUT_S)

    def drain(self) -> None:
        """Begin to stop: give all slots away first."""
        self._begin_to_stop()
        if self.driver is not None:
            self.driver.feed(DrainAsked())
        if hasattr(self, "http"):
            self.http.send_away()
        self.stopping.set()

    def ready(self) -> tuple[bool, str]:
        """Say whether the node can serve."""
        if self._draining:
            return False, "draining"
        if self.administration is None:
            return False, self.founding.why_not()
        return self.administration.ready()
