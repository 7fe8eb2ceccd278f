"""Updates and reads of documents of levels 1 and 2, on the node that executes them.

The winner is the document. An update makes a successor of it. The client gets the answer when the
successor is durable here (level 1), or also on every live replica that answers within half a
second, and at least on one other if any is alive (level 2). Then `spread.py` sends it to the
others. A version that arrives from another replica and does not succeed the winner here is a
conflict: see `branches.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from docstore.documents.clients import DISK_FULL, Inflight
from docstore.documents.core import Core
from docstore.documents.eventual.branches import Branches
from docstore.documents.eventual.documents import Documents
from docstore.documents.eventual.lineage import begotten, covers, lineage_of, stamp_after
from docstore.documents.eventual.spread import Spreader
from docstore.documents.keys import KEY_LIFE_US
from docstore.documents.write_path.handle import DELETED_SIGNATURE, New, Unchanged, handle
from docstore.documents.write_path.past import instant_of, yet_to_come
from docstore.model.document import Row
from docstore.model.identity import fingerprint, has_created, unpack_identity
from docstore.model.operation import CONFLICTS, CURRENT, Answer, undecided
from docstore.storage.replication_log import Lines
from docstore.storage.store import Corrupt, Recovered, Result

LINES_MAX = 1000
"""Most versions of a document that are searched to answer a read of the past."""
ATTEMPTS_SENT_BACK = 5
"""Most attempts of a level 2 operation that a node returns because it sees another owner."""

DAMAGED = Answer(503, "damaged", "this node's copy of the document is damaged: ask another")
TOO_FEW = undecided("stored on this node, but on fewer replicas than required")


@dataclass(slots=True)
class Unanswered:
    """An update that waits for copies.

    patience: time until which it waits for all live replicas.
    """

    inflight: Inflight
    row: Row
    patience: float


class Executor:
    def __init__(self, core: Core, recovered: Recovered) -> None:
        self.core = core
        self.outbox = core.outbox
        self.documents = Documents(core, recovered, self._stored)
        self.arrived = self.documents.arrived
        self.spreader = Spreader(core, self.documents, recovered, self._answer_copied)
        self._unanswered: list[Unanswered] = []
        self._deferred: list[Inflight] = []
        self._is_new_disk = not self.spreader.cursors

    def reset(self, recovered: Recovered) -> None:
        """Reload from the disk; updates that were not durable are lost."""
        for each in self._unanswered:
            lost = each.row.n > recovered.arrived
            if (
                lost
            ):  # A late duplicate of an update that lost the conflict must not be applied either.
                self._close(each.inflight)
            self.core.reply(each.inflight, DISK_FULL if lost else TOO_FEW, proposed=not lost)
        self._unanswered.clear()
        self.documents.reset(recovered)
        self.spreader.reset(recovered)

    def _stored(self, n: int) -> None:
        self.spreader.downstreams.stored(n)
        self._answer_copied()

    def executing_node(self, slot: int, level: int) -> str | None:
        """Return the node that executes operations that arrive here, None if there is none.

        At level 1 it is this node if it holds a replica and does not drain, else the first live
        replica. At level 2 it is the first live replica, as this node sees it.
        """
        core = self.core
        if level == 1 and slot in core.logs and not core.is_draining:
            return core.me
        alive = [each for each in core.placement.replicas(slot) if core.is_alive(each)]
        fit = (each for each in alive if core.may_own(each))
        return next(fit, alive[0] if alive else None)

    # Operations

    def serve(self, inflight: Inflight) -> None:
        """Execute an operation here, if this node holds a replica of the document."""
        operation = inflight.operation
        if self.core.now >= inflight.deadline or self._is_over(inflight):
            return
        slot = inflight.slot
        repeated = inflight.attempt > 1 or operation.key or self._has_applied(inflight)
        if slot not in self.core.logs or self._is_anothers(slot, inflight):
            self._give_back(inflight)
        elif self.is_behind(operation.level):
            self._deferred.append(inflight)
        elif repeated and not operation.is_read:
            self._once(inflight)
        else:
            self.documents.load(operation.link, lambda branches: self._execute(inflight, branches))

    def _is_anothers(self, slot: int, inflight: Inflight) -> bool:
        """Say whether another node owns the slot, as this node sees it (level 2).

        The sender may not have noticed yet. If it still sends the operation after some attempts, it
        hears another part of the group than this node does, and this node serves it.
        """
        patient = inflight.attempt <= ATTEMPTS_SENT_BACK or self.core.is_draining
        if inflight.operation.level == 1 or not patient:
            return False
        return self.executing_node(slot, inflight.operation.level) != self.core.me

    def is_behind(self, level: int) -> bool:
        """Say whether other nodes may have versions that this node, just back, lacks.

        At level 2 it would continue from an old version. At level 1 that is allowed, but a new disk
        would report that there is no document.
        """
        if not self.core.clock.is_known:
            return True  # No clock yet: a stamp of now would seem very old.
        if level == 1 and not self._is_new_disk:
            return False
        return self.spreader.lags_behind()

    def _execute(self, inflight: Inflight, branches: Branches | None) -> None:
        if branches is None:
            self.core.reply(inflight, DAMAGED)
        elif inflight.operation.is_read:
            self._read(inflight, branches)
        else:
            self._update(inflight, branches)

    def _update(self, inflight: Inflight, branches: Branches) -> None:
        operation, winner = inflight.operation, branches.winner
        if self._is_over(inflight):
            return  # Another attempt was refused while the document was read.
        if self._has_applied(inflight):
            self.core.reply(inflight, TOO_FEW, proposed=True)  # The version was pruned.
            return
        service = self.core.service_of(operation, 0)
        if service is None:
            self._give_back(inflight)  # The factory is not known here yet.
            return
        if operation.verb == "RESOLVE":
            self._resolve(inflight, branches)
            return
        now_us = self.core.wall_now_us
        outcome = handle(winner, operation, service, floor=-1, now_us=now_us)
        if isinstance(outcome, New):
            self._put(inflight, branches, outcome)
            return
        self._close(inflight)
        if isinstance(outcome, Unchanged):
            self._answer(inflight, Answer(200, row=outcome.row))
        else:
            self._answer(inflight, outcome.answer)

    def _resolve(self, inflight: Inflight, branches: Branches) -> None:
        """Make a version that succeeds all branches, which resolves the conflict."""
        winner = branches.winner
        if winner is None:
            self._answer(inflight, Answer(404, "not-found"))
        elif not branches.losers:
            self._answer(inflight, Answer(200, row=winner))
        else:
            signature = DELETED_SIGNATURE if winner.deleted else winner.signature
            version = winner.version + 1
            new = New(winner.state, version, "RESOLVE", winner.deleted, signature)
            self._put(inflight, branches, new, resolves=True)

    def _put(
        self, inflight: Inflight, branches: Branches, new: New, *, resolves: bool = False
    ) -> None:
        operation, winner, core = inflight.operation, branches.winner, self.core
        if not core.has_room:
            self._close(inflight)
            core.reply(inflight, DISK_FULL)
            return
        lineages = branches.lineages
        parents, others = (lineages, []) if resolves else (lineages[:1], lineages[1:])
        disk = self.arrived.disk
        stamp = stamp_after(core.wall_now_us(), lineages, disk)
        lineage = begotten(operation.level, parents, others, disk, stamp)
        inflight.created = not new.deleted and (winner is None or winner.deleted)
        row = Row(
            core.slot_of(operation.link), 0, self._epoch(operation.level, winner), core.me,
            operation.link, new.version, new.action, stamp, new.deleted, new.signature,
            inflight.identity(new.version).pack(), lineage.pack(), new.state,
        )  # fmt: skip
        arrived = self.documents.add(branches, row)
        assert arrived is not None, "a new stamp of this disk was known before"
        core.counters["executed"] += 1
        patience = core.now + core.config.copies_patience_s
        self._unanswered.append(Unanswered(inflight, arrived, patience))

    def _epoch(self, level: int, winner: Row | None) -> int:
        """Return the epoch of a new version: 0 at level 1; at level 2 each new owner adds one."""
        if level == 1:
            return 0
        if winner is None:
            return 1
        return winner.epoch + (winner.owner != self.core.me)

    # Answers

    def _answer(self, inflight: Inflight, answer: Answer) -> None:
        """Answer once the heads that the answer depends on are durable."""
        epoch = answer.row.epoch if answer.row else 0
        said = answer._replace(owner=self.core.me, epoch=epoch)
        branches = self.documents.known(inflight.operation.link)
        if branches is None or self.documents.is_stored(branches):
            self.core.reply(inflight, said)
        else:
            self.outbox.when_durable(lambda: self.core.reply(inflight, said))

    def _answer_copied(self) -> None:
        unanswered, self._unanswered = self._unanswered, []
        for each in unanswered:
            copies = self.spreader.downstreams.copies(each.row.n, each.row.slot)
            if each.row.n <= self.arrived.durable and self._suffices(each, copies):
                status, epoch = 201 if each.inflight.created else 200, each.row.epoch
                said = Answer(
                    status, row=each.row, replicas=copies, owner=self.core.me, epoch=epoch
                )
                self.core.reply(each.inflight, said)
            elif self.core.now >= each.inflight.deadline:
                self.core.reply(each.inflight, TOO_FEW, proposed=True)
            else:
                self._unanswered.append(each)

    def _suffices(self, each: Unanswered, copies: int) -> bool:
        operation, row = each.inflight.operation, each.row
        replicas = len(self.core.placement.replicas(row.slot))
        wanted = replicas if operation.replicas < 0 else operation.replicas
        if copies < wanted:
            return False
        if operation.level == 1 or not self.spreader.downstreams.awaited(row.n, row.slot):
            return True
        return copies > 1 and self.core.now >= each.patience

    # Applied at most once

    def _has_applied(self, inflight: Inflight) -> bool:  # Tests replace this.
        """Say whether an attempt of this operation has made a version here."""
        return (
            self.documents.operations.find((inflight.entry, inflight.boot), inflight.seq)
            is not None
        )

    def _is_over(self, inflight: Inflight) -> bool:
        """Say whether the request duplicates an operation that has its final answer already."""
        origin = (inflight.entry, inflight.boot)
        is_over = self.documents.operations.is_over(origin, inflight.seq)
        return is_over or self.core.closed.has(origin, inflight.seq, inflight.attempt)

    def _close(self, inflight: Inflight) -> None:  # Tests replace this.
        """Refuse late duplicates of this attempt from now on."""
        if not inflight.operation.is_read:
            origin = (inflight.entry, inflight.boot)
            self.core.closed.note(origin, inflight.seq, inflight.attempt, inflight.oldest)
            self.documents.operations.forget(origin, inflight.oldest)

    def _give_back(self, inflight: Inflight) -> None:
        """Return an operation, and whether it may have taken effect."""
        applied = self._has_applied(inflight)  # Then the answer was lost.
        if not applied:
            self._close(inflight)
        self.core.reply(inflight, None, proposed=applied)

    def _once(self, inflight: Inflight) -> None:
        """Look for the version of an earlier attempt, made here or received."""
        operation = inflight.operation
        branches = self.documents.known(operation.link)
        if branches is not None and not self.documents.is_stored(branches):
            self.outbox.when_durable(lambda: self._once(inflight))
            return

        def found(result: Result) -> None:
            if isinstance(result, Corrupt):
                self.core.reply(inflight, DAMAGED)
                return
            told = (self._told(inflight, row) for row in result)
            answer = next((each for each in told if each is not None), None)
            if answer is not None:
                self._answer(inflight, answer)
            else:
                self.documents.load(operation.link, lambda found: self._execute(inflight, found))

        self.outbox.read(Lines(self.core.slot_of(operation.link), operation.link, LINES_MAX), found)

    def _told(self, inflight: Inflight, row: Row) -> Answer | None:
        """Return the answer if the operation or its Idempotency-Key made this version."""
        identity = unpack_identity(row.operation)
        asked = (inflight.entry, inflight.boot, inflight.seq)
        if (identity.entry, identity.boot, identity.seq) != asked:
            key = inflight.operation.key
            fresh = row.updated_us + KEY_LIFE_US > self.core.past_us()
            if not key or identity.key != key or not fresh:
                return None
            if identity.fingerprint != fingerprint(inflight.operation):
                detail = "this Idempotency-Key was used for another request"
                return Answer(422, "key-reused", detail)
        return Answer(201 if has_created(row) else 200, row=row)

    # Reads

    def _read(self, inflight: Inflight, branches: Branches) -> None:
        select, winner = inflight.operation.select, branches.winner
        at_us, now_us = instant_of(inflight.operation), self.core.wall_now_us()
        if at_us > max(now_us, winner.updated_us if winner else 0):
            self._answer(inflight, yet_to_come(at_us, now_us))
            return
        if select == CURRENT:
            status = 404 if winner is None or winner.deleted else 200
            code = "not-found" if status == 404 else ""
            conflicts = len(branches.losers)
            self._answer(inflight, Answer(status, code, row=winner, conflicts=conflicts))
        elif select == CONFLICTS:
            status = 404 if winner is None else 200
            self._answer(inflight, Answer(status, row=winner, rows=branches.losers))
        elif winner is None:
            self._answer(inflight, Answer(404, "not-found"))
        else:
            self._read_past(inflight, winner)

    def _read_past(self, inflight: Inflight, winner: Row) -> None:
        """Answer a read of the past from the winner's ancestors that this node still keeps."""
        origin = lineage_of(winner)

        def found(result: Result) -> None:
            if isinstance(result, Corrupt):
                self.core.reply(inflight, DAMAGED)
                return
            line = [row for row in (winner, *result) if covers(origin, lineage_of(row))]
            line = list({row.version: row for row in reversed(line)}.values())[::-1]
            self._answer(inflight, _selected(inflight.operation.select, line))

        self.outbox.read(Lines(winner.slot, winner.link, LINES_MAX), found)

    # Time

    def tick(self) -> None:
        """Serve deferred operations; answer those past their deadline."""
        deferred, self._deferred = self._deferred, []
        for inflight in deferred:
            self.serve(inflight)
        if self._unanswered:
            self._answer_copied()


def _selected(select: Sequence[Any], line: list[Row]) -> Answer:
    """Return the answer to a read of the past. line: the document's versions, newest first."""
    kind, *arguments = select
    if kind == "history":
        before, limit = arguments
        rows = [row for row in line if before is None or row.version < before][:limit]
        return Answer(200 if rows else 404, "" if rows else "not-found", rows=rows)
    if kind == "version":
        found = [row for row in line if row.version == arguments[0]]
    else:
        found = [row for row in line if row.updated_us <= arguments[0]][:1]
        if found and found[0].deleted:
            return Answer(404, "not-found", row=found[0])
    return Answer(200, row=found[0]) if found else Answer(404, "not-found")
