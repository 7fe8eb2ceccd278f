"""Step 4 of the write path for an atomic batch: updates of several documents, all or none.

The owner executes all updates on the newest versions of their documents before it appends any row
(rule A1). It appends all rows in one step, next to each other. So no replica ever has only some of
them: see `parts.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from docstore.documents.clients import Inflight
from docstore.documents.core import Core
from docstore.documents.document_cache import CachedDocument
from docstore.documents.log import SlotLog
from docstore.documents.outbox import LookUp
from docstore.documents.term import Term
from docstore.documents.write_path.append import Appender
from docstore.documents.write_path.handle import New, Outcome, Refused
from docstore.model.agenda import packed_agenda
from docstore.model.batch import BYTES_MAX, CURRENT_BYTES_MAX, ROWS_MAX, updates_of
from docstore.model.document import Row
from docstore.model.identity import has_created
from docstore.model.operation import Answer, Operation
from docstore.model.service import Service
from docstore.storage.store import Corrupt, Result

ELSEWHERE = Answer(
    422, "several-slots", "all documents of an atomic batch must have the same partition key"
)
TOO_LARGE = Answer(
    413, "too-large", f"a batch must write at most {BYTES_MAX} bytes in {ROWS_MAX} documents"
)
TOO_MUCH = Answer(
    413, "too-large", f"the stored documents of a batch must have at most {CURRENT_BYTES_MAX} bytes"
)
UNCHANGED = Answer(
    409, "unchanged", "each line of a batch must change its document: leave out those that do not"
)


class Owning(Protocol):
    """The methods of a slot's owner that a batch needs for one document."""

    def enter(self, log: SlotLog, term: Term, bundle: Sequence[Inflight]) -> None:
        """Execute operations in a slot that this node owns."""

    def outcome(
        self, log: SlotLog, term: Term, cached: CachedDocument, operation: Operation,
        service: Service,
    ) -> Outcome:  # fmt: skip
        """Apply an update to its document."""

    def refuse(self, log: SlotLog, term: Term, inflight: Inflight, answer: Answer, n: int) -> None:
        """Give a refusal that depends on row n, once a quorum has confirmed that state."""


