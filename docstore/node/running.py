"""A node in its group: the replica, its driver, and the parts that use them.

These parts are made when the group is known (`members/founding.py`), and ended after the last
answer has left.
"""

import random
from collections.abc import Callable

from docstore.agendas.machine import Agendas
from docstore.config import database_in
from docstore.documents.events import SlotCorrupted
from docstore.documents.replica import Replica
from docstore.documents.timing import LeadershipTimes, ReplicaConfig, Retention
from docstore.documents.view import GroupView
from docstore.machines.events import DrainAsked, LinkLost, LinkMade, Noticed
from docstore.maintenance.agenda_driver import AgendaDocuments, AgendaDriver
from docstore.maintenance.announcing import Announcing
from docstore.maintenance.declaring import Declaring
from docstore.maintenance.upkeep.expiring import Expiring
from docstore.maintenance.upkeep.pins import PinsReader
from docstore.maintenance.upkeep.repair import Repair
from docstore.maintenance.upkeep.resync import Resync
from docstore.maintenance.webhooks.deliverer import Deliverer
from docstore.maintenance.webhooks.reading import ChangeReader
from docstore.model.agenda import has_agenda
from docstore.model.document import Row
from docstore.node.members.gossip_keys import GroupKeys
from docstore.node.members.group import GroupConfiguration
from docstore.node.parts import Parts
from docstore.node.status import StatusPages
from docstore.ownership.configuration import Configuration
from docstore.reads.availability import Availability
from docstore.reads.listings import Listings
from docstore.reads.local import declarations
from docstore.reads.owners import Owners
from docstore.reads.positions import Positions
from docstore.reads.scans.feed import Feed
from docstore.reads.scans.indexing import Indexing
from docstore.reads.scans.queries import GroupQueries
from docstore.reads.scans.scanner import Scans
from docstore.reads.scans.searches import Searches
from docstore.runtime.backend import SessionBackend
from docstore.runtime.document_client import DocumentClient
from docstore.runtime.driver import Driver
from docstore.runtime.links.rpc import Rpc
from docstore.runtime.sessions_driver import SessionsDriver
from docstore.runtime.stepping import clock
from docstore.runtime.streams_backend import StreamBackend
from docstore.runtime.streams_driver import StreamsDriver
from docstore.runtime.trace.trace import Trace
from docstore.services.registry import FACTORIES
from docstore.services.subscriptions import SUBSCRIPTIONS
from docstore.sessions.machine import Sessions
from docstore.storage.store import Recovered
from docstore.streams.partitions import Partitions
from docstore.streams.replica_set import STREAMS


