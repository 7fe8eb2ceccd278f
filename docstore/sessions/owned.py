"""Documents of sessions that this node owns, and the term under which it does (rule S1).

A table of documents lasts as long as the term over its slot. A new term begins with an empty table,
and the state that depends on it (deadlines, waiting calls) begins again. Rows come from listings of
this node's disk, from the rows decided at its replica, and from each answer to an update or a read.
A listing serves only to find silent holders: an answer needs a row that is decided (`is_sure`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

from docstore.machines.core import NEVER
from docstore.machines.effects import Survey
from docstore.machines.updates import Tag, tag_of
from docstore.model.document import Row
from docstore.sessions.calling import Served
from docstore.sessions.core import Core


@dataclass(slots=True)
class Known:
    """A live document in a slot of this node, under one term.

    found: the value that its part has read from the state (`Part.read`).
    """

    link: str
    slot: int
    epoch: int
    tag: Tag
    found: Any
    is_sure: bool
    """Whether this version is known to be decided; one from a listing is not."""


class Part(Protocol):
    """Keeper of the documents of one kind while this node owns them; links are `path`/<id>."""

    path: str
    calls: Mapping[str, Callable[[Served], None]]
    """Kind of call -> the function that answers it."""

    def read(self, row: Row) -> Any:
        """Return the value of a live row, None if it is not of this kind."""

    def entered(self, known: Known) -> None:
        """Begin with a document when it is first known under a term; grant its whole time again."""

    def changed(self, known: Known) -> None:
        """Act on a newer version, which `known` already has; also called after `entered`."""

    def left(self, known: Known) -> None:
        """Drop a document: it was deleted, or the term is over."""

    def tick(self) -> None:
        """Do the work that is due; called about every 50 ms."""


@dataclass(slots=True)
class Table:
    """The documents of one slot under one term."""

    slot: int
    epoch: int
    documents: dict[str, Known] = field(default_factory=dict)


class OwnedDocuments:
    """Tables of the documents that this node owns."""

    def __init__(self, core: Core, noted: Callable[[str], None]) -> None:
        """noted: called with the link of a document whose version or owner has changed."""
        self._core = core
        self._noted = noted
        self._parts: dict[str, Part] = {}
        self._tables: dict[int, Table] = {}
        self._terms_opened = -1
        self._surveying = 0
        """Token of the listing under way."""
        self._surveyed_at = NEVER
        self._once_more_at = inf
        self._swept_at = NEVER

    def add(self, part: Part) -> None:
        """Add a part, which keeps the documents below its path."""
        self._parts[part.path] = part

    def part_of(self, link: str) -> Part | None:
        """Return the part that keeps a document."""
        return self._parts.get(link.rpartition("/")[0])

    def at(self, link: str) -> Known | None:
        """Return the known version of a document under our present term."""
        return self._table(link).documents.get(link)

    def beside(self, link: str) -> Mapping[str, Known]:
        """Return the known documents of a document's slot, under our present term."""
        return self._table(link).documents

    def every(self, path: str) -> list[Known]:
        """Return the known documents below a path, including those under a term just over."""
        return [
            known
            for table in self._tables.values()
            for known in table.documents.values()
            if known.link.rpartition("/")[0] == path
        ]

    def has_use_for(self, row: Row) -> bool:
        """Say whether a version may be newer than the one known here.

        A table of an earlier
        term is compared too: the next access to its slot drops it.
        """
        return row.slot in self._tables or self._core.view.owns(row.link)

    def learn(self, row: Row, *, is_sure: bool = True) -> None:
        """Take a version of a document, if this node owns it and the version is newer."""
        part = self.part_of(row.link)
        table = self._table(row.link)
        if part is None or not table.epoch or row.epoch > table.epoch:
            # The row is of a later term, so our term is over even if this node does not know it.
            return
        known = table.documents.get(row.link)
        if known is not None and not _is_news(known, tag_of(row), is_sure=is_sure):
            return
        found = None if row.deleted else part.read(row)
        if found is None:
            self._forget(table, known)
        elif known is None:
            known = Known(row.link, table.slot, table.epoch, tag_of(row), found, is_sure)
            table.documents[row.link] = known
            part.entered(known)
            part.changed(known)
            self._noted(row.link)
        else:
            known.tag, known.found, known.is_sure = tag_of(row), found, is_sure
            part.changed(known)
            self._noted(row.link)

    def missed(self, link: str) -> None:
        """Remove a document that does not exist any more."""
        table = self._table(link)
        self._forget(table, table.documents.get(link))

    def surveyed(self, token: int, rows: Sequence[Row]) -> None:
        """Take the rows of a listing of this node's disk."""
        if token == self._surveying:
            self._surveying = 0
            for row in rows:
                self.learn(row, is_sure=False)

    def tick(self) -> None:
        """Begin a listing when this node owns more slots; drop tables of terms that are over."""
        core = self._core
        if core.now - self._swept_at >= core.config.sweep_s:
            self._swept_at = core.now
            for table in [each for each in self._tables.values() if each.documents]:
                self._table(next(iter(table.documents.values())).link)
        self._survey()

    def _survey(self) -> None:
        """List the documents when this node owns more slots, and again a while later.

        Rows that this node has adopted may not be on its disk at the first listing.
        """
        core = self._core
        if core.view.terms_opened != self._terms_opened:
            is_due = core.now - self._surveyed_at >= core.config.survey_s
        else:
            is_due = core.now >= self._once_more_at
        if self._surveying or not is_due:
            return
        is_news = core.view.terms_opened != self._terms_opened
        self._once_more_at = core.now + core.config.survey_again_s if is_news else inf
        self._terms_opened = core.view.terms_opened
        self._surveyed_at = core.now
        self._surveying = core.next_token()
        core.emit(Survey(self._surveying))

    def _table(self, link: str) -> Table:
        """Return the table of a document's slot; epoch 0 and empty if it is not ours."""
        view = self._core.view
        slot, epoch = view.slot_of(link), view.own_epoch(link)
        table = self._tables.get(slot)
        if table is not None and table.epoch != epoch:
            del self._tables[slot]
            for known in list(table.documents.values()):
                self._forget(table, known)
            table = None
        if table is None:
            table = Table(slot, epoch)
            if epoch:
                self._tables[slot] = table
        return table

    def _forget(self, table: Table, known: Known | None) -> None:
        if known is None:
            return
        del table.documents[known.link]
        part = self.part_of(known.link)
        assert part is not None
        part.left(known)
        self._noted(known.link)


def _is_news(known: Known, tag: Tag, *, is_sure: bool) -> bool:
    """Say whether a version replaces the known one; a decided one never yields to an older.

    A version that was never decided may have a greater tag than the decided one.
    """
    if known.is_sure != is_sure:
        return is_sure
    return tag > known.tag
