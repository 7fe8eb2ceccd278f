"""Declares this node's services to the group, once the node takes part in it.

A declaration is a document like that of any other factory, and names the class. The declaration
with the greatest revision is in force on all nodes: a node with a greater revision declares anew,
one with a smaller revision runs its handlers under the declared one.

The node is not ready before all of its services are declared; it reports the obstacle and retries.
If the node wrote a declaration without learning the outcome, the declaration may be stored: the
node announces it until it is in force.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from docstore.errors import DocstoreError
from docstore.model import json
from docstore.model.document import Row, tag_of
from docstore.model.fences import OF_THE_STORE
from docstore.model.operation import ANY_TOMBSTONE, Answer, Conditions, Operation
from docstore.model.service import LINEARIZABLE, State
from docstore.service import Service
from docstore.services.authored import declaration_of
from docstore.services.declared import options_of
from docstore.services.registry import declaration_link, declared_in

TIMEOUT_S = 5.0
PAUSE_S, QUIET_S, PAUSE_S_MAX = 0.1, 1.0, 5.0

log = structlog.get_logger("docstore.services")


class ServiceRegistration:
    """Declares services, and retries each until it is declared."""

    def __init__(
        self,
        services: Sequence[Service],
        submit: Callable[[Operation, float], Awaitable[Answer]],
        announce: Callable[[Row, float], Awaitable[None]],
        check_declarable: Callable[[State, float], Awaitable[None]],
    ) -> None:
        """announce: returns once a stored declaration is in force, raises Unavailable.

        check_declarable: raises Conflict for a factory that cannot be declared at its path.
        """
        self._submit = submit
        self._announce = announce
        self._check_declarable = check_declarable
        self._waiting = {each.path: "not declared yet" for each in services}
        """Path of an undeclared service -> reason."""
        self._written: set[str] = set()
        """Links of the declarations that this node has tried to write."""
        self._services = services
        self._task: asyncio.Task[None] | None = None

    def why_not(self) -> str:
        return "; ".join(f"service {path}: {why}" for path, why in self._waiting.items())

    async def restart(self, services: Sequence[Service]) -> None:
        """Declare other services, such as the same ones after their files changed."""
        await self.stop()
        self._services = services
        self._waiting = {each.path: "not declared yet" for each in services}
        self.start()

    def start(self) -> None:
        if self._services:
            self._task = asyncio.get_running_loop().create_task(self._declare_all())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _declare_all(self) -> None:
        """Try all undeclared services in turn, so that none keeps another one waiting."""
        pause_s = PAUSE_S
        told: dict[str, str] = {}
        while True:
            for service in self._services:
                if service.path in self._waiting:
                    await self._try(service, told, is_quiet=pause_s <= QUIET_S)
            if not self._waiting:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_S_MAX, 2 * pause_s)

    async def _try(self, service: Service, told: dict[str, str], *, is_quiet: bool) -> None:
        """Declare a service, or note and log the reason why it cannot be declared.

        told: path -> reason logged last. is_quiet: log nothing, since other nodes may be declaring
        the service.
        """
        why = await self._declared(service)
        if not why:
            del self._waiting[service.path]
            return
        self._waiting[service.path] = why
        if not is_quiet and told.get(service.path) != why:
            log.warning("a service is not declared", service=service.path, why=why)
            told[service.path] = why

    async def _declared(self, service: Service) -> str:
        """Declare a service, unless it is declared; return why not, "" on success."""
        wanted, link = declaration_of(service), declaration_link(service.path)
        try:
            found = await self._submit(Operation(verb="GET", link=link), TIMEOUT_S)
            if found.status == 200 and found.row is not None:
                return await self._renewed(wanted, found.row)
            if found.status != 404:
                return found.detail
            made = Operation(
                verb="POST",
                link=link,
                body=json.dump(wanted),
                recreate_below=ANY_TOMBSTONE,
                fence=OF_THE_STORE,
            )
            return await self._write(wanted, made)
        except DocstoreError as error:
            return str(error)

    async def _renewed(self, wanted: State, row: Row) -> str:
        """Replace a declaration of a smaller revision; return why not, "" on success."""
        declared, mine = declared_in(row), options_of(wanted)
        if declared is None:
            return "the declaration of the factory has a form that this version does not know"
        if not declared.author:
            return "the factory is declared without a service: delete that declaration first"
        if declared.kind != mine.kind:
            return f"{declared.author} is declared there, with documents of kind {declared.kind!r}"
        if mine.revision <= declared.revision:
            if mine.revision == declared.revision and json.load(row.state) != wanted:
                log.warning(
                    "the declared service differs: give this one a greater revision",
                    service=mine.path, declared=declared.author, mine=mine.author,
                )  # fmt: skip
            if row.link in self._written:
                await self._announce(row, TIMEOUT_S)
            return ""
        put = Operation(
            verb="PUT",
            link=row.link,
            body=json.dump(wanted),
            conditions=Conditions(match=[tag_of(row, LINEARIZABLE)]),
            fence=OF_THE_STORE,
        )
        return await self._write(wanted, put)

    async def _write(self, wanted: State, operation: Operation) -> str:
        await self._check_declarable(wanted, TIMEOUT_S)
        self._written.add(operation.link)
        answer = await self._submit(operation, TIMEOUT_S)
        return "" if answer.is_success else answer.detail
