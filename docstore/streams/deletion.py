"""Deletion of a partition: its document is marked as deleted, and a little later deleted.

The controller sends the marked document to the replicas, which delete their data. A replica that
missed it finds no document when it reads it.
"""

from functools import partial

from docstore.machines.updates import Updates
from docstore.model.operation import Answer, Conditions, Operation
from docstore.streams.controlled_partition import ControlledPartition
from docstore.streams.controller import Controller
from docstore.streams.core import Core
from docstore.streams.replica_set import Resolution

RETRY_S = 1.0
GONE = (404, 412)
"""Statuses of an update if the document does not exist: unconditional, conditional."""


class Deletion:
    """Deletes the marked documents of this controller's partitions."""

    def __init__(self, core: Core, controller: Controller, updates: Updates) -> None:
        self._core = core
        self._controller = controller
        self._updates = updates
        self._marked: dict[str, float] = {}
        """Link -> time at which to delete the document."""

    def entered(self, known: ControlledPartition) -> None:
        """Take a new version of a document."""
        if known.found.resolution is Resolution.DELETED:
            self._marked.setdefault(known.link, self._core.now + self._core.config.upkeep.linger_s)
        else:
            self._marked.pop(known.link, None)

    def forgotten(self, known: ControlledPartition) -> None:
        """Drop a partition that this node no longer governs."""
        self._marked.pop(known.link, None)

    def tick(self) -> None:
        """Delete the documents that have been marked for `linger_s`."""
        core = self._core
        for link, at in list(self._marked.items()):
            if at <= core.now:
                self._marked[link] = core.now + core.config.ask_timeout_s + RETRY_S
                self._delete(self._controller.governed[link])

    def _delete(self, known: ControlledPartition) -> None:
        conditions = Conditions(match=[list(known.tag)])
        operation = Operation(verb="DELETE", link=known.link, conditions=conditions)
        self._core.ask(operation, partial(self._deleted, known))

    def _deleted(self, known: ControlledPartition, answer: Answer) -> None:
        if answer.row is not None:
            self._updates.learn(answer.row)
        elif answer.status in GONE and self._controller.governed.get(known.link) is known:
            self._controller.forget(known.link)
