"""The node as the HTTP pages use it: documents, factories, pages. See `http/backend.py`."""

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
from docstore.model.stats import counted, entries_of
from docstore.node.gate import Gate
from docstore.node.handler_calls import HandlerCalls
from docstore.node.host import host_page
from docstore.node.measures import metrics_of
from docstore.node.parts import Parts
from docstore.node.running import RunningNode
from docstore.reads.listings import Listed
from docstore.reads.local import read_here
from docstore.reads.pages import NodePages
from docstore.runtime import logs
from docstore.runtime.stepping import clock
from docstore.runtime.trace.lines import TraceFilter
from docstore.services.authored import methods_of, name_of, overridden
from docstore.services.registry import declaration_link
from docstore.streams.measures import partitions_page
from docstore.subscriptions.targets import CallbackRefused


class NodeBackend:
    """The backend of the HTTP pages, around one node.

    drain: begins to stop the node.
    """

    def __init__(
        self, parts: Parts, gate: Gate, drain: Callable[[], None], calls: HandlerCalls
    ) -> None:
        self._parts = parts
        self.node_id = parts.node_id
        self.registry = parts.registry
        self._gate = gate
        self.inside, self.ready, self.drain = gate.inside, gate.ready, drain
        self.submit_batch = gate.submit_batch
        self._calls = calls
        self.kafka_metrics: Callable[[], Mapping[str, float]] = dict
        """Returns the counters of the listener for Kafka clients, if there is one."""
        self.node_pages = NodePages(parts.rpc, self._members, self._own_page)

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        if operation.link.startswith(DECLARATIONS) and not operation.is_read:
            return asyncio.ensure_future(self._declare(operation, timeout_s))
        return self._gate.submit(operation, timeout_s)

    async def _declare(self, operation: Operation, timeout_s: float) -> Answer:
        """Change a declaration, and answer once the change is in force on all nodes."""
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
        """Return once a stored declaration is in force on all nodes. Raises Unavailable."""
        if declaration.version > 0:
            await self.inside().announcing.announce(declaration, timeout_s)

    async def read_replica(
        self, operation: Operation, min_version: int | None, timeout_s: float
    ) -> tuple[Answer, int | None]:
        """Answer from the rows that this replica knows to be decided."""
        running = self._gate.running
        if operation.level < 3:
            operation = replace(operation, level=EVENTUAL)
        elif running is not None:
            view = running.driver.view
            found = await read_here(
                view, view.slot_of(operation.link), self._parts.store, operation,
                service=self.registry.service_for(operation.link),
                min_version=min_version, timeout_s=timeout_s,
            )  # fmt: skip
            if found is not None:
                return found
        return await self._gate.submit(operation, timeout_s), 0

    def copies_of(self, link: str) -> range:
        """Return the numbers of copies of a document for which a request may wait."""
        return self.inside().driver.view.copies_of(link)

    async def find_service(self, path: str, timeout_s: float) -> Service | None:
        """Return the service at a path; if it is unknown, read its declaration from the owner."""
        known = self.registry.service_at(path)
        if known is not None:
            return known
        answer = await self._gate.submit(
            Operation(verb="GET", link=declaration_link(path)), timeout_s
        )
        if answer.status == 200 and answer.row is not None:
            self.registry.publish(answer.row)
        elif answer.status != 404:
            raise Unavailable(f"the declaration of {path} could not be read: {answer.detail}")
        return self.registry.service_at(path)

    async def listing(
        self, factory: str, *, after: str, limit: int, expand: bool, timeout_s: float
    ) -> Listed:
        """Return live documents under a factory, and the end of their range."""
        return await self.inside().listings.page(
            factory, after=after, limit=limit, expand=expand, level=self._level(factory),
            timeout_s=timeout_s,
        )  # fmt: skip

    async def counting(self, factory: str, timeout_s: float, *, level: int | None = None) -> int:
        """Return the number of live documents under a factory.

        level: consistency level at which to count; None for the factory's own.
        """
        return await self.inside().listings.count(
            factory, level=level or self._level(factory), timeout_s=timeout_s
        )

    def _level(self, factory: str) -> int:
        service = self.registry.service_at(factory)
        return service.options.level if service else 3

    def owner_of(self, key: str) -> str | None:
        view = self.inside().driver.view
        return view.owners.owner_of(view.slot_of(key))

    def _members(self) -> Sequence[str]:
        return self.inside().driver.view.members.configuration.names

    def _own_page(self, path: str) -> Any:
        if path == "/core/management":
            return self.management()
        if path == "/core/node-groups/default":
            return self.inside().status.node_group()
        above, _, name = path.rpartition("/")
        if above == "/core/node-selectors":
            return self.inside().status.selector(name)
        running = self.inside()
        if name == "stats":
            view = running.driver.view
            entries = entries_of(view.measures_of(above))
            if keys := view.keys_of(above):
                entries |= counted("idempotencyKeyCount", keys, time.time_ns() // 1000)
            return {"id": self._parts.node_id, "entries": entries}
        return running.resync.last_of(above) if name == "synchronization" else None

    def management(self) -> Any:
        page: dict[str, Any] = {
            "documentSelfLink": "/core/management",
            "kind": "NodeState",
            "id": self._parts.node_id,
            "storeId": self._parts.store_id,
        }
        page |= self._parts.config.public() | host_page(self._parts.config)
        page["logLevel"] = logs.LOG_LEVEL.name
        running = self._gate.running
        page["services"] = self._services(running)
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

    def _services(self, running: RunningNode | None) -> dict[str, Any]:
        """Return the services of this node, with the agendas of the documents that it owns."""
        timers, effects = running.agendas.waiting() if running is not None else ({}, {})
        return {
            path: {
                "class": name_of(each),
                "revision": each.revision,
                "methods": list(methods_of(each)),
                "handlers": list(overridden(each)),
                "timers": timers.get(path, 0),
                "effectsWaiting": effects.get(path, 0),
            }
            for path, each in self.registry.authors.items()
        }

    def loop_lag_s(self) -> float:
        running = self._gate.running
        return running.driver.loop_lag_s if running is not None else 0.0

    def trace(self, about: TraceFilter, *, after: int, limit: int) -> Any:
        """Return the last steps that pass a filter, with the time now."""
        running = self.inside()
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

    async def change_group(self, asked: Mapping[str, Any], timeout_s: float) -> Any:
        if asked.get("kind") == "JoinPeerRequest":
            self._parts.joining.start_by(asked)
            parts = self._parts
            return {"id": parts.node_id, "storeId": parts.store_id, "state": "JOINING"}
        await self.inside().group.change(asked, timeout_s)
        return self.inside().status.node_group()

    def group_available(self) -> bool:
        running = self._gate.running
        return running is not None and running.status.group_available()

    def compact(self, before_us: int) -> Any:
        """Delete versions on this node that were replaced before an instant."""
        running = self.inside()
        running.needs.start()
        running.driver.feed(CompactAsked(before_us))
        return running.status.compaction()

    async def resync(
        self, link: str | None, timeout_s: float, *, slots_per_second: float = 0.0
    ) -> str:
        pages, registry = self.inside().status, self.registry
        is_factory = link is not None and registry.service_at(link) is not None
        service = registry.service_for(link) if link is not None and not is_factory else None
        if service is not None and service.options.level < 3 and link is not None:
            # Replicas of these levels converge all the time, so only check that the document
            # exists.
            level = service.options.level
            answer = await self.submit(Operation(verb="GET", link=link, level=level), timeout_s)
            if answer.row is None:
                raise NotFound(f"there is no document {link}")
            is_factory = True
        return await pages.resync(
            link, is_factory=is_factory, timeout_s=timeout_s, slots_per_second=slots_per_second
        )

    def metrics(self) -> Mapping[str, float]:
        counters = metrics_of(self._parts, self._calls, self._gate.running)
        return {**counters, **self.kafka_metrics()}

    # Bulk reads

    def scan_layout(self) -> Mapping[str, Any]:
        """Return the nodes, and the owner and the replicas of each slot."""
        pages, layout = self.inside().status, self.inside().scans.layout()
        members = {each["id"]: each for each in pages.node_group()["members"]}
        layout["nodes"] = [
            {"id": name, "url": members.get(name, {}).get("address", ""),
             "zone": members.get(name, {}).get("zone", ""),
             "status": members.get(name, {}).get("status", "UNKNOWN")}
            for name in layout["nodes"]
        ]  # fmt: skip
        return layout

    @property
    def callbacks(self) -> Caller:
        caller = self._parts.caller
        if caller is None:
            raise CallbackRefused("callback: not allowed, since callback_hosts is not set")
        return caller

    def slots(self) -> int:
        """Return the number of slots of the group, 0 while this node does not know its group."""
        running = self._gate.running
        return running.scans.slots if running is not None else 0
