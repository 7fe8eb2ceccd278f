"""What the HTTP face needs of the node behind it. `node/backend.py` is it; tests use the real one.

The face translates: it never sees a ballot, a slot log or SQL. Everything that it shows about
the cluster comes as plain JSON values from here.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from docstore.maintenance.webhooks.calling import Caller
from docstore.model.operation import Answer, Operation
from docstore.model.service import Service
from docstore.query.cut import Cut
from docstore.query.request import Scan
from docstore.reads.listings import Listed
from docstore.reads.pages import Pages
from docstore.reads.scans.feed import Stretch, Wanted
from docstore.reads.scans.queries import Queries
from docstore.runtime.backend import KeptAlive
from docstore.runtime.trace.lines import About
from docstore.streams import requests
from docstore.streams.effects import Begun, Problem, Records
from docstore.streams.topic import Topic
from docstore.wire.requests import SlotPosition
from docstore.wire.sessions_messages import Reply
from docstore.wire.streams_messages import Produced

Json = Any
"""A value that json can write: what the administrative pages are made of."""


class StreamBackend(Protocol):
    """The streams of one running node; see `http/streams.py`."""

    @property
    def members(self) -> int:
        """Return how many members hold data."""

    def known_topic(self, name: str) -> Topic | None:
        """Return what a topic said a moment ago, or last while the group has no majority."""

    async def topic_or_last(self, name: str, partition: int | None, timeout_s: float) -> Topic:
        """Return what a topic says, or said last while its owner does not answer.

        partition: the one that the caller names, and that the leader will judge.
        """

    async def topic(self, name: str, timeout_s: float) -> Topic:
        """Return what a topic says. Raises NoSuchTopic, Unavailable."""

    async def produce(self, link: str, sent: requests.Sent, timeout_s: float) -> Produced | Problem:
        """Append records to the partition with this document, in time or not at all, or unknown.

        What is Produced has the code "" or "repeated".
        """

    async def fetch(
        self, link: str, wanted: requests.Wanted, *, wait_s: float, timeout_s: float, of: str = ""
    ) -> Records | Problem:
        """Return records of a partition; wait for the first one for `wait_s`, then return none.

        timeout_s: how long to look for a leader. of: the incarnation that the position is of.
        """

    async def figures(self, links: Sequence[str]) -> Mapping[str, Mapping[str, object]]:
        """Return link -> live figures, of the partitions whose leader answers."""

    async def command(
        self, link: str, command: tuple[str, object], timeout_s: float
    ) -> Begun | Problem:
        """Have a partition's controller begin what an operator wants; see `events.CommandAsked`."""


class SessionBackend(Protocol):
    """What lives only while somebody is heard; see `docstore/sessions/`."""

    def call(self, link: str, kind: str, argument: Json, timeout_s: float) -> Awaitable[Reply]:
        """Ask the owner of a document something that may be asked twice, see `messages.Call`.

        The reply comes by the deadline at the latest; 503 if nobody answers.
        """

    async def keep_alive(self, ids: Sequence[str], timeout_s: float) -> KeptAlive:
        """Keep leases alive; those of which no owner says anything in time are unknown."""


