"""The documents of the group, as a machine beside the replica uses them. A shell.

A survey finds what this node's own disk holds of the slots that it owns. Its rows may be old, or
not decided: a machine reads a document before it acts on it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from docstore.documents.view import GroupView
from docstore.errors import StoreBroken
from docstore.machines.effects import Ask, Survey
from docstore.machines.events import Surveyed, Told
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.storage.store import Store


class GroupDocuments:
    """Documents in the group around this node."""

    def __init__(
        self,
        submit: "Callable[[Operation, float], asyncio.Future[Answer]]",
        store: Store,
        view: GroupView,
        *paths: str,
    ) -> None:
        """submit: carries an operation to its owner. paths: below which the machine's own are."""
        self.submit = submit
        self._store = store
        self._view = view
        self._paths = paths

    async def survey(self) -> Sequence[Row]:
        """Return the live documents of the machine's own kinds in the slots that this node owns."""
        owned = self._view.owned()
        if not owned:
            return ()
        found = [await self._store.below(f"{path}/", owned) for path in self._paths]
        return [row for rows in found for row in rows]


class DocumentClient:
    """The operations and surveys of a machine that have no answer yet.

    Nothing is asked or told within a list of effects: the machine of documents and the one beside
    it never feed each other, so both go by way of the loop.
    """

    def __init__(
        self,
        documents: GroupDocuments,
        feed: Callable[[Any], None],
        broken: Callable[[BaseException], None],
    ) -> None:
        """broken: called when the disk has failed; nothing may be answered after it."""
        self._documents = documents
        self._feed = feed
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._surveys: set[asyncio.Task[None]] = set()

    def ask(self, asked: Ask) -> None:
        """Carry out an operation."""
        self._loop.call_soon(self._ask, asked)

    def _ask(self, asked: Ask) -> None:
        answer = self._documents.submit(asked.operation, asked.timeout_s)
        answer.add_done_callback(lambda done: self._answered(asked.token, done))

    def _answered(self, token: int, done: "asyncio.Future[Answer]") -> None:
        if not done.cancelled():
            self._feed(Told(token, done.result()))

    def survey(self, asked: Survey) -> None:
        """Find the machine's documents."""
        task = self._loop.create_task(self._survey(asked.token))
        self._surveys.add(task)
        task.add_done_callback(self._surveys.discard)

    async def _survey(self, token: int) -> None:
        try:
            rows = await self._documents.survey()
        except StoreBroken as error:
            self._broken(error)
        else:
            self._feed(Surveyed(token, rows))

    async def stop(self) -> None:
        """Find nothing any more."""
        for survey in self._surveys:
            survey.cancel()
        await asyncio.gather(*self._surveys, return_exceptions=True)
