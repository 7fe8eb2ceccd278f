"""The node behind the HTTP server: its parts on lower floors, and the decisions of the node alone.

`node/backend.py` implements `Backend`; `RunningNode` has the parts. Pages translate: they see no
ballot, no slot log and no SQL, and they get the state of the cluster as plain JSON values.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from docstore.maintenance.upkeep.resync import Resync
from docstore.maintenance.webhooks.calling import Caller
from docstore.model.operation import Answer, Operation
from docstore.model.service import Service
from docstore.reads.availability import Availability
from docstore.reads.listings import Listed
from docstore.reads.pages import NodePages
from docstore.reads.scans.feed import Feed
from docstore.reads.scans.queries import GroupQueries
from docstore.reads.scans.scanner import Scans
from docstore.runtime.backend import SessionBackend
from docstore.runtime.offsets_backend import Documents
from docstore.runtime.streams_backend import StreamBackend
from docstore.runtime.trace.lines import TraceFilter
from docstore.services.registry import Registry

Json = Any
"""A value that json can write; administrative pages consist of such values."""


class StatusBackend(Protocol):
    """Pages about a node and its group; see `node/status.py`."""

    async def explain(self, link: str, timeout_s: float) -> Json:
        """Return slot, ranking with distances, owner, replicas with versions, and next owner."""

    def node_group(self) -> Json:
        """Return members, configuration, quorum, convergence."""

    def selector(self, name: str) -> Json | None:
        """Return replication factor, slots, table and shares of a node selector, or None."""

    async def digests(self, timeout_s: float) -> Json:
        """Return node id -> slot -> [end, links, digest] for every member that answers."""


class GossipKeys(Protocol):
    """The keys that encrypt gossip; see `node/members/gossip_keys.py`."""

    async def page(self) -> Json:
        """Return which member holds which keys."""

    async def change(self, asked: Mapping[str, Json]) -> Json:
        """Have all members install, use or remove a key."""


class Inside(Protocol):
    """The parts of a node that need its group."""

    availability: Availability
    feed: Feed
    queries: GroupQueries
    resync: Resync
    scans: Scans
    session_backend: SessionBackend
    stream_backend: StreamBackend

    @property
    def gossip_keys(self) -> GossipKeys:
        """Return the keys that encrypt gossip."""

    @property
    def status(self) -> StatusBackend:
        """Return the pages about the node and its group."""


class Backend(Documents, Protocol):
    """One running node."""

    registry: Registry
    node_pages: NodePages

    def inside(self) -> Inside:
        """Return the parts that need the group. Raises Unavailable while it is not known."""

    @property
    def node_id(self) -> str:
        """Return the id of this node."""

    async def read_replica(
        self, operation: Operation, min_version: int | None, timeout_s: float
    ) -> tuple[Answer, int | None]:
        """Read this node's replica; return the answer and its staleness in ms, None if unknown.

        For `committed` and `stale` reads. Waits for `min_version`; a node without a replica of the
        slot asks the owner.
        """

    def copies_of(self, link: str) -> range:
        """Return the range of copies that a write of a document may wait for: quorum to all.

        Raises Unavailable while the group is not known.
        """

    async def find_service(self, path: str, timeout_s: float) -> Service | None:
        """Return the service at a path; ask the owner of its declaration before returning None.

        Raises Unavailable when the owner cannot be asked.
        """

    async def listing(
        self, factory: str, *, after: str, limit: int, expand: bool, timeout_s: float
    ) -> Listed:
        """Return up to `limit` live (link, version, row if `expand`) under a factory, by link.

        Merges the pages of the owners of all slots. Raises NoQuorum, or Unavailable if an owner
        cannot be asked.
        """

    async def counting(self, factory: str, timeout_s: float, *, level: int | None = None) -> int:
        """Return the number of live documents under a factory. Raises Unavailable.

        level: count only the documents of this level, which need not be the factory's present one.
        """

    def owner_of(self, key: str) -> str | None:
        """Return the owner of a link or of any other key; None if it has none."""

    def slots(self) -> int:
        """Return the number of slots of the group, 0 while there is none."""

    def management(self) -> Json:
        """Return the node's id, addresses, version, limits, disk, loop lag and health."""

    async def change_group(self, asked: Mapping[str, Json], timeout_s: float) -> Json:
        """Begin a change of the members and return the node group.

        Raises BadRequest, NotFound, Conflict, Unavailable, Undecided.
        """

    def group_available(self) -> bool:
        """Return whether a majority of the voters is connected and the view has converged."""

    def trace(self, about: TraceFilter, *, after: int, limit: int) -> Json:
        """Return the last `limit` steps that match the filter and are numbered above `after`.

        Raises Unavailable before the group is known.
        """

    def compact(self, before_us: int) -> Json:
        """Begin to compact rows of this node that were replaced before an instant.

        Returns the progress.
        """

    async def resync(
        self, link: str | None, timeout_s: float, *, slots_per_second: float = 0.0
    ) -> str:
        """Start (or join) a resynchronisation of everything, a factory or a document.

        slots_per_second: the upper bound; 0 for none. Returns its id. Raises NotFound if `link` is
        neither a factory nor a document.
        """

    def loop_lag_s(self) -> float:
        """Return the delay of the event loop's last tick."""

    def drain(self) -> None:
        """Begin to stop: accept no new work, finish the work in flight, leave the group, exit."""

    def ready(self) -> tuple[bool, str]:
        """Return whether the node can serve, and if not, the reason."""

    def metrics(self) -> Mapping[str, float]:
        """Return name (Prometheus style, labels included) -> value of the node's own counters."""

    def scan_layout(self) -> Mapping[str, Json]:
        """Return the nodes, and the owner and the holders of each slot."""

    @property
    def callbacks(self) -> Caller:
        """Return the client that calls receivers of subscriptions. Raises CallbackRefused."""
