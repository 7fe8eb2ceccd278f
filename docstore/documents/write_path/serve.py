"""Step 4 of the write path, on the owner: execute one operation on its document's newest state.

In: an operation, from a client of this node or from another node. Out: a row at the end of the
slot's log (proposed when the turn ends), an answer that waits for a quorum, or the operation handed
back to its entry node because this node does not own the slot (any more).

The owner caches the document's newest row, and reads it from the disk on a miss. Updates of one
document run one at a time, each on the outcome of the one before, decided or not (rule O1). The log
decides them in that order.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from docstore.documents.clients import Inflight, Refusal
from docstore.documents.core import Core
from docstore.documents.document_cache import CachedDocument
from docstore.documents.jobs import REPEATED, VERSIONS_READ_MAX, Written, jobs_of, judged
from docstore.documents.keys import KEYS_PER_LINK_MAX, mark_of
from docstore.documents.log import SlotLog
from docstore.documents.outbox import LookUp
from docstore.documents.term import Phase, Term
from docstore.documents.write_path import dedup_rebuild
from docstore.documents.write_path.append import Appender
from docstore.documents.write_path.atomic_batch import AtomicBatches
from docstore.documents.write_path.confirm import Confirmer, Waiter
from docstore.documents.write_path.decide import Decider
from docstore.documents.write_path.handle import (
    CHANGES_FIRST,
    New,
    Outcome,
    Refused,
    Unchanged,
    handle,
    unmet,
)
from docstore.documents.write_path.past import first_shown, instant_of
from docstore.documents.write_path.past_reads import PastReads
from docstore.model.agenda import packed_agenda
from docstore.model.document import Row
from docstore.model.identity import fingerprint
from docstore.model.operation import CURRENT, Answer, Operation
from docstore.model.service import Service
from docstore.storage.store import Corrupt, History, OfLog, Result

OTHER_TERM = Answer(
    412, "other-reign", "the request names another term of the owner than the present one"
)
NO_QUORUM = Answer(
    503, "no-quorum", "the owner does not hear a majority of the replicas: retry later"
)


class Owner:
    def __init__(self, core: Core, decider: Decider, confirmer: Confirmer) -> None:
        self.core = core
        self.outbox = core.outbox
        self.decider = decider
        self.confirmer = confirmer
        self.past = PastReads(core, decider)
        self.appender = Appender(core)
        self.batches = AtomicBatches(core, self.appender, self)

    def serve(self, bundle: Sequence[Inflight]) -> None:
        """Execute operations on one slot if this node owns it, or defer them until then."""
        log = self.core.logs.get(bundle[0].slot)
        term = log.term if log else None
        lacks_quorum = self.core.lacks_quorum()
        ready: list[Inflight] = []
        for inflight in bundle:
            if self.core.now >= inflight.deadline:
                continue
            if log is None or term is None:
                self.core.reply(inflight, None)
            elif self._has_to_wait(term, inflight.operation):
                term.clients.deferred.append(inflight)
            elif lacks_quorum and self.find(log, inflight) is None:
                self.core.reply(inflight, NO_QUORUM)
            else:
                ready.append(inflight)
        if log is not None and term is not None:
            self.enter(log, term, ready)

    def _has_to_wait(self, term: Term, operation: Operation) -> bool:
        """Say whether the slot is opening, being given away, or behind a write barrier."""
        if term.phase is not Phase.OPEN or term.closed_since is not None:
            return True
        return self.core.now < term.updates_deferred_until and not operation.is_read

    def opened(self, log: SlotLog, term: Term) -> None:
        """Serve the operations that waited while the slot was opening or closed."""
        deferred, term.clients.deferred = term.clients.deferred, []
        if deferred:
            self.serve(deferred)

    def enter(self, log: SlotLog, term: Term, bundle: Sequence[Inflight]) -> None:
        """Execute operations in their order; those on documents not cached wait for a look-up."""
        missing: list[str] = []
        loading = term.clients.loading
        for inflight in bundle:
            operation = inflight.operation
            link = operation.link
            may_repeat = not operation.is_read and not self._is_new(inflight)
            if may_repeat and self._is_repetition(log, term, inflight):
                continue
            cached = term.cache.get(link)
            if operation.verb == "BATCH":
                self.batches.update(log, term, inflight)
            elif cached is None:
                if link not in loading:
                    missing.append(link)
                loading.setdefault(link, []).append(inflight)
            elif operation.given and operation.given[0] not in term.cache:
                self.batches.load(log, term, inflight, [operation.given[0], link])
            else:
                self._execute(log, term, cached, inflight)
        if missing:
            found = partial(self._loaded, log, term)
            self.outbox.look_up(LookUp(log.slot, missing, log.end, found))

    # Deduplication

    def _is_new(self, inflight: Inflight) -> bool:
        """Say whether no node can have made a row of an operation yet.

        True for a first attempt of this node's own client. False with an Idempotency-Key, because
        the client may have used the key before.
        """
        is_first = inflight.attempt == 1 and inflight.entry == self.core.me
        return is_first and not inflight.operation.key

    def _is_repetition(  # Tests replace this.
        self, log: SlotLog, term: Term, inflight: Inflight
    ) -> bool:
        """Answer an operation whose row is, or may be, in the log already (rule C1)."""
        n = self.find(log, inflight)
        if n is not None:
            self.decider.answer_duplicate(log, term, n, inflight)
            return True
        origin, seq, core = (inflight.entry, inflight.boot), inflight.seq, self.core
        is_echo = log.operations.is_over(origin, seq) or core.proposed.is_over(origin, seq)
        if is_echo or core.closed.has(origin, seq, inflight.attempt):
            return True
        operation = inflight.operation
        is_older = inflight.attempt > 1 or core.proposed.has(origin, seq)
        if not dedup_rebuild.is_known(log, operation, core.past_us(), is_older=is_older):
            page = dedup_rebuild.next_page(log, operation.link, self.core.config)
            if page is None:
                self.core.reply(inflight, dedup_rebuild.TOO_DEEP)
            else:
                read_back = partial(log.operations.recall, operation.link, core.past_us())
                self._read_first(log, term, inflight, page, read_back)
            return True
        return bool(operation.key) and self._is_key_used(log, term, inflight)

    def find(self, log: SlotLog, inflight: Inflight) -> int | None:  # Tests replace this.
        """Return the n of the row that this operation has made, if any."""
        return log.operations.find((inflight.entry, inflight.boot), inflight.seq)

    def _is_key_used(self, log: SlotLog, term: Term, inflight: Inflight) -> bool:
        operation = inflight.operation
        now_us = self.core.past_us()
        use = log.operations.find_key(operation.link, operation.key, now_us)
        if use is None:
            if log.operations.has_room_for_key(operation.link, now_us):
                return False
            detail = (
                f"{operation.link} remembers {KEYS_PER_LINK_MAX} Idempotency-Keys of the last ten"
                " minutes, the most there can be: retry later, or write without a key"
            )
            self.core.reply(inflight, Answer(429, "too-many-keys", detail))
        elif use.mark != mark_of(fingerprint(operation)):
            detail = "this Idempotency-Key was used for another request"
            self.core.reply(inflight, Answer(422, "key-reused", detail))
        else:
            self.decider.answer_duplicate(log, term, use.n, inflight)
        return True

    # The document

    def _read_first(
        self,
        log: SlotLog,
        term: Term,
        inflight: Inflight,
        query: OfLog,
        found: Callable[[list[Row]], None],
    ) -> None:
        """Read rows of a document from the disk, then execute the operations that wait for it.

        One query runs at a time for each document. An operation that arrives meanwhile waits with
        the others, and starts a query of its own later if it lacks other rows.
        """
        link = inflight.operation.link
        if link in term.clients.loading:
            term.clients.loading[link].append(inflight)
            return
        term.clients.loading[link] = [inflight]

        def answered(result: Result) -> None:
            waiting = term.clients.loading.pop(link, [])
            if log.term is not term:
                return  # The end of the term has handed the waiting operations back.
            if isinstance(result, Corrupt):
                self.core.corrupt(log)
                for each in waiting:
                    self.core.reply(each, None)
                return
            found(result)
            self.enter(log, term, waiting)  # Two may be attempts of one operation.
            bytes_max = self.core.config.memory.cache_bytes_per_slot
            term.cache.keep_within(bytes_max, safe=min(log.decided, log.durable))

        self.outbox.read(query, answered)

    def _loaded(  # Tests replace this.
        self, log: SlotLog, term: Term, found: Mapping[str, Result]
    ) -> None:
        """Cache the documents that were looked up, and execute the operations that wait for each.

        Not all operations at once: an atomic batch waits for one document after the other, behind
        the operations that came before it. Two may be attempts of one operation (rule C1).
        """
        if log.term is not term:
            return  # The end of the term has handed the waiting operations back.
        for link, rows in found.items():
            waiting = term.clients.loading.pop(link, [])
            if isinstance(rows, Corrupt):
                self.core.corrupt(log)
                for each in waiting:
                    self.core.reply(each, None)
                continue
            term.cache.load(link, rows[0] if rows else None)
            self.enter(log, term, waiting)
        bytes_max = self.core.config.memory.cache_bytes_per_slot
        term.cache.keep_within(bytes_max, safe=min(log.decided, log.durable))

    def _execute(
        self, log: SlotLog, term: Term, cached: CachedDocument, inflight: Inflight
    ) -> None:
        operation = inflight.operation
        if operation.is_read:
            refusal = self.past.refusal(log, operation)
            if refusal is not None:
                self.core.reply(inflight, refusal)
                return
            self._when_confirmed(log, term, inflight, lambda: self._read(log, cached, inflight))
            return
        service = self.core.service_of(operation, term.opened_as)
        if service is None:
            # The declaration is not known here yet, or may be old: the entry node asks again.
            self.core.reply(inflight, None)
            return
        self._update(log, term, cached, inflight, service)

    def _update(
        self,
        log: SlotLog,
        term: Term,
        cached: CachedDocument,
        inflight: Inflight,
        service: Service,
    ) -> None:
        operation = inflight.operation
        if operation.writer and cached.jobs is None:
            self._load_jobs(log, term, inflight)
            return
        if operation.given and not self._is_given(log, term, cached, inflight):
            return
        outcome = self.outcome(log, term, cached, operation, service)
        if isinstance(outcome, New):
            if not self.appender.finds_room(log, inflight):
                return
            inflight.created = not outcome.deleted and (
                cached.newest is None or cached.newest.deleted
            )
            self._append(log, term, cached, inflight, outcome)
            return
        if isinstance(outcome, Unchanged):
            answer = self._answer(200, log, outcome.row)._replace(code=outcome.code)
        else:
            answer = outcome.answer
        self.refuse(log, term, inflight, answer, cached.newest.n if cached.newest else 0)

    def _is_given(
        self, log: SlotLog, term: Term, cached: CachedDocument, inflight: Inflight
    ) -> bool:
        """Say whether an update may be executed now; answer it if not (rule A4)."""
        link, change = inflight.operation.given
        head = term.cache[link].newest
        service = self.core.service_for(link, term.opened_as)
        if service is None:
            self.core.reply(inflight, None)
            return False
        given = Operation(verb="PATCH", link=link, body=change, media="handler")
        answer = unmet(head, given, service)
        if answer is CHANGES_FIRST:
            self.core.reply(inflight, answer)
        elif answer is not None:
            newest = [each.n for each in (head, cached.newest) if each is not None]
            self.refuse(log, term, inflight, answer, max(newest, default=0))
        return answer is None

    def refuse(self, log: SlotLog, term: Term, inflight: Inflight, answer: Answer, n: int) -> None:
        """Give a refusal that depends on row n, once a quorum has confirmed that state."""
        answer = answer._replace(owner=self.core.me, epoch=term.ballot[0])
        origin = (inflight.entry, inflight.boot)
        self.core.closed.note(origin, inflight.seq, inflight.attempt, inflight.oldest)
        log.operations.forget(origin, inflight.oldest)
        refusal = Refusal(inflight, answer, n)
        self._when_confirmed(log, term, inflight, lambda: self._refuse(log, term, refusal))

    def outcome(
        self,
        log: SlotLog,
        term: Term,
        cached: CachedDocument,
        operation: Operation,
        service: Service,
    ) -> Outcome:
        """Apply an update to its document; a bulk job's at most once per batch."""
        # An update based on an owner's memory is void under any other term (rule F3).
        if operation.only_epoch and operation.only_epoch != term.ballot[0]:
            self.core.counters["other_reign"] += 1
            return Refused(OTHER_TERM._replace(row=cached.newest))
        if operation.writer and cached.jobs:
            found = judged(cached.jobs, operation, fingerprint(operation))
            if isinstance(found, Answer):
                return Refused(found._replace(row=cached.newest))
            if found is not None:
                self.core.counters["job_repetitions"] += 1
                assert cached.newest is not None
                return Unchanged(cached.newest, REPEATED)
        now_us = self.core.wall_now_us
        return handle(cached.newest, operation, service, floor=log.floor, now_us=now_us)

    def _load_jobs(self, log: SlotLog, term: Term, inflight: Inflight) -> None:
        """Load the bulk jobs that wrote a document, from its history.

        The history on the disk is complete: updates of jobs wait until this read is over.
        """
        link = inflight.operation.link

        def found(rows: list[Row]) -> None:
            cached = term.cache.get(link)
            if cached is not None:
                cached.jobs = jobs_of(reversed(rows))

        query = History(log.slot, link, None, VERSIONS_READ_MAX, log.end)
        self._read_first(log, term, inflight, query, found)

    def _append(
        self, log: SlotLog, term: Term, cached: CachedDocument, inflight: Inflight, new: New
    ) -> None:
        """Append the new version to the log; the end of the turn proposes it."""
        operation = inflight.operation
        identity = inflight.identity(new.version, new.fences, packed_agenda(new.agenda))
        if operation.writer:
            job, batch, sequence = operation.writer
            assert cached.jobs is not None
            cached.jobs[job] = Written(batch, sequence, identity.fingerprint)
        log.updated_us = self.appender.next_time(log)
        row = self.appender.append(log, term, cached, operation.link, new, identity)
        term.clients.updates.append((row.n, inflight))

    def _refuse(self, log: SlotLog, term: Term, refusal: Refusal) -> None:
        term.clients.refusals.append(refusal)
        self.decider.give_refusals(log, term)

    # Reads

    def _when_confirmed(
        self, log: SlotLog, term: Term, inflight: Inflight, then: Callable[[], None]
    ) -> None:
        lost, at_us = partial(self.core.reply, inflight, None), instant_of(inflight.operation)
        self.confirmer.add(Waiter(log, term.ballot, inflight.deadline, then, lost, at_us))

    def _read(self, log: SlotLog, cached: CachedDocument, inflight: Inflight) -> None:
        """Answer a confirmed read from decided rows."""
        if inflight.operation.select == CURRENT:
            self.core.reply(inflight, self._current(log, self.visible(cached)))
            return
        assert log.term is not None
        service = self.core.service_for(inflight.operation.link, log.term.opened_as)
        if (
            service is None
        ):  # The declaration, and so the number of versions shown, is not known here yet.
            self.core.reply(inflight, None)
            return
        self.past.read(log, log.term, inflight, self.first_shown(cached, service))

    def first_shown(self, cached: CachedDocument, service: Service) -> int:  # Tests replace this.
        """Return the first version that readers of the past may see (rule R4)."""
        return first_shown(service, self.visible(cached))

    def visible(self, cached: CachedDocument) -> Row | None:  # Tests replace this.
        """Return the version that readers may see: the newest decided one (rule R3)."""
        return cached.decided

    def _current(self, log: SlotLog, row: Row | None) -> Answer:
        return self._answer(404 if row is None or row.deleted else 200, log, row)

    def _answer(self, status: int, log: SlotLog, row: Row | None) -> Answer:
        code = "not-found" if status == 404 else ""
        epoch = self.decider.epoch_of(log.slot)
        return Answer(status, code, row=row, owner=self.core.me, epoch=epoch)
