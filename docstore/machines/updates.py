"""Conditional updates of a machine's documents: the only way they are changed (rules RF2, G9).

An update names the version that it replaces, so it cannot overwrite a version that its node has not
seen. If the reason for the update is only in the node's memory, the named version may still be
current after the node was deposed. Such an update names the term as well.

An update with an unknown outcome is sent again unchanged. The version ensures that it is applied at
most once, and the answer shows the outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from docstore.machines.core import MachineCore
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Conditions, Operation

Tag = tuple[int, int]
"""Version of a document: (documentEpoch, documentVersion)."""
Then = Callable[[Row | None, bool], None]
"""(current row of the document, None if unknown; whether the update was applied)."""

RETRY_S = 0.1


@dataclass(slots=True)
class Update:
    """An update whose outcome is unknown."""

    link: str
    tag: Tag
    state: bytes
    then: Then
    is_relevant: Callable[[], bool]
    only_epoch: int = 0
    """Epoch of the only term that may carry it out; 0 for any."""
    retry_at: float = 0.0
    is_unknown: bool = False
    """Whether an attempt may have been applied."""


class Updates:
    """Sends updates and repeats those with an unknown outcome."""

    def __init__(
        self,
        core: MachineCore[Any, Any],
        learn: Callable[[Row], None],
        missed: Callable[[str], None] = lambda link: None,
    ) -> None:
        """learn: called with each version of a document in an answer.

        missed: called when the document of an update does not exist any more.
        """
        self._core = core
        self._retrying: list[Update] = []
        self.learn = learn
        self._missed = missed

    def change(  # Tests replace this.
        self,
        link: str,
        tag: Tag,
        state: bytes,
        then: Then,
        *,
        is_relevant: Callable[[], bool] = lambda: True,
        only_epoch: int = 0,
    ) -> None:
        """Change the document from version `tag` to `state`; `then` runs once the outcome is known.

        is_relevant: asked before each further attempt. An update that may have been applied is
        always tried again.
        """
        self._attempt(Update(link, tag, state, then, is_relevant, only_epoch))

    def read(self, link: str, then: Callable[[Answer], None]) -> None:
        self._core.ask(Operation(verb="GET", link=link), then)

    def tick(self) -> None:
        now = self._core.now
        due = [each for each in self._retrying if each.retry_at <= now]
        if due:
            self._retrying = [each for each in self._retrying if each.retry_at > now]
        for update in due:
            if update.is_unknown or update.is_relevant():
                self._attempt(update)
            else:
                update.then(None, False)

    def _attempt(self, update: Update) -> None:
        self._core.counters["updates"] += 1
        operation = Operation(
            verb="PATCH",
            link=update.link,
            body=update.state,
            media="handler",
            conditions=Conditions(match=[list(update.tag)]),
            only_epoch=update.only_epoch,
        )
        self._core.ask(operation, lambda answer: self._told(update, answer))

    def _told(self, update: Update, answer: Answer) -> None:  # Tests replace this.
        row = answer.row
        if answer.is_success:
            self._end(update, row, is_done=True)
        elif answer.unknown or answer.status >= 500 or answer.status == 429:
            self._core.counters["updates_unknown"] += answer.unknown
            update.is_unknown = update.is_unknown or answer.unknown
            update.retry_at = self._core.now + RETRY_S
            self._retrying.append(update)
        elif answer.status == 412 and row is not None:
            # An earlier attempt without an answer may have made this version.
            self._end(
                update,
                row,
                is_done=update.is_unknown and json.load(row.state) == json.load(update.state),
            )
        elif answer.status == 412:
            self.read(update.link, lambda found: self._end(update, found.row, is_done=False))
        else:
            self._core.counters["updates_refused"] += 1
            self._end(update, row, is_done=False)

    def _end(self, update: Update, row: Row | None, *, is_done: bool) -> None:
        if row is not None:
            self.learn(row)
        if row is None or row.deleted:
            self._missed(update.link)
        update.then(row, is_done)


def tag_of(row: Row) -> Tag:
    return _tag(row.epoch, row.version)


@lru_cache(maxsize=1024)
def _tag(epoch: int, version: int) -> Tag:
    """Return one shared tuple for equal versions: thousands are kept, and most are equal."""
    return (epoch, version)
