"""The driver of agendas: runs their machine, appends records, calls receivers, and searches.

It begins to tick when this node knows a service with a class, so that others cost nothing.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import blake2b

import structlog

from docstore.agendas.effects import GiveUp, Post
from docstore.agendas.events import AgendaEvent, Posted
from docstore.agendas.machine import Agendas
from docstore.documents.view import GroupView
from docstore.errors import DocstoreError
from docstore.maintenance.webhooks.calling import Caller
from docstore.model import json
from docstore.model.agenda import RECORD, Effect
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.model.streams_batch import JSON
from docstore.runtime.document_client import DocumentClient
from docstore.runtime.stepping import NoLinks, Stepping
from docstore.runtime.streams_backend import StreamBackend
from docstore.runtime.trace.of_machines import AGENDAS
from docstore.services.registry import Registry
from docstore.storage.store import Store
from docstore.streams.effects import Problem
from docstore.streams.records import from_json
from docstore.streams.replica_set import partition_link
from docstore.streams.requests import ProduceRequest
from docstore.streams.routing import partition_of
from docstore.subscriptions.signing import message_id

TIMEOUT_S = 5.0
REPEATED = ("repeated", "producer-fenced")
"""Codes of a record that is appended already: the second if a later one of the document is, too."""

Submit = Callable[[Operation, float], "asyncio.Future[Answer]"]

log = structlog.get_logger("docstore.services")


class AgendaDriver(Stepping[AgendaEvent, Post | GiveUp]):
    """Runs the agendas of one node."""

    def __init__(
        self,
        machine: Agendas,
        documents: DocumentClient,
        streams: StreamBackend,
        caller: Caller | None,
        secret_of: Callable[[str], str],
    ) -> None:
        """caller: None if this node calls no receivers.

        secret_of: returns the secret that signs the webhooks of a document's service.
        """
        super().__init__(machine, NoLinks(), AGENDAS)
        self.machine = machine
        self._documents = documents
        documents.feed = self.feed
        self._streams = streams
        self._caller = caller
        self._secret_of = secret_of
        self._posts: set[asyncio.Task[None]] = set()
        self._is_started = False
        self._told: set[tuple[str, str]] = set()
        """(target, reason) of the failed deliveries that the log has."""

    def start(self) -> None:
        """Begin to tick, unless that has begun."""
        if not self._is_started:
            self._is_started = True
            super().start()

    async def stop(self) -> None:
        self.end()
        for task in self._posts:
            task.cancel()
        await asyncio.gather(*self._posts, return_exceptions=True)
        await self._documents.stop()

    def metrics(self) -> dict[str, float]:
        if not self._is_started:
            return {}
        counted = {
            f"docstore_service_{name}_total": float(self.machine.core.counters[name])
            for name in (
                "timers_fired", "timers_failed",
                "effects_delivered", "effects_failed", "effects_refused",
            )
        }  # fmt: skip
        timers, effects = self.waiting()
        return counted | {
            "docstore_service_timers": float(sum(timers.values())),
            "docstore_service_effects_waiting": float(sum(effects.values())),
        }

    def waiting(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return factory -> timers, and factory -> effects that wait, of this node's documents."""
        timers: dict[str, int] = {}
        effects: dict[str, int] = {}
        for known in self.machine.documents:
            path = known.link.rpartition("/")[0]
            left = sum(each.number > known.delivered for each in known.agenda.effects)
            timers[path] = timers.get(path, 0) + len(known.agenda.timers)
            effects[path] = effects.get(path, 0) + left
        return timers, effects

    def perform(self, effect: Post | GiveUp) -> None:
        if isinstance(effect, GiveUp):
            log.error(
                "an effect is refused and given up", document=effect.link,
                target=effect.effect.target, status=effect.status, why=effect.why,
            )  # fmt: skip
            return
        task = self.loop.create_task(self._post(effect))
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def _post(self, post: Post) -> None:
        deliver = self._append if post.effect.kind == RECORD else self._call
        try:
            status, why = await deliver(post.link, post.effect)
        except DocstoreError as error:
            status, why = error.status, str(error)
        except Exception as error:
            log.exception("an effect cannot be delivered", document=post.link)
            status, why = 0, type(error).__name__
        failed = (post.effect.target, why)
        if not 200 <= status < 300 and failed not in self._told and len(self._told) < 1_000:
            self._told.add(failed)
            log.warning("an effect waits", document=post.link, target=failed[0], why=why)
        self.feed(Posted(post.token, status, why))

    async def _append(self, link: str, effect: Effect) -> tuple[int, str]:
        """Append a record, as a producer of the document: its epoch is the number of the effect."""
        try:
            posted = from_json(json.load(effect.body))
        except ValueError as error:
            return 400, str(error)
        topic = await self._streams.topic(effect.target, TIMEOUT_S)
        partition = partition_of(posted.key or b"", topic.partitions)
        sent = ProduceRequest(
            "committed", (producer_of(link), effect.number, 0), JSON, 1, posted.packed
        )
        outcome = await self._streams.produce(
            partition_link(topic.name, partition), sent, TIMEOUT_S
        )
        if isinstance(outcome, Problem) and outcome.code not in REPEATED:
            return (504 if outcome.unknown else outcome.status), outcome.detail
        return 200, ""

    async def _call(self, link: str, effect: Effect) -> tuple[int, str]:
        if self._caller is None:
            return 0, "callback_hosts is not set"
        message = message_id(f"{effect.number} of {link}".encode())
        called = await self._caller.post(effect.target, self._secret_of(link), message, effect.body)
        return called.status, called.why


def producer_of(link: str) -> str:
    """Return the id of a document's effects as a producer, which no client can use."""
    return f"effects;{blake2b(link.encode(), digest_size=16).hexdigest()}"


class AgendaDocuments(DocumentClient):
    """Searches for agendas, and submits updates at the level of their factories."""

    def __init__(
        self, submit: Submit, store: Store, view: GroupView, registry: Registry,
        broken: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self._registry = registry
        self._submit_to_owner = submit
        self._missed: set[str] = set()
        """Paths of the missing factories that the log has."""
        super().__init__(self._submit_at_level, store, view, broken=broken)

    def _submit_at_level(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        service = self._registry.service_for(operation.link)
        if service is None:
            return self._without_factory(operation.link)
        options = service.options
        creates = operation.creates and options.put_creates
        operation = replace(operation, level=options.level, creates=creates)
        return self._submit_to_owner(operation, timeout_s)

    def _without_factory(self, link: str) -> "asyncio.Future[Answer]":
        """Answer that an operation must wait: its factory may be declared later."""
        path = link.rpartition("/")[0]
        if path not in self._missed and len(self._missed) < 1_000:
            self._missed.add(path)
            log.warning("an effect waits for a factory", factory=path)
        answered: asyncio.Future[Answer] = self._loop.create_future()
        answered.set_result(Answer(503, "unavailable", f"there is no factory {path}"))
        return answered

    async def found(self) -> list[Row]:
        """Return the rows with an agenda in the slots that this node owns."""
        owned = self._view.owned()
        rows: list[Row] = []
        for path in self._paths_with_class():
            rows += await self._store.with_agenda(f"{path}/", owned) if owned else ()
        return rows

    def _paths_with_class(self) -> Iterable[str]:
        return [each.options.path for each in self._registry.services() if each.options.author]
