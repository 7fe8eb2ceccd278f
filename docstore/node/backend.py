"""What the HTTP face can ask of a node: documents, factories, pages. See `http/backend.py`."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from docstore.documents.events import CompactAsked
from docstore.errors import NotFound, Unavailable
from docstore.maintenance.announcing import NOT_YET
from docstore.maintenance.webhooks.calling import Caller
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.model.published import DECLARATIONS
from docstore.model.service import EVENTUAL, Service
from docstore.model.stats import entries_of
from docstore.node.gate import Gate
from docstore.node.handler_calls import HandlerCalls
from docstore.node.machine import machine_page
from docstore.node.measures import metrics_of
from docstore.node.parts import Parts
from docstore.node.status import StatusPages
from docstore.query.cut import Cut
from docstore.query.request import Scan
from docstore.reads.listings import Listed
from docstore.reads.local import read_here
from docstore.reads.pages import NodePages, Pages
from docstore.reads.scans.feed import Stretch, Wanted
from docstore.reads.scans.queries import Queries
from docstore.runtime import logs
from docstore.runtime.backend import SessionBackend
from docstore.runtime.stepping import clock
from docstore.runtime.streams_backend import StreamBackend
from docstore.runtime.trace.lines import About
from docstore.services.authored import name_of
from docstore.services.registry import declaration_link
from docstore.streams.measures import partitions_page
from docstore.subscriptions.targets import CallbackRefused
from docstore.wire.requests import SlotPosition


class NodeBackend:
    """The backend of the HTTP face, around one node. drain: begins to stop it."""

    def __init__(
        self, parts: Parts, gate: Gate, drain: Callable[[], None], calls: HandlerCalls
    ) -> None:
        self._parts = parts
        self._registry = parts.registry
        self._gate = gate
        self._drain = drain
        self._calls = calls
        self._node_pages = NodePages(parts.rpc, self._members, self._own_page)

    @property
    def _pages(self) -> StatusPages:
        return self._gate.inside().status

    @property
    def streams(self) -> StreamBackend:
        """Return the streams of this node."""
        return self._gate.inside().stream_backend

    @property
    def sessions(self) -> SessionBackend:
        """Return the sessions of this node."""
        return self._gate.inside().session_backend

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        """Carry an operation to its owner."""
        if operation.link.startswith(DECLARATIONS) and not operation.is_read:
            return asyncio.ensure_future(self._declare(operation, timeout_s))
        return self._gate.submit(operation, timeout_s)

    def submit_batch(
        self, operations: Sequence[Operation], timeout_s: float
    ) -> "asyncio.Future[list[Answer]]":
        """Carry operations that came together to their owners."""
        return self._gate.submit_batch(operations, timeout_s)

    async def _declare(self, operation: Operation, timeout_s: float) -> Answer:
        """Change a declaration, and answer once the change is in force everywhere."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        answer = await self._gate.submit(operation, timeout_s)
        if answer.is_success and answer.row is not None:
            try:
                await self.announce(answer.row, deadline - loop.time())
            except Unavailable:
                return NOT_YET
        return answer

    async def announce(self, declaration: Row, timeout_s: float) -> None:
        """Return once a declaration that is stored is in force everywhere. Raises Unavailable."""
        if declaration.version > 0:
            await self._gate.inside().announcing.announce(declaration, timeout_s)

    def drain(self) -> None:
        """Begin to stop: give all slots away first."""
        self._drain()

    def ready(self) -> tuple[bool, str]:
        """Say whether the node can serve."""
        return self._gate.ready()

    async def read_replica(
        self, operation: Operation, min_version: int | None, timeout_s: float
    ) -> tuple[Answer, int | None]:
        """Answer from what this replica knows to be decided."""
        running = self._gate.running
        if operation.level < 3:
            operation = replace(operation, level=EVENTUAL)
        elif running is not None:
            view = running.driver.view
            found = await read_here(
                view, view.slot_of(operation.link), self._parts.store, operation,
                service=self._registry.service_for(operation.link),
                min_version=min_version, timeout_s=timeout_s,
            )  # fmt: skip
            if found is not None:
                return found
        return await self._gate.submit(operation, timeout_s), 0

    def copies_of(self, link: str) -> range:
        """Return how many copies of a document may be waited for."""
        return self._gate.inside().driver.view.copies_of(link)

    def service_at(self, path: str) -> Service | None:
        """Return the service whose factory lives at `path`."""
        return self._registry.service_at(path)

    async def find_service(self, path: str, timeout_s: float) -> Service | None:
        """As `service_at`, but ask the owner of the declaration before saying None."""
        known = self._registry.service_at(path)
        if known is not None:
            return known
        answer = await self._gate.submit(
            Operation(verb="GET", link=declaration_link(path)), timeout_s
        )
        if answer.status == 200 and answer.row is not None:
            self._registry.publish(answer.row)
        elif answer.status != 404:
            raise Unavailable(f"it is not known whether there is a {path}: {answer.detail}")
        return self._registry.service_at(path)

    def services(self) -> Sequence[Service]:
        """Return all services that this node knows."""
        return self._registry.services()

    async def listing(
        self, factory: str, *, after: str, limit: int, expand: bool, timeout_s: float
    ) -> Listed:
        """Return live documents under a factory, and how far they reach."""
        return await self._gate.inside().listings.stretch(
            factory, after=after, limit=limit, expand=expand, level=self._level(factory),
            timeout_s=timeout_s,
        )  # fmt: skip

    async def counting(self, factory: str, timeout_s: float, *, level: int | None = None) -> int:
        """Return the number of live documents under a factory, or of those of another level."""
        return await self._gate.inside().listings.count(
            factory, level=level or self._level(factory), timeout_s=timeout_s
        )

    def _level(self, factory: str) -> int:
        service = self._registry.service_at(factory)
        return service.options.level if service else 3

    async def explain(self, link: str, timeout_s: float) -> Any:
        """Return where a document lives and why."""
        return await self._pages.explain(link, timeout_s)

    async def available(self, level: int, timeout_s: float) -> None:
        """Return if documents of a level can be served, in all slots."""
        await self._gate.inside().availability.insist(level, timeout_s)

    def owner_of(self, key: str) -> str | None:
        """Return who owns what is called so."""
        view = self._gate.inside().driver.view
        return view.owners.owner_of(view.slot_of(key))

    async def page_at(self, member: str, path: str, timeout_s: float) -> Any:
        """Return a page that one member shows of itself."""
        return await self._node_pages.at(member, path, timeout_s)

    async def pages(self, path: str, timeout_s: float) -> Pages:
        """Return the pages that all members show of themselves."""
        return await self._node_pages.of_all(path, timeout_s)

    def _members(self) -> Sequence[str]:
        return self._gate.inside().driver.view.members.configuration.names

    def _own_page(self, path: str) -> Any:
        """Return what this node shows of itself at a path, None if it has nothing there."""
        if path == "/core/management":
            return self.management()
        if path == "/core/node-groups/default":
            return self.node_group()
        above, _, name = path.rpartition("/")
        if above == "/core/node-selectors":
            return self.selector(name)
        running = self._gate.inside()
        if name == "stats":
            measures = running.driver.view.measures_of(above)
            return {"id": self._parts.node_id, "entries": entries_of(measures)}
        return running.resync.last_of(above) if name == "synchronization" else None

    def management(self) -> Any:
        """Return what this node is."""
        page: dict[str, Any] = {
            "documentSelfLink": "/core/management",
            "kind": "NodeState",
            "id": self._parts.node_id,
            "storeId": self._parts.store_id,
        }
        page |= self._parts.config.public() | machine_page(self._parts.config)
        page["logLevel"] = logs.LEVEL.name
        page["services"] = {
            path: {"class": name_of(each), "revision": each.revision}
            for path, each in self._registry.authors.items()
        }
        running = self._gate.running
        if running is None:
            page |= {"ready": False, "reason": self._parts.founding.why_not()}
        else:
            page |= running.status.describe()
            page["ready"], page["reason"] = self.ready()
            page["eventLoopLagMs"] = round(running.driver.loop_lag_s * 1000, 3)
            page["requestsInFlight"] = running.in_flight
            page["partitions"] = partitions_page(running.streams.machine)
        page["peerLinks"] = dict(self._parts.links.counters)
        return page

    def log_at(self, level: str) -> Any:
        """Log lines of this level and above from now on."""
        logs.set_level(level)
        return {"kind": "LogLevel", "id": self._parts.node_id, "level": level}

    def trace(self, about: About, *, after: int, limit: int) -> Any:
        """Return the last steps about something, as they are now."""
        running = self._gate.inside()
        if about.link:
            about = about._replace(slot=running.feed.slot_of(about.link))
        now, wall_now = clock(), time.time()
        steps = running.trace.page(about, after=after, limit=limit, now=now, wall_now=wall_now)
        return {
            "documentSelfLink": "/core/management/trace",
            "kind": "Trace",
            "id": self._parts.node_id,
            "atSeconds": round(now, 6),
            "steps": steps,
        }

    def node_group(self) -> Any:
        """Return members, configuration, quorum."""
        return self._pages.node_group()

    async def change_group(self, asked: Mapping[str, Any], timeout_s: float) -> Any:
        """Begin a change of the group; return its page."""
        if asked.get("kind") == "JoinPeerRequest":
            self._parts.joining.start_by(asked)
            parts = self._parts
            return {"id": parts.node_id, "storeId": parts.store_id, "state": "JOINING"}
        await self._gate.inside().group.change(asked, timeout_s)
        return self.node_group()

    def group_available(self) -> bool:
        """Say whether a majority is connected and the view has converged."""
        running = self._gate.running
        return running is not None and running.status.group_available()

    def selector(self, name: str) -> Any:
        """Return a node selector."""
        return self._pages.selector(name)

    def compact(self, before_us: int) -> Any:
        """Let go, on this node, of what was replaced before an instant."""
        running = self._gate.inside()
        running.needs.start()
        running.driver.feed(CompactAsked(before_us))
        return running.status.compaction()

    async def resync(
        self, link: str | None, timeout_s: float, *, slots_per_second: float = 0.0
    ) -> str:
        """Start a resynchronisation."""
        pages, registry = self._pages, self._registry
        is_factory = link is not None and registry.service_at(link) is not None
        service = registry.service_for(link) if link is not None and not is_factory else None
        if service is not None and service.options.level < 3 and link is not None:
            # Replicas of these levels are brought together all the time: only say if it is there.
            level = service.options.level
            answer = await self.submit(Operation(verb="GET", link=link, level=level), timeout_s)
            if answer.row is None:
                raise NotFound(f"there is no document {link}")
            is_factory = True
        return await pages.resync(
            link, is_factory=is_factory, timeout_s=timeout_s, slots_per_second=slots_per_second
        )

    async def resync_status(self, run_id: str | None, timeout_s: float) -> Any:
        """Return the progress of a resynchronisation."""
        return await self._gate.inside().resync.status(run_id, timeout_s)

    async def resync_control(self, run_id: str, action: str, timeout_s: float) -> Any:
        """Pause, resume or cancel a resynchronisation; return its page."""
        return await self._gate.inside().resync.control(run_id, action, timeout_s)

    async def resync_wait(self, run_id: str, timeout_s: float) -> None:
        """Return when a resynchronisation that runs here is over, or the time is."""
        await self._gate.inside().resync.wait(run_id, timeout_s)

    async def digests(self, timeout_s: float) -> Any:
        """Return the digests of all members."""
        return await self._pages.digests(timeout_s)

    def metrics(self) -> Mapping[str, float]:
        """Return the node's counters and gauges."""
        return metrics_of(self._parts, self._calls, self._gate.running)

    # Bulk reads

    async def scan_cut(self, as_of: str, timeout_s: float) -> Cut:
        """Return the cut of "latest", of a time, of a token, or of a named snapshot."""
        return await self._gate.inside().scans.cut(as_of, timeout_s)

    async def scan_positions(self, timeout_s: float) -> tuple[str, Mapping[int, SlotPosition]]:
        """Return the group's name, and where each slot stands."""
        scans = self._gate.inside().scans
        return scans.cluster, await scans.positions(None, timeout_s)

    def scan_layout(self) -> Mapping[str, Any]:
        """Return the nodes, and who owns and who holds each slot."""
        pages, layout = self._pages, self._gate.inside().scans.layout()
        members = {each["id"]: each for each in pages.node_group()["members"]}
        layout["nodes"] = [
            {"id": name, "url": members.get(name, {}).get("address", ""),
             "zone": members.get(name, {}).get("zone", ""),
             "status": members.get(name, {}).get("status", "UNKNOWN")}
            for name in layout["nodes"]
        ]  # fmt: skip
        return layout

    async def scan_arrived(self, scan: Scan, timeout_s: float) -> tuple[list[int], list[int]]:
        """Wait for what a scan needs; return the slots not held here, and those still behind."""
        return await self._gate.inside().scans.arrived(scan, timeout_s)

    async def scan_page(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Return a page, as `reads/scans/worker.py` answers it."""
        return await self._gate.inside().scans.page(question)

    async def scan_stored(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Return a page of rows as they lie on disk."""
        return await self._gate.inside().scans.stored(question)

    @property
    def callbacks(self) -> Caller:
        """Return what calls the receivers of subscriptions."""
        caller = self._parts.caller
        if caller is None:
            raise CallbackRefused("callback: this node calls nobody: it has no callback_hosts")
        return caller

    @property
    def queries(self) -> Queries:
        """Return what looks for documents of the whole group."""
        return self._gate.inside().queries

    # Changes

    async def changes(self, wanted: Wanted, since: Cut, rows: int) -> Stretch:
        """Return some changes beyond a cut."""
        return await self._gate.inside().feed.read(wanted, since, rows)

    def slots(self) -> int:
        """Return how many slots the group has, 0 while there is none."""
        running = self._gate.running
        return running.scans.slots if running is not None else 0

    def changes_slot(self, link: str) -> int:
        """Return the slot in which all changes of a document are."""
        return self._gate.inside().feed.slot_of(link)

    def changes_seen(self) -> int:
        """Return a number that grows with what this node can show."""
        return self._gate.inside().feed.seen()

    async def changes_earliest(self, timeout_s: float) -> Cut:
        """Return from where all slots have a feed."""
        return await self._gate.inside().scans.earliest(timeout_s)

    async def changes_news(self, since: int, timeout_s: float) -> None:
        """Return when there may be more, or the time is over."""
        await self._gate.inside().feed.news(since, timeout_s)