class Backend(Protocol):
    """One running node, as its HTTP face sees it."""

    @property
    def streams(self) -> StreamBackend:
        """Return the streams of this node. Raises Unavailable while its group is not known."""

    @property
    def sessions(self) -> SessionBackend:
        """Return the sessions of this node. Raises Unavailable while its group is not known."""

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        """Carry the operation to its owner and return the answer, by the deadline at the latest.

        Never raises for what the cluster does: 503 and 504 are answers.
        """

    def submit_batch(
        self, operations: Sequence[Operation], timeout_s: float
    ) -> "asyncio.Future[list[Answer]]":
        """Carry operations that came together, none on a declaration; return all the answers.

        Each is served and answered as if it were alone.
        """

    async def read_replica(
        self, operation: Operation, min_version: int | None, timeout_s: float
    ) -> tuple[Answer, int | None]:
        """Return what this node's replica has decided, and its staleness in ms; None if not known.

        For `committed` and `stale` reads. Waits for `min_version`; on a node without a replica
        of the slot it asks the owner.
        """

    def copies_of(self, link: str) -> range:
        """Return how many copies of a document may be waited for: from its quorum to all.

        Raises Unavailable while the group is not known.
        """

    def service_at(self, path: str) -> Service | None:
        """Return the service whose factory lives at `path`, None if this node knows none."""

    async def find_service(self, path: str, timeout_s: float) -> Service | None:
        """As `service_at`, but ask the owner of the declaration before saying None.

        Raises Unavailable when it cannot be asked.
        """

    def services(self) -> Sequence[Service]:
        """Return all services that this node knows."""

    async def listing(
        self, factory: str, *, after: str, limit: int, expand: bool, timeout_s: float
    ) -> Listed:
        """Return up to `limit` live (link, version, row if `expand`) under a factory, by link.

        Merged over the owners of all slots, all there is up to its horizon. Raises Unavailable when
        one cannot be asked, NoQuorum.
        """

    async def counting(self, factory: str, timeout_s: float, *, level: int | None = None) -> int:
        """Return the number of live documents under a factory. Raises Unavailable.

        level: count those that were written at another level than the factory has now.
        """

    async def explain(self, link: str, timeout_s: float) -> Json:
        """Return slot, ranking with distances, owner, replicas and versions, who is next."""

    async def available(self, level: int, timeout_s: float) -> None:
        """Return if documents of a level can be served, in all slots. Raises Unavailable."""

    def owner_of(self, key: str) -> str | None:
        """Return who owns what is called so, a link or anything else; None if nobody does."""

    async def page_at(self, member: str, path: str, timeout_s: float) -> Json:
        """Return a page that one member shows of itself; no other one is asked.

        Raises NotFound if there is no such member, Unavailable.
        """

    async def pages(self, path: str, timeout_s: float) -> Pages:
        """Return the pages that all members show of themselves."""

    def management(self) -> Json:
        """Return what this node is: id, addresses, version, limits, disk, loop lag, health."""

    def node_group(self) -> Json:
        """Return members, configuration, quorum, convergence."""

    async def change_group(self, asked: Mapping[str, Json], timeout_s: float) -> Json:
        """Begin a change of the members and return the node group.

        Raises BadRequest, NotFound, Conflict, Unavailable, Undecided.
        """

    def group_available(self) -> bool:
        """Say whether a majority of the voters is connected and the view has converged."""

    def selector(self, name: str) -> Json | None:
        """Return replication factor, slots, table and shares of a node selector, or None."""

    def log_at(self, level: str) -> Json:
        """Log lines of this level and above from now on; return what was made of it."""

    def trace(self, about: About, *, after: int, limit: int) -> Json:
        """Return the last `limit` steps about something, later than number `after`.

        Raises Unavailable before the group is known.
        """

    def compact(self, before_us: int) -> Json:
        """Begin to let go, on this node, of what was replaced before an instant; return how far."""

    async def resync(
        self, link: str | None, timeout_s: float, *, slots_per_second: float = 0.0
    ) -> str:
        """Start (or join) a resynchronisation of everything, a factory or a document.

        slots_per_second: not faster than this; 0 for as fast as it goes. Returns its id. Raises
        NotFound if `link` is neither a factory nor a document.
        """

    async def resync_control(self, run_id: str, action: str, timeout_s: float) -> Json:
        """Pause, resume or cancel a resynchronisation; return its page. Raises NotFound."""

    async def resync_status(self, run_id: str | None, timeout_s: float) -> Json:
        """Return progress of one resynchronisation (None: the last one). Raises NotFound."""

    async def resync_wait(self, run_id: str, timeout_s: float) -> None:
        """Return when a resynchronisation that runs here is over, or the time is."""

    async def digests(self, timeout_s: float) -> Json:
        """Return node id -> slot -> [end, links, digest] for every member that answers."""

    def drain(self) -> None:
        """Begin to stop: no new work, finish what is in flight, leave, exit."""

    def ready(self) -> tuple[bool, str]:
        """Say whether the node can serve, and if not, why not."""

    def metrics(self) -> Mapping[str, float]:
        """Return name (Prometheus style, labels included) -> value of the node's own counters."""

    # Bulk reads; see `http/scans.py`

    async def scan_cut(self, as_of: str, timeout_s: float) -> Cut:
        """Return the cut of "latest", of a time, of a token, or of a named snapshot.

        The token of a document's feed gives one of a single slot. Raises BadRequest, NotFound,
        SnapshotGone, Unavailable.
        """

    async def scan_positions(self, timeout_s: float) -> tuple[str, Mapping[int, SlotPosition]]:
        """Return the group's name, and where each slot stands."""

    def scan_layout(self) -> Mapping[str, Json]:
        """Return the nodes, and who owns and who holds each slot."""

    async def scan_arrived(self, scan: Scan, timeout_s: float) -> tuple[list[int], list[int]]:
        """Wait for what a scan needs; return the slots not held here, and those still behind."""

    async def scan_page(self, question: dict[str, Json]) -> tuple[dict[str, Json], bytes]:
        """Return a page, as `reads/scans/worker.py` answers it."""

    async def scan_stored(self, question: dict[str, Json]) -> tuple[dict[str, Json], bytes]:
        """Return a page of rows as they lie on disk, as `reads/scans/stored.py` has them."""

    @property
    def callbacks(self) -> Caller:
        """Return what calls the receivers of subscriptions. Raises CallbackRefused: nobody does."""

    @property
    def queries(self) -> Queries:
        """Return what looks for documents of the whole group.

        Raises Unavailable while the group is not known.
        """

    # Changes; see `http/changes.py`

    async def changes(self, wanted: Wanted, since: Cut, rows: int) -> Stretch:
        """Return some changes beyond a cut, in its slots. Raises SnapshotGone, Unavailable."""

    async def changes_earliest(self, timeout_s: float) -> Cut:
        """Return from where all slots have a feed. Raises Unavailable."""

    def slots(self) -> int:
        """Return how many slots the group has, 0 while there is none."""

    def changes_slot(self, link: str) -> int:
        """Return the slot in which all changes of a document are."""

    def changes_seen(self) -> int:
        """Return a number that grows with what this node can show."""

    async def changes_news(self, since: int, timeout_s: float) -> None:
        """Return when there may be changes after `changes_seen()` was `since`, or in time."""