class AtomicBatches:
    def __init__(self, core: Core, appender: Appender, owner: Owning) -> None:
        self.core = core
        self.outbox = core.outbox
        self.appender = appender
        self.owner = owner

    def update(self, log: SlotLog, term: Term, inflight: Inflight) -> None:
        """Execute a batch, or refuse it, or load the documents that it needs first."""
        if self.core.now >= inflight.deadline:
            return
        updates = updates_of(inflight.operation)
        if any(self.core.slot_of(each.link) != log.slot for each in updates):
            self.core.reply(inflight, ELSEWHERE)
            return
        links = [each.link for each in updates]
        if any(link not in term.cache for link in links):
            self.load(log, term, inflight, links)
            return
        services = [self.core.service_of(each, term.opened_as) for each in updates]
        known = [each for each in services if each is not None]
        if len(known) < len(updates):  # A declaration is not known yet: the entry node asks again.
            self.core.reply(inflight, None)
            return
        cached = [term.cache[each.link] for each in updates]
        if _current_bytes(cached) > CURRENT_BYTES_MAX:
            self.owner.refuse(log, term, inflight, TOO_MUCH, max(map(_newest_n, cached)))
            return
        outcomes = [
            self.owner.outcome(log, term, *each)
            for each in zip(cached, updates, known, strict=True)
        ]
        refusal = self.refusal(cached, outcomes)
        if refusal is not None:
            answer, n = refusal
            self.owner.refuse(log, term, inflight, answer, n)
        elif self.appender.finds_room(log, inflight):
            new = [
                (document, update.link, outcome)
                for document, update, outcome in zip(cached, updates, outcomes, strict=True)
                if isinstance(outcome, New)
            ]
            self._make(log, term, inflight, new)

    def refusal(  # Tests replace this.
        self, cached: Sequence[CachedDocument], outcomes: Sequence[Outcome]
    ) -> tuple[Answer, int] | None:
        """Return the refusal of a batch, and the row it depends on; None to apply it (A1)."""
        for index, (document, outcome) in enumerate(zip(cached, outcomes, strict=True)):
            if not isinstance(outcome, New):
                answer = outcome.answer if isinstance(outcome, Refused) else UNCHANGED
                statuses = [0] * len(outcomes)
                statuses[index] = answer.status
                return answer._replace(statuses=statuses), _newest_n(document)
        sending = self.core.config.sending
        made = [each for each in outcomes if isinstance(each, New)]
        size = sum(len(each.state) + (each.agenda.size if each.agenda else 0) for each in made)
        if len(outcomes) > min(ROWS_MAX, sending.page_rows) or size > BYTES_MAX:
            return TOO_LARGE, max(map(_newest_n, cached))
        return None

    def _make(
        self, log: SlotLog, term: Term, inflight: Inflight,
        versions: Sequence[tuple[CachedDocument, str, New]],
    ) -> None:  # fmt: skip
        """Append the rows of a batch, all with one time (rule A3)."""
        at_us, identity = self.appender.next_time(log), inflight.identity(0)
        made = []
        for index, (cached, link, new) in enumerate(versions):
            is_born = not new.deleted and (cached.newest is None or cached.newest.deleted)
            part = identity._replace(
                created=is_born and new.version > 0, fences=new.fences,
                part=(index, len(versions)), agenda=packed_agenda(new.agenda),
            )  # fmt: skip
            log.updated_us = self.time_of(log, at_us)
            made.append(self.appender.append(log, term, cached, link, new, part))
            # Only the first document's row carries the key.
            identity = identity._replace(key="", fingerprint=0)
        inflight.made = made
        term.clients.updates.append((log.end, inflight))
        self.core.counters["atomic_batches"] += 1

    def time_of(self, log: SlotLog, at_us: int) -> int:  # Tests replace this.
        """Return the time of the next row of a batch: that of the batch (rule A3)."""
        return at_us

    # The documents

    def load(self, log: SlotLog, term: Term, inflight: Inflight, links: Sequence[str]) -> None:
        """Read the newest rows of an operation's documents that are not cached, all at once.

        Other operations on a document wait while it is read; a batch waits for a read that is under
        way. The documents are pinned in the cache until the batch has run: a batch larger than the
        cache would otherwise evict its own documents for ever.
        """
        loading = term.clients.loading
        missing = [link for link in links if link not in term.cache]
        busy = next((link for link in missing if link in loading), None)
        if busy is not None:
            loading[busy].append(inflight)
            return
        loading.update((link, []) for link in missing)
        loading[missing[0]].append(inflight)
        term.cache.pin(links)
        results: dict[str, Result] = {}

        def found(some: Mapping[str, Result]) -> None:
            results.update(some)
            if len(results) == len(missing):
                self._loaded(log, term, results)
                term.cache.unpin(links)
                bytes_max = self.core.config.memory.cache_bytes_per_slot
                term.cache.keep_within(bytes_max, safe=min(log.decided, log.durable))

        self.outbox.look_up(LookUp(log.slot, missing, log.end, found))

    def _loaded(self, log: SlotLog, term: Term, results: dict[str, Result]) -> None:
        waiting = [each for link in results for each in term.clients.loading.pop(link, [])]
        if log.term is not term:
            return  # The end of the term has handed the waiting operations back.
        if any(isinstance(each, Corrupt) for each in results.values()):
            self.core.corrupt(log)
            for inflight in waiting:
                self.core.reply(inflight, None)
            return
        for link, rows in results.items():
            assert not isinstance(rows, Corrupt)
            term.cache.load(link, rows[0] if rows else None)
        self.owner.enter(log, term, waiting)


def _newest_n(document: CachedDocument) -> int:
    return document.newest.n if document.newest else 0


def _current_bytes(documents: Sequence[CachedDocument]) -> int:
    newest = [each.newest for each in documents]
    return sum(len(row.state) for row in newest if row is not None and not row.deleted)


def answer_of(made: Sequence[Row], copies: int, owner: str, epoch: int) -> Answer:
    statuses = [201 if has_created(row) else 200 for row in made]
    rows = [row._replace(state=b"") for row in made]
    return Answer(200, rows=rows, replicas=copies, owner=owner, epoch=epoch, statuses=statuses)
