"""How this node learns of factories that are declared in slots of other nodes. A shell.

A declaration is a document like any other: with fewer replicas than members it is not on every
node, but every node may have to execute updates of the factory's documents. Those that hold it
are told when it is decided. The others ask its owner: when the first operation on a document of
an unknown factory comes in, and every few seconds for the factories that they know. A new owner
asks for every factory again: while it was none, a change of it may have been acknowledged without
its knowing (`announcing.py`).
"""

import asyncio
from collections.abc import Callable
from math import inf

import structlog

from docstore.documents.view import ReplicaView
from docstore.model.operation import Answer, Operation
from docstore.model.service import Service
from docstore.services.registry import Registry, declaration_link

REFRESH_S = 5.0
TIMEOUT_S = 5.0

log = structlog.get_logger("docstore.maintenance.declaring")


class Declaring:
    """Asks for declarations, each once at a time. submit: carries an operation to its owner."""

    def __init__(
        self,
        registry: Registry,
        submit: Callable[[Operation, float], "asyncio.Future[Answer]"],
    ) -> None:
        self._registry = registry
        self._submit = submit
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        # Path -> the `since` as of which it is known, see ServiceFor; what is built in is for ever.
        self._known = dict.fromkeys((each.options.path for each in registry.built_in), inf)

    def start(self, view: ReplicaView) -> None:
        """Begin to look for changes of what this node does not hold."""
        loop = asyncio.get_running_loop()
        self._refreshing = loop.create_task(self._refresh(view))

    async def stop(self) -> None:
        """Stop asking."""
        tasks = [*self._asked.values(), *([self._refreshing] if self._refreshing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def service_for(self, link: str, since: int) -> Service | None:
        """Return the service of a document, see ServiceFor; ask for it while it is not known."""
        path = link.rpartition("/")[0]
        found = self._registry.service_at(path)
        if found is None or self._known.get(found.options.path, 0) < since:
            self._ask(path, since)
            return None
        return found

    def _ask(self, path: str, since: int) -> None:
        if path in self._asked:
            return
        task = asyncio.get_running_loop().create_task(self._learn(path, since))
        self._asked[path] = task
        task.add_done_callback(lambda _: self._asked.pop(path, None))

    async def _learn(self, path: str, since: int) -> None:
        link = declaration_link(path)
        before = self._registry.version_of(link)
        answer = await self._submit(Operation(verb="GET", link=link), TIMEOUT_S)
        if answer.status not in (200, 404):
            log.info("a declaration is not known yet", path=path, why=answer.detail)
            return
        if answer.row is not None:
            self._registry.publish(answer.row)
        else:  # Deleted so long ago that its tombstone has gone.
            self._registry.forget(link, before)
        self._known[path] = max(self._known.get(path, 0), since)

    async def _refresh(self, view: ReplicaView) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            for path in self._registry.declared():
                if view.slot_of(declaration_link(path)) not in view.logs:
                    self._ask(path, 0)
