"""Reads of a partition at its leader: where they begin and end, and the readers that wait.

A committed reader is given the records below the high watermark, another reader those below the
leader's log end. Batches are sent as they are stored: the first may begin below the offset that was
asked for, and the last may end above the reader's end, so the answer names both offsets. The reader
must ignore records from the end on.
"""

from collections.abc import Callable
from dataclasses import dataclass

from docstore.model.streams_batch import BatchHeader, header_of
from docstore.storage.partitions import At, Batches, CorruptPartition, PartitionResult
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.effects import Problem, Records
from docstore.streams.events import FetchAsked
from docstore.streams.follower import FollowedPartitions
from docstore.streams.leading import Leading, Leads
from docstore.streams.log import PartitionLog, PartitionLogs
from docstore.streams.news import WaitingForNews

NOT_LEADER = Problem(503, "not-leader", "this node does not lead the partition")


@dataclass(slots=True)
class PendingFetch:
    """A request to read, until it is answered."""

    event: FetchAsked
    offset: int = -1
    """Offset at which the answer begins; -1 while it is not known."""


class Fetching:
    """Serves the readers of the partitions that this node holds."""

    def __init__(
        self,
        core: Core,
        logs: PartitionLogs,
        disk: Disk,
        leads: Leads,
        follower: FollowedPartitions,
        damaged: Callable[[PartitionLog], None],
    ) -> None:
        """damaged: called when a batch of a log fails its check."""
        self._core = core
        self._logs = logs
        self._disk = disk
        self._leads = leads
        self._follower = follower
        self._damage = damaged
        self.news = WaitingForNews(core, logs, leads)
        self._waiting: dict[str, list[PendingFetch]] = {}

    def ask(self, event: FetchAsked) -> None:
        """Answer a reader, now or when there are records for it."""
        log = self._log(event)
        if log is None:
            self._core.give(event.request, NOT_LEADER)
        else:
            self._begin(log, PendingFetch(event))

    def _log(self, event: FetchAsked) -> PartitionLog | None:
        """Return the log to read, None unless this node leads it or a stale read is accepted."""
        log = self._logs.newest(event.link)
        if log is None or log.replica_set is None:
            return None
        leading = self._leads.get(log.name)
        if leading is not None and leading.is_online:
            return log
        return log if event.stale and event.isolation == "committed" else None

    def _begin(self, log: PartitionLog, reader: PendingFetch) -> None:
        """Find the offset at which a reader begins, then read or wait."""
        kind, value = reader.event.origin
        if kind in {"time", "written"}:
            us = _batches_since(log, reader)
            self._disk.read(At(log.name, us), lambda found: self._found(log, reader, found))
            return
        if kind == "offset":
            reader.offset = value
        elif kind == "beginning":
            reader.offset = log.start
        elif not self._knows_end(log):
            self._wait(log, reader)
            return
        else:
            reader.offset = max(log.start, self._bound(log, reader) - value)
        self._go_on(log, reader)

    def _knows_end(self, log: PartitionLog) -> bool:
        leading = self._leads.get(log.name)
        return leading is None or leading.knows_high

    def _found(self, log: PartitionLog, reader: PendingFetch, found: PartitionResult) -> None:
        if isinstance(found, CorruptPartition):
            self._damaged(log, reader)
            return
        headers = [each for each in found if isinstance(each, BatchHeader)]
        # Batches in memory that may not be on the disk yet.
        us = _batches_since(log, reader)
        young = [head for head, _ in log.tail if head.last_us >= us]
        first = min([head.base for head in (*headers, *young)], default=log.end)
        bound = self._bound(log, reader)
        if first > bound and not self._knows_end(log):
            self._wait(log, reader)  # Records up to `first` may still become committed.
            return
        reader.offset = max(log.start, min(first, bound))
        self._go_on(log, reader)

    def _bound(self, log: PartitionLog, reader: PendingFetch) -> int:  # Tests replace this.
        return log.high if reader.event.isolation == "committed" else log.end

    def _go_on(self, log: PartitionLog, reader: PendingFetch) -> None:
        """Read the records that a reader may see, or let it wait."""
        core, event = self._core, reader.event
        if reader.offset < log.start:
            self._evicted(log, reader)
        elif reader.offset > log.end and not event.stale:
            detail = f"the log ends at {log.end}"
            problem = Problem(416, "offset-out-of-range", detail, more={"leo": log.end})
            core.give(event.request, problem)
        elif self._may_read(log, reader):
            self._read(log, reader)
        else:
            self._wait(log, reader)

    def _may_read(self, log: PartitionLog, reader: PendingFetch) -> bool:
        """Say whether there are records for a reader, and the offset of its token is committed."""
        return log.start <= reader.offset < self._bound(log, reader) and (
            reader.event.token < log.high
        )

    def _read(self, log: PartitionLog, reader: PendingFetch) -> None:
        until = self._bound(log, reader)
        found = log.from_tail(reader.offset, until, reader.event.bytes_max)
        if found is not None:
            self._give(log, reader, found, until)
            return
        # Above that the disk may still have records that a truncation has removed from the log.
        until, cuts = min(until, log.durable), log.cuts
        query = Batches(log.name, reader.offset, until, reader.event.bytes_max)
        self._disk.read(
            query,
            lambda result: (
                self._looked(log, reader, result, until)
                if log.cuts == cuts
                # The log was truncated meanwhile.
                else self._core.give(reader.event.request, NOT_LEADER)
            ),
        )

    def _looked(
        self, log: PartitionLog, reader: PendingFetch, result: PartitionResult, until: int
    ) -> None:
        if isinstance(result, CorruptPartition):
            self._damaged(log, reader)
            return
        found = [each for each in result if isinstance(each, bytes)]
        if not self._logs.holds(log):
            self._core.give(reader.event.request, NOT_LEADER)
        elif not found or header_of(found[0]).base > reader.offset:
            self._evicted(log, reader)  # Retention deleted the records before the disk was read.
        else:
            self._give(log, reader, found, until)

    def _damaged(self, log: PartitionLog, reader: PendingFetch) -> None:
        self._damage(log)
        problem = Problem(503, "not-leader", "a batch is damaged here: ask again")
        self._core.give(reader.event.request, problem)

    def _evicted(self, log: PartitionLog, reader: PendingFetch) -> None:
        problem = Problem(
            410,
            "offset-evicted",
            f"offset {reader.offset} is not kept any more, {log.start} is",
            more={"next": log.start, "offset": reader.offset},
        )
        self._core.give(reader.event.request, problem)

    def _give(
        self, log: PartitionLog, reader: PendingFetch, batches: list[bytes], until: int
    ) -> None:
        end = header_of(batches[-1]).end if batches else reader.offset
        following = self._follower.following.get(log.name)
        leading = self._leads.get(log.name)
        if leading is None and not reader.event.stale:
            # Deposed while the disk was read: the answer would mix two leaders' epoch and high.
            self._core.give(reader.event.request, NOT_LEADER)
            return
        heard_at = following.heard_at if following else self._core.now
        self._core.give(
            reader.event.request,
            Records(
                batches=batches,
                offset=reader.offset,
                until=min(until, end),
                high=log.high if leading is None else leading.shown_high,
                end=log.end,
                start=log.start,
                epoch=log.promised[0],
                stale_us=0 if leading else int((self._core.now - heard_at) * 1e6),
                owner=log.epoch_of(reader.offset)[1],
                incarnation=log.incarnation,
            ),
        )

    # Readers that wait

    def _wait(self, log: PartitionLog, reader: PendingFetch) -> None:
        if reader.event.deadline <= self._core.now:
            self._give_up(log, reader)
        else:
            self._waiting.setdefault(log.name, []).append(reader)

    def _give_up(self, log: PartitionLog, reader: PendingFetch) -> None:
        if reader.event.token >= log.high:
            detail = f"offset {reader.event.token} is not known to be committed here"
            self._core.give(reader.event.request, Problem(503, "not-committed-yet", detail))
            return
        if reader.offset < 0:
            self._core.give(reader.event.request, Problem(503, "no-leader", "the end is not known"))
            return
        self._give(log, reader, [], reader.offset)

    def raised(self, leading: Leading) -> None:
        """Serve waiting readers again: there is more to read, or this node no longer leads."""
        log = leading.log
        self.news.raised(leading)
        readers = self._waiting.pop(log.name, ())
        for reader in readers:
            if self._leads.get(log.name) is not leading:
                self._core.give(reader.event.request, NOT_LEADER)
            elif reader.offset < 0:
                self._begin(log, reader)
            else:
                self._go_on(log, reader)

    def tick(self) -> None:
        """Answer the readers whose deadline has passed, without records; retry those of a follower.

        Nothing else wakes a reader of a follower when its leader tells it a new high watermark.
        """
        now = self._core.now
        self.news.tick()
        for name, readers in list(self._waiting.items()):
            log = self._logs.get(name)
            for reader in list(readers):
                if log is None:
                    self._core.give(reader.event.request, NOT_LEADER)
                elif reader.event.deadline <= now:
                    self._give_up(log, reader)
                elif reader.event.stale and self._may_read(log, reader):
                    self._read(log, reader)
                else:
                    continue
                readers.remove(reader)
            if not readers:
                del self._waiting[name]


def _batches_since(log: PartitionLog, reader: PendingFetch) -> int:
    """Return the time from which on the batches may have what a reader looks for by time."""
    kind, us = reader.event.origin
    return us if kind == "time" else log.times.begin(us)
