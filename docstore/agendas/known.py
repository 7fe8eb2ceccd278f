"""Documents with an agenda in the slots of this node, and the term under which it owns them.

Rows come from the rows decided at this replica, from answers, and from a search of this node's disk
whenever it begins to own slots (rule AG1). A row of the disk may be outdated or not decided, so its
document is read again, with a confirmation, before it counts (rule AG2).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random

from docstore.agendas.effects import AgendaEffect
from docstore.agendas.timing import AgendaTimes
from docstore.machines.core import NEVER, MachineCore
from docstore.machines.effects import Survey
from docstore.machines.reading import PagedReads
from docstore.machines.updates import Tag, Updates, tag_of
from docstore.machines.view import MachineView
from docstore.model.agenda import Agenda, agenda_of, has_agenda
from docstore.model.document import Row


class Core(MachineCore[AgendaEffect, None]):
    """The state that all parts share."""

    def __init__(
        self, me: str, *, view: MachineView, rng: Random, times: AgendaTimes, now: float
    ) -> None:
        super().__init__(
            me, view=view, rng=rng, now=now,
            ask_timeout_s=times.ask_timeout_s, pause_s=times.pause_s,
        )  # fmt: skip
        self.times = times

    def pause_after(self, failures: int) -> float:
        """Return the seconds until the next attempt, up to a fifth longer by chance."""
        first, longest = self.times.retry_s
        pause_s = min(first * 2.0 ** min(failures - 1, 30), longest)
        return pause_s * (1 + self._rng.random() / 5)


@dataclass(slots=True)
class Known:
    """A document with an agenda, under one term of this node."""

    link: str
    epoch: int
    tag: Tag
    agenda: Agenda
    planned: dict[str, int] = field(default_factory=dict)
    """Name of a timer -> its due time that is in the heap, or under way."""
    failed_firings: int = 0
    delivered: int = -1
    """Number of the last effect that is delivered in this term."""
    is_delivering: bool = False
    failed_deliveries: int = 0
    retries_at: float = inf
    settles_at: float = inf
    is_settling: bool = False


class KnownDocuments:
    """The documents of this node that have an agenda."""

    def __init__(self, core: Core, changed: Callable[[Known], None]) -> None:
        """changed: called with each document whose agenda is new or has changed."""
        self._core = core
        self._changed = changed
        self._of: dict[str, Known] = {}
        self._reads = PagedReads(core.view, Updates(core, self.learn), self.learn)
        self._terms_opened = -1
        self._surveying = 0
        """Token of the search under way, 0 for none."""
        self._surveyed_at = NEVER
        self._once_more_at = inf
        self._swept_at = NEVER

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Known]:
        return iter(self._of.values())

    def at(self, link: str, epoch: int) -> Known | None:
        """Return a document if it is known under this epoch, and the epoch's term is still open."""
        known = self._of.get(link)
        if known is None or known.epoch != epoch or self._core.view.own_epoch(link) != epoch:
            return None
        return known

    def learn(self, row: Row) -> None:
        """Take a decided version of a document, if this node owns it and the version is newer."""
        epoch = self._core.view.own_epoch(row.link)
        known = self._of.get(row.link)
        if known is not None and known.epoch != epoch:
            del self._of[row.link]
            known = None
        if not epoch or row.epoch > epoch or (known is not None and tag_of(row) <= known.tag):
            return
        agenda = agenda_of(row)
        if not agenda:
            self._of.pop(row.link, None)
            return
        if known is None:
            known = self._of[row.link] = Known(row.link, epoch, tag_of(row), agenda)
        else:
            known.tag, known.agenda = tag_of(row), agenda
        self._changed(known)

    def forget(self, known: Known) -> None:
        """Drop a document that no longer exists, or that this node no longer owns."""
        self._of.pop(known.link, None)

    def surveyed(self, token: int, rows: Sequence[Row]) -> None:
        """Read the documents with an agenda among those that a search has found (rule AG2)."""
        if token == self._surveying:
            self._surveying = 0
            self._read(rows)

    def _read(self, rows: Sequence[Row]) -> None:  # Tests replace this.
        self._reads.begin(row.link for row in rows if has_agenda(row))

    def go_on(self) -> None:
        """Read the next of the documents that a search has found."""
        self._reads.go_on()

    def tick(self) -> None:
        """Search for agendas if that is due, and drop those of terms that are over."""
        core = self._core
        if core.now - self._swept_at >= core.times.sweep_s:
            self._swept_at = core.now
            own = core.view.own_epoch
            for known in [each for each in self._of.values() if own(each.link) != each.epoch]:
                self.forget(known)
        self.go_on()
        self._survey()

    def _survey(self) -> None:  # Tests replace this.
        """Search when this node owns more slots (rule AG1), and again a while later."""
        core = self._core
        is_news = core.view.terms_opened != self._terms_opened
        if is_news:
            is_due = core.now - self._surveyed_at >= core.times.survey_s
        else:
            is_due = core.now >= self._once_more_at
        if self._surveying or not self._reads.is_done or not is_due:
            return
        self._once_more_at = core.now + core.times.survey_again_s if is_news else inf
        self._terms_opened = core.view.terms_opened
        self._surveyed_at = core.now
        self._surveying = core.next_token()
        core.emit(Survey(self._surveying))
