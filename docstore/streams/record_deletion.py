"""Deletion of the records below an offset, as a client asks for it.

The leader moves its log start at once, in the middle of a batch if need be. It answers once the
start is on the disk of each copy that must have a record before that is committed (rule RC12), so a
later leader begins there as well.
"""

from dataclasses import dataclass

from docstore.streams.catchup import FollowerCatchUp
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.effects import Deleted, Problem
from docstore.streams.events import DeletionAsked
from docstore.streams.fetching import NOT_LEADER
from docstore.streams.leading import Leading, Leads
from docstore.streams.replicas import Replicas

ALL_COMMITTED = -1
"""Offset that stands for the high watermark, as in Kafka."""


@dataclass(slots=True)
class PendingDeletion:
    """A request to delete records, until it is answered.

    start: log start when it was asked for. is_stored: whether it is on the leader's own disk.
    """

    event: DeletionAsked
    leading: Leading
    start: int
    is_stored: bool = False

    def stored(self) -> None:
        """Note that the leader's own disk has the start."""
        self.is_stored = True


class RecordDeletion:
    """Deletes records of the partitions that this node leads."""

    def __init__(
        self, core: Core, leads: Leads, disk: Disk, *, replicas: Replicas, catchup: FollowerCatchUp
    ) -> None:
        self._core = core
        self._leads = leads
        self._disk = disk
        self._replicas = replicas
        self._catchup = catchup
        self._pending: list[PendingDeletion] = []

    def ask(self, event: DeletionAsked) -> None:
        """Move the log start, or reject the request."""
        found = (each for each in self._leads.values() if each.log.link == event.link)
        leading = next((each for each in found if each.is_online), None)
        if leading is None:
            self._core.give(event.request, NOT_LEADER)
            return
        problem = _why_not(leading, event.before)
        if problem is not None:
            self._core.give(event.request, problem)
            return
        log = leading.log
        start = log.high if event.before == ALL_COMMITTED else event.before
        if start > log.start:
            self._core.counters["deleted_records"] += start - log.start
            self._replicas.trim(log, start)
            self._catchup.remind(leading)
        pending = PendingDeletion(event, leading, log.start)
        self._pending.append(pending)
        self._disk.when_durable(pending.stored)

    def tick(self) -> None:
        """Answer the requests whose start is durable, and those whose deadline has passed."""
        self._pending = [pending for pending in self._pending if not self._is_answered(pending)]

    def _is_answered(self, pending: PendingDeletion) -> bool:
        event, leading = pending.event, pending.leading
        if self._leads.get(leading.log.name) is not leading:
            detail = "another node leads the partition: the next leader may keep the records"
            problem = Problem(503, NOT_LEADER.code, detail, unknown=True)
            self._core.give(event.request, problem)
        elif pending.is_stored and _is_known(leading):
            # A later log start may not be durable.
            self._core.give(event.request, Deleted(pending.start))
        elif event.deadline <= self._core.now:
            detail = "the log start is not on enough replicas by the deadline"
            self._core.give(event.request, Problem(504, "undecided", detail, unknown=True))
        else:
            return False
        return True


def _why_not(leading: Leading, before: int) -> Problem | None:
    """Return why the records below an offset cannot be deleted, None if they can."""
    log = leading.log
    if before > log.high or before == ALL_COMMITTED:
        if not leading.knows_high:
            return Problem(503, NOT_LEADER.code, "the leader does not know the high watermark yet")
        if before > log.high:
            detail = (
                f"the offset must be at most {log.high}, the high watermark of committed records;"
                f" got {before}"
            )
            return Problem(416, "offset-out-of-range", detail, more={"hw": log.high})
    if len(leading.recorded) < leading.least:
        detail = f"{len(leading.recorded)} in the live replica set, {leading.least} needed"
        return Problem(503, "not-enough-replicas", detail)
    return None


def _is_known(leading: Leading) -> bool:  # Tests replace this.
    """Say whether the log start is durable at each copy that a committed record needs."""
    log = leading.log
    known = {
        (each.node, each.copy)
        for each in leading.followers.values()
        if each.has_joined and each.knows_start(log.start)
    }
    known |= {each for each in leading.required if each[1] == log.copy}
    return len(leading.recorded) >= leading.least and leading.required <= known
