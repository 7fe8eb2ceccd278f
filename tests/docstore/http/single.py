"""A node without disk or protocol, for tests of the HTTP server.

It uses the same `handle` and `Registry` as a real node, so its answers are real ones.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from docstore.documents.write_path.handle import New, Unchanged, handle, unmet
from docstore.errors import BadRequest, NotFound, Unavailable
from docstore.http.backend import GossipKeys
from docstore.maintenance.webhooks.calling import Caller
from docstore.model.document import Row, chain_digest
from docstore.model.fences import is_of_the_store
from docstore.model.identity import OperationIdentity
from docstore.model.operation import Answer, Operation
from docstore.model.service import WITHOUT_AUTHOR, Service
from docstore.query.cut import Cut
from docstore.reads.listings import Listed
from docstore.reads.pages import MemberPages
from docstore.reads.refusals import TooFewMembers
from docstore.runtime.backend import SessionBackend
from docstore.runtime.streams_backend import StreamBackend
from docstore.runtime.trace.lines import TraceFilter
from docstore.services.registry import FACTORIES, Registry
from docstore.subscriptions.targets import CallbackRefused


class SingleNode:
    """Implements `Backend` over a dict of histories."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.node_id = "n1"
        self.registry = registry or Registry()
        self.histories: dict[str, list[Row]] = {}
        self.answers: list[Answer] = []
        """Answers to return in this order instead of running the operation."""
        self.waits: list[asyncio.Future[None]] = []
        """Futures that delay the answers of the next submissions."""
        self.batches: list[int] = []
        """Number of operations in each submitted batch."""
        self.fails = False
        self.draining = False
        self.why_not = ""
        self.slots_count = 1
        self.caller: Caller | None = None
        self.availability = self.scans = self.status = self.node_pages = self
        self.resync = Resyncs(self)

    def inside(self) -> "SingleNode":
        return self

    @property
    def stream_backend(self) -> StreamBackend:
        raise Unavailable("there are no streams here")

    @property
    def gossip_keys(self) -> GossipKeys:
        raise Unavailable("there is no gossip here")

    @property
    def session_backend(self) -> SessionBackend:
        raise Unavailable("there are no sessions here")

    @property
    def callbacks(self) -> Caller:
        if self.caller is None:
            raise CallbackRefused("callbacks are disabled")
        return self.caller

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self.fails:
            raise RuntimeError("a bug, with /etc/passwd and SELECT in its text")
        if self.answers:
            future.set_result(self.answers.pop(0))
        elif self.waits:
            answer = self._answer(operation)
            self.waits.pop(0).add_done_callback(lambda _: future.set_result(answer))
        else:
            future.set_result(self._answer(operation))
        return future

    def submit_batch(
        self, operations: Sequence[Operation], timeout_s: float
    ) -> "asyncio.Future[list[Answer]]":
        self.batches.append(len(operations))
        return asyncio.gather(*[self.submit(each, timeout_s) for each in operations])

    def _answer(self, operation: Operation) -> Answer:
        answer = self._read(operation) if operation.is_read else self._update(operation)
        return answer._replace(owner=self.node_id, epoch=1)

    def _read(self, operation: Operation) -> Answer:
        rows = self.histories.get(operation.link, [])
        kind, *arguments = operation.select
        if kind == "history":
            before, limit = arguments
            page = [row for row in reversed(rows) if before is None or row.version < before][:limit]
            return Answer(200 if page else 404, "" if page else "not-found", rows=page)
        if kind == "version":
            rows = [row for row in rows if row.version == arguments[0]]
        if kind == "at":
            rows = [row for row in rows if row.updated_us <= arguments[0]]
        if not rows:
            return Answer(404, "not-found")
        if rows[-1].deleted and kind != "version":
            return Answer(404, "not-found", row=rows[-1])
        return Answer(200, row=rows[-1])

    def _unmet(self, operation: Operation) -> Answer | None:
        link, change = operation.given
        rows, service = self.histories.get(link), self.registry.service_for(link)
        assert service is not None
        given = Operation(verb="PATCH", link=link, body=change, media="handler")
        return unmet(rows[-1] if rows else None, given, service)

    def _update(self, operation: Operation) -> Answer:
        rows = self.histories.setdefault(operation.link, [])
        head = rows[-1] if rows else None
        service = self.registry.service_for(operation.link)
        if is_of_the_store(operation.fence):
            service = WITHOUT_AUTHOR[operation.level]
        assert service is not None
        refusal = self._unmet(operation) if operation.given else None
        if refusal is not None:
            return refusal
        outcome = handle(head, operation, service, floor=-1, now_us=lambda: 0)
        if isinstance(outcome, Unchanged):
            return Answer(200, row=outcome.row)
        if not isinstance(outcome, New):
            return outcome.answer
        before = head.digest if head else b""
        digest = chain_digest(
            before, operation.link, outcome.version, outcome.deleted, outcome.state
        )
        identity = OperationIdentity(
            self.node_id, 1, len(rows), 0, fences=outcome.fences, principal=operation.principal
        ).pack()
        row = Row(
            0, len(rows) + 1, 1, self.node_id, operation.link, outcome.version, outcome.action,
            1_000_000 + len(rows), outcome.deleted, outcome.signature, identity, digest,
            outcome.state,
        )  # fmt: skip
        rows.append(row)
        self._publish(row)
        created = not outcome.deleted and (head is None or head.deleted)
        return Answer(201 if created else 200, row=row, replicas=1)

    def _publish(self, row: Row) -> None:
        if row.link.startswith(FACTORIES + "/"):
            self.registry.publish(row)

    async def read_replica(
        self, operation: Operation, min_version: int | None, timeout_s: float
    ) -> tuple[Answer, int]:
        answer = self._answer(operation)
        version = answer.row.version if answer.row else -1
        if min_version is not None and version < min_version:
            return Answer(503, "version-not-here", "it has not arrived here in time"), 0
        return answer, 7

    def copies_of(self, link: str) -> range:
        return range(1, 2)

    async def find_service(self, path: str, timeout_s: float) -> Service | None:
        return self.registry.service_at(path)

    async def listing(
        self, factory: str, *, after: str, limit: int, expand: bool, timeout_s: float
    ) -> Listed:
        live = [rows[-1] for rows in self.histories.values() if rows and not rows[-1].deleted]
        under = sorted(
            row for row in live if row.link.rpartition("/")[0] == factory and row.link > after
        )
        under.sort(key=lambda row: row.link)
        entries = [(row.link, row.version, row if expand else None) for row in under[:limit]]
        return Listed(entries, entries[-1][0] if len(entries) == limit else "")

    async def counting(self, factory: str, timeout_s: float, *, level: int | None = None) -> int:
        found = await self.listing(factory, after="", limit=1 << 30, expand=False, timeout_s=1)
        return len(found.entries)

    async def cut(self, snapshot: str, timeout_s: float) -> Cut:
        return Cut("c1", ((1, sum(map(len, self.histories.values()))),))

    async def explain(self, link: str, timeout_s: float) -> Any:
        return {"documentSelfLink": link, "slot": 0, "owner": self.node_id}

    def slots(self) -> int:
        return self.slots_count

    async def insist(self, level: int, timeout_s: float) -> None:
        if self.why_not:
            raise Unavailable(self.why_not)

    def owner_of(self, key: str) -> str | None:
        return None if self.why_not else self.node_id

    async def at(self, member: str, path: str, timeout_s: float) -> Any:
        if member != self.node_id:
            raise NotFound(f"the group has no member {member}")
        if path.endswith("/stats"):
            return {"id": member, "entries": {}}
        return self.management() | {"path": path}

    async def of_all(self, path: str, timeout_s: float) -> MemberPages:
        if path.endswith("/synchronization"):
            return MemberPages({self.node_id: None}, {"n2": "node n2 is not connected"})
        return MemberPages(
            {self.node_id: await self.at(self.node_id, path, timeout_s)},
            {"n2": "node n2 is not connected"},
        )

    def management(self) -> Any:
        return {"documentSelfLink": "/core/management", "id": self.node_id}

    def node_group(self) -> Any:
        return {"members": [], "configuration": {"voters": ["n1"], "quorum": 1}}

    async def change_group(self, asked: Mapping[str, Any], timeout_s: float) -> Any:
        if asked.get("kind") != "RemoveMemberRequest":
            raise BadRequest("kind must be RemoveMemberRequest")
        raise TooFewMembers("none would remain")

    def group_available(self) -> bool:
        return not self.why_not

    def selector(self, name: str) -> Any:
        return {"slots": 1} if name in ("default", "default-3x") else None

    def trace(self, about: TraceFilter, *, after: int, limit: int) -> Any:
        return {"steps": []}

    def compact(self, before_us: int) -> Any:
        return {"kind": "CompactStatus", "beforeMicros": before_us, "slotsLeft": 1}

    async def digests(self, timeout_s: float) -> Any:
        return {"n1": {}}

    def loop_lag_s(self) -> float:
        return 0.0

    def drain(self) -> None:
        self.draining = True

    def ready(self) -> tuple[bool, str]:
        return not self.why_not, self.why_not

    def metrics(self) -> Mapping[str, float]:
        return {'docstore_lag_rows{peer="n2"}': 1.0, 'docstore_lag_rows{peer="n3"}': 2.0}


class Resyncs:
    """Starts resynchronisations, all of which finish at once and have the same id."""

    def __init__(self, node: SingleNode) -> None:
        self._node = node

    async def __call__(
        self, link: str | None, timeout_s: float, *, slots_per_second: float = 0.0
    ) -> str:
        node = self._node
        if link is not None and link not in node.histories and not node.registry.service_at(link):
            raise NotFound(f"there is no document {link}")
        return "n1.1"

    async def status(self, run_id: str | None, timeout_s: float) -> Any:
        if run_id not in (None, "n1.1"):
            raise NotFound(f"there is no resync {run_id}")
        return {"id": "n1.1", "state": "FINISHED"}

    async def control(self, run_id: str, action: str, timeout_s: float) -> Any:
        return await self.status(run_id, timeout_s) | {"action": action}

    async def wait(self, run_id: str, timeout_s: float) -> None:
        return
