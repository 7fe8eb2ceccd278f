"""A machine as a client of the group's documents.

A survey reads this node's own disk, in the slots that the node owns. The rows that it finds may be
outdated or not decided: a machine reads a document again before it acts on one.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from docstore.documents.view import GroupView
from docstore.errors import StoreBroken
from docstore.machines.effects import Ask, Survey
from docstore.machines.events import OperationAnswered, Surveyed
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.storage.store import Store


class DocumentClient:
    """Carries out the operations and surveys of a machine.

    Requests leave, and answers arrive, in turns of their own: the machine of documents and the
    machine that calls it must not feed each other while effects are performed.
    """

    feed: Callable[[Any], None]
    """Gives the machine an answer. Set by its driver."""

    def __init__(
        self,
        submit: "Callable[[Operation, float], asyncio.Future[Answer]]",
        store: Store,
        view: GroupView,
        *paths: str,
        broken: Callable[[BaseException], None],
    ) -> None:
        """submit: carries an operation to its owner. paths: paths of the machine's documents.

        broken: called when the disk has failed; the node must not answer anything after it.
        """
        self._submit = submit
        self._store = store
        self._view = view
        self._paths = paths
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._surveys: set[asyncio.Task[None]] = set()

    def ask(self, asked: Ask) -> None:
        self._loop.call_soon(self._ask, asked)

    def _ask(self, asked: Ask) -> None:
        answer = self._submit(asked.operation, asked.timeout_s)
        answer.add_done_callback(lambda done: self._answered(asked.token, done))

    def _answered(self, token: int, done: "asyncio.Future[Answer]") -> None:
        if not done.cancelled():
            self.feed(OperationAnswered(token, done.result()))

    def survey(self, asked: Survey) -> None:
        task = self._loop.create_task(self._survey(asked.token))
        self._surveys.add(task)
        task.add_done_callback(self._surveys.discard)

    async def _survey(self, token: int) -> None:
        try:
            rows = await self.found()
        except StoreBroken as error:
            self._broken(error)
        else:
            self.feed(Surveyed(token, rows))

    async def found(self) -> Sequence[Row]:
        """Return the live documents below the paths in the slots that this node owns."""
        owned = self._view.owned()
        if not owned:
            return ()
        found = [await self._store.below(f"{path}/", owned) for path in self._paths]
        return [row for rows in found for row in rows]

    async def stop(self) -> None:
        for survey in self._surveys:
            survey.cancel()
        await asyncio.gather(*self._surveys, return_exceptions=True)