class RunningNode:
    """The parts of a node that need the group.

    broken: called when the disk has failed; the node must not answer anything after it.
    """

    def __init__(
        self,
        parts: Parts,
        recovered: Recovered,
        declaring: Declaring,
        broken: Callable[[BaseException], None],
    ) -> None:
        self._parts = parts
        self._declaring = declaring
        config, store, rpc = parts.config, parts.store, parts.rpc
        replica = self.replica = _replica(parts, recovered, declaring, self._blocks)
        driver = self.driver = Driver(
            replica, store, parts.links,
            publish=self._publish, reconfigured=self._reconfigured, broken=broken,
        )  # fmt: skip
        view = driver.view.members
        self.streams = StreamsDriver(
            _partitions(parts, recovered, view), parts.streams, parts.links,
            documents=DocumentClient(driver.submit, store, view, STREAMS, broken=broken),
            broken=broken,
        )  # fmt: skip
        self.stream_backend = StreamBackend(parts.node_id, self.streams, view, rpc, driver.submit)
        self.sessions = _sessions(parts, recovered, view, driver, broken)
        self.session_backend = SessionBackend(self.sessions, view)
        self.resync = Resync(driver.view, store, rpc, driver.feed)
        self.expiring = Expiring(driver.view, store, driver.submit)
        self.repair = Repair(
            driver.view, store, self.resync.compare, driver.feed, config.repair_interval_s
        )
        self.scans = Scans(driver, store, rpc, database_in(config.data), config.segments_mb << 20)
        self.indexing = _indexing(parts, recovered, self.scans, driver)
        self.searches = Searches(rpc, store, self.scans, self.indexing, self._damaged)
        self.queries = GroupQueries(driver.view, rpc)
        self.feed = _feed(driver, rpc, self.scans)
        owners = Owners(driver.view, rpc)
        self.listings = Listings(driver, store, rpc, owners)
        self.availability = Availability(driver.view, rpc)
        self.announcing = Announcing(driver, parts.registry, rpc, owners)
        self.needs = PinsReader(driver, self.listings)
        self.deliverer = self._deliverer(view)
        self.agendas = self._agendas(recovered, view, broken)
        self.trace = _trace(driver, self.streams, self.sessions, self.deliverer, self.agendas)
        self.group = GroupConfiguration(
            parts.node_id, driver, founding=parts.founding, lookup=parts.lookup,
            links=parts.links, membership=parts.membership, rpc=rpc,
        )  # fmt: skip
        self.status = StatusPages(
            driver.view, store, rpc, self.resync, parts.membership.describe, self.group
        )

    @property
    def gossip_keys(self) -> GroupKeys:
        return self.group.gossip_keys

    def _deliverer(self, view: GroupView) -> Deliverer | None:
        parts = self._parts
        if parts.caller is None:
            return None
        reading = ChangeReader(
            self.feed, self.scans, self.queries, self.listings, parts.registry,
            Positions(self.driver.submit),
        )  # fmt: skip
        may_read = parts.access.may_read_all if parts.access else lambda user, path: True
        return Deliverer(
            parts.node_id, view, parts.store, self.driver.submit, self.feed, reading, parts.caller,
            may_read, retry_s=parts.config.callbacks.retry_s, rng=random.Random(),
        )  # fmt: skip

    def _agendas(
        self, recovered: Recovered, view: GroupView, broken: Callable[[BaseException], None]
    ) -> AgendaDriver:
        parts, registry = self._parts, self._parts.registry
        life = f"{parts.node_id}/{recovered.store_id}/{recovered.boot}/agendas"
        machine = Agendas(parts.node_id, view=view, rng=random.Random(life), now=clock())
        documents = AgendaDocuments(self.driver.submit, parts.store, view, registry, broken)
        return AgendaDriver(
            machine, documents, self.stream_backend, parts.caller, registry.webhook_secret
        )

    def _blocks(self, slot: int) -> bool:
        return self.streams.machine.duties.reassignment.blocks(slot)

    def _damaged(self, slot: int) -> None:
        self.driver.feed(SlotCorrupted(slot))

    def _reconfigured(self, configuration: Configuration) -> None:
        self.group.use(configuration)

    def _publish(self, row: Row) -> None:
        if row.link.startswith(f"{FACTORIES}/"):
            self._parts.registry.publish(row)
            self._begin_agendas()
            return
        if has_agenda(row):
            if self.driver.view.members.owns(row.link):
                self.agendas.feed_later(Noticed(row))
            return
        if row.link.startswith(SUBSCRIPTIONS):
            if self.deliverer is not None:
                self.deliverer.noticed(row)
            return
        # Feed sessions in the next turn: the driver of documents is performing effects now.
        machine = self.sessions.machine
        if machine.takes(row.link):
            if machine.has_use_for(row):
                self.sessions.feed_later(Noticed(row))
            return
        self.stream_backend.noticed(row)
        self.streams.feed_later(Noticed(row))

    def _begin_agendas(self) -> None:
        if any(each.options.author for each in self._parts.registry.services()):
            self.agendas.start()

    def link_made(self, peer: str) -> None:
        self.driver.feed(LinkMade(peer, self._parts.links.protocol_of(peer)))
        self.streams.feed(LinkMade(peer))

    def link_lost(self, peer: str) -> None:
        self.driver.feed(LinkLost(peer))
        self.streams.feed(LinkLost(peer))
        self.sessions.feed(LinkLost(peer))
        self._parts.rpc.link_lost(peer)

    def drain(self) -> None:
        if self.deliverer is not None:
            self.deliverer.drain()
        self.stream_backend.end()
        self.session_backend.end()
        self.driver.feed(DrainAsked())
        self.streams.feed(DrainAsked())

    @property
    def in_flight(self) -> int:
        return self.driver.in_flight + self.streams.in_flight + self.sessions.in_flight

    async def recall(self) -> None:
        """Publish the factories that are declared on this disk."""
        for row in await declarations(self._parts.store, self.driver.view.logs):
            self._parts.registry.publish(row)

    def start(self) -> None:
        self.driver.start()
        self.repair.start()
        self.expiring.start()
        self.indexing.start()
        if self.driver.view.history_retention_s > 0:
            self.needs.start()  # Without retention, history is deleted only on request.
        self._declaring.start(self.driver.view)
        self.group.start()
        self.streams.start()
        self.sessions.start()
        self._begin_agendas()
        if self.deliverer is not None:
            self.deliverer.start()
        for peer in self.driver.view.members.links:
            self.streams.feed(LinkMade(peer))

    async def stop(self) -> None:
        """Stop all parts; every answered write is on the disk."""
        self.group.stop()
        await self.agendas.stop()
        if self.deliverer is not None:
            await self.deliverer.stop()
        await self.expiring.stop()
        await self.needs.stop()
        await self._declaring.stop()
        await self.repair.stop()
        await self.resync.stop()
        await self.indexing.stop()
        await self.scans.stop()
        await self.sessions.stop()
        await self.streams.stop()
        await self.driver.stop()


