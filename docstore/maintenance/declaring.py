"""Reads declarations of factories that are stored in slots of other nodes.

A declaration is a document. If there are fewer replicas than members, not every node stores it, but
every node may have to execute updates of the factory's documents. A node that stores it receives
its decided rows. The other nodes read it from its owner: for the first operation on a document of
an unknown factory, and every few seconds for known factories. A new owner reads every factory's
declaration again, since it may have missed changes that were acknowledged earlier
(`announcing.py`).
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
    """Reads declarations; never reads the same one twice at a time.

    submit: carries an operation to its owner.
    """

    def __init__(
        self, registry: Registry, submit: Callable[[Operation, float], "asyncio.Future[Answer]"]
    ) -> None:
        self._registry = registry
        self._submit = submit
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        # Path -> `since` (see ServiceFor) of its last read; built-in factories never change.
        self._known = dict.fromkeys((each.options.path for each in registry.built_in), inf)

    def start(self, view: ReplicaView) -> None:
        """Begin to poll for changes of declarations that this node does not store."""
        loop = asyncio.get_running_loop()
        self._refreshing = loop.create_task(self._refresh(view))

    async def stop(self) -> None:
        tasks = [*self._asked.values(), *([self._refreshing] if self._refreshing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def service_for(self, link: str, since: int) -> Service | None:
        """Return the service of a document (see ServiceFor); read an unknown declaration."""
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
        else:  # The tombstone of the declaration was compacted.
            self._registry.forget(link, before)
        self._known[path] = max(self._known.get(path, 0), since)

    async def _refresh(self, view: ReplicaView) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            for path in self._registry.declared():
                if view.slot_of(declaration_link(path)) not in view.logs:
                    self._ask(path, 0)