def _feed(driver: Driver, rpc: Rpc, scans: Scans) -> Feed:
    return Feed(driver.view, rpc, scans.page, scans.shown, scans.batch_end, random.Random())


def _trace(
    driver: Driver, streams: StreamsDriver, sessions: SessionsDriver,
    deliverer: Deliverer | None, agendas: AgendaDriver,
) -> Trace:  # fmt: skip
    recorders = {
        "documents": driver.recorder,
        "streams": streams.recorder,
        "sessions": sessions.recorder,
        "agendas": agendas.recorder,
    }
    if deliverer is not None:
        recorders["webhooks"] = deliverer.recorder
    return Trace(recorders)


def _indexing(parts: Parts, recovered: Recovered, scans: Scans, driver: Driver) -> Indexing:
    file = database_in(parts.config.data).with_name("indexes.db")
    store = (recovered.store_id, recovered.boot)
    return Indexing(parts.registry, scans, driver.view, store, file)


def _sessions(
    parts: Parts,
    recovered: Recovered,
    view: GroupView,
    driver: Driver,
    broken: Callable[[BaseException], None],
) -> SessionsDriver:
    life = f"{parts.node_id}/{recovered.store_id}/{recovered.boot}/sessions"
    machine = Sessions(parts.node_id, view=view, rng=random.Random(life), now=clock())
    documents = DocumentClient(driver.submit, parts.store, view, *machine.paths, broken=broken)
    return SessionsDriver(machine, parts.links, documents=documents, read_index=driver.read_index)


def _partitions(parts: Parts, recovered: Recovered, view: GroupView) -> Partitions:
    found = parts.streams_recovered
    life = f"{parts.node_id}/{recovered.store_id}/{recovered.boot}/{found.boot}/streams"
    return Partitions(
        parts.node_id,
        found,
        view=view,
        rng=random.Random(life),
        config=parts.config.streams,
        now=clock(),
    )


def _replica(
    parts: Parts, recovered: Recovered, declaring: Declaring, blocks: Callable[[int], bool]
) -> Replica:
    config = parts.config
    life = f"{parts.node_id}/{recovered.store_id}/{recovered.boot}"
    return Replica(
        parts.node_id,
        recovered,
        service_for=declaring.service_for,
        rng=random.Random(life),
        vote_rng=random.Random(f"{life}/vote"),
        config=ReplicaConfig(
            leadership=LeadershipTimes(
                heartbeat_interval_s=config.heartbeat_interval_s,
                owner_timeout_s=config.owner_timeout_s,
            ),
            retention=Retention(history_s=config.history_retention_s),
            remove_after_s=config.remove_after_s,
        ),
        blocks=blocks,
        measured=parts.registry.measured,
        now=clock(),
    )
