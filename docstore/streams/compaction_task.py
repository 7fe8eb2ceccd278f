"""Compaction of the logs of this node whose topic asks for it, one log and one page at a time.

Each replica compacts its own log, below the high watermark that it knows, and never the last batch.
So the logs of two replicas may lack different records, but readers of both see the same newest
record of each key. A page is replaced by one write to the disk, so that a crash leaves either.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from docstore.model.streams_batch import header_of
from docstore.storage.partitions import Batches, CorruptPartition, PartitionResult, Size
from docstore.streams.compaction import NewestOffsets, PassBounds, Rewritten, joined, rewritten
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.leading import Leads
from docstore.streams.log import PartitionLog, PartitionLogs
from docstore.streams.replicas import first_kept
from docstore.streams.topic import Topic
from docstore.streams.topics import Topics

STAMPS = 16
"""Number of different expiry times per life of a tombstone: batches of the same time can join."""


@dataclass(slots=True)
class Compacted:
    """State of a log after its last pass.

    until: end of the compacted part. size: bytes of the log, 0 if more could be compacted at once.
    has_tombstones: whether a later pass may remove some.
    """

    log: PartitionLog
    cuts: int
    until: int
    size: int
    at: float
    has_tombstones: bool


@dataclass(slots=True)
class CompactionPass:
    """A pass over a log, in two phases: note the keys below `limit`, then rewrite below `until`."""

    log: PartitionLog
    cuts: int
    offset: int
    limit: int
    bounds: PassBounds
    newest: NewestOffsets = field(default_factory=NewestOffsets)
    until: int = -1
    """End of the part whose keys were noted; -1 while they are being noted."""
    last: Rewritten | None = None
    """Batch before `offset`, as it is on the disk, that the next ones may join."""
    has_tombstones: bool = False


class CompactionTask:
    """Compacts the logs of this node."""

    def __init__(
        self,
        core: Core,
        logs: PartitionLogs,
        disk: Disk,
        leads: Leads,
        *,
        topics: Topics,
        damaged: Callable[[PartitionLog], None],
    ) -> None:
        """damaged: called when a batch of a log fails its check."""
        self._core = core
        self._logs = logs
        self._disk = disk
        self._leads = leads
        self._topics = topics
        self._damaged = damaged
        self._compacted: dict[str, Compacted] = {}
        self._left: deque[str] = deque()
        self._round_at = core.now + core.config.upkeep.retention_s
        self._next_at = core.now
        self._pass: CompactionPass | None = None
        self._is_waiting = False
        """Whether a topic or the disk is being read."""

    def tick(self) -> None:
        """Take the next step, if it is due."""
        core = self._core
        if self._is_waiting or core.now < self._next_at or not core.has_room:
            return
        if self._pass is not None:
            self._next_at = core.now + core.config.compaction.step_interval_s
            self._read_page(self._pass)
            return
        if not self._left and core.now >= self._round_at:
            self._round_at = core.now + core.config.upkeep.retention_s
            self._compacted = {
                name: each for name, each in self._compacted.items() if self._is_known(each)
            }
            self._left.extend(sorted(self._logs))
        while self._left and not self._is_waiting:
            log = self._logs.get(self._left.popleft())
            if log is not None and self._may_be_due(log):
                self._is_waiting = True
                self._topics.read(log.name, partial(self._judge, log))

    def _is_known(self, each: Compacted | CompactionPass) -> bool:
        return self._logs.holds(each.log) and each.log.cuts == each.cuts

    def _last(self, log: PartitionLog) -> Compacted | None:
        """Return the state of a log after its last pass, None after a truncation."""
        found = self._compacted.get(log.name)
        return found if found is not None and self._is_known(found) else None

    def _limit(self, log: PartitionLog) -> int:  # Tests replace this.
        """Return the offset below which batches may be compacted."""
        return min(log.high, log.durable, log.end - 1)

    def _may_be_due(self, log: PartitionLog) -> bool:
        before = self._last(log)
        if before is None:
            return log.full and self._limit(log) > log.start
        return log.full and (before.has_tombstones or self._limit(log) > before.until)

    def _judge(self, log: PartitionLog, topic: Topic | None) -> None:
        if topic is None or not topic.compacts or not self._logs.holds(log):
            self._is_waiting = False
            return
        self._disk.read(Size(log.name), partial(self._begin, log))

    def _begin(self, log: PartitionLog, found: PartitionResult) -> None:
        """Begin a pass, if the log has grown enough or for some time."""
        self._is_waiting = False
        core, config = self._core, self._core.config
        before = self._last(log)
        if not self._logs.holds(log) or isinstance(found, CorruptPartition):
            return
        if before is not None:
            size = sum(each for each in found if isinstance(each, int))
            rested = core.now - before.at >= config.compaction.rest * config.upkeep.retention_s
            if size < config.compaction.growth * before.size and not rested:
                return
            offset = max(before.until, log.start)
        else:
            offset = log.start
        core.counters["compactions"] += 1
        self._pass = CompactionPass(log, log.cuts, offset, self._limit(log), self._bounds(log))

    def _bounds(self, log: PartitionLog) -> PassBounds:  # Tests replace this.
        view, config = self._core.view, self._core.config.compaction
        leading = self._leads.get(log.name)
        followers = leading.followers.values() if leading is not None else ()
        # A replica that is being filled must get the tombstones of records that it has.
        behind = [each.acked for each in followers if each.is_attached or each.has_joined]
        step_us = max(1, config.tombstone_us // STAMPS)
        return PassBounds(
            start=log.start,
            purge_below=min(behind, default=log.end),
            expired_us=view.past_us() - config.tombstone_us,
            now_us=(view.wall_now_us() // step_us + 1) * step_us,
        )

    # A pass

    def _is_valid(self, each: CompactionPass) -> bool:
        return self._is_known(each) and each.log.full

    def _read_page(self, each: CompactionPass) -> None:
        if not self._is_valid(each):
            self._end(each)
            return
        until = each.limit if each.until < 0 else each.until
        each.offset = max(each.offset, each.log.start)
        if each.offset >= until:
            self._turned(each, each.offset)
            return
        self._is_waiting = True
        query = Batches(each.log.name, each.offset, until, self._core.config.compaction.step_bytes)
        self._disk.read(query, partial(self._found, each))

    def _found(self, each: CompactionPass, found: PartitionResult) -> None:
        self._is_waiting = False
        if not self._is_valid(each):
            self._end(each)
        elif isinstance(found, CorruptPartition):
            self._end(each)
            self._damaged(each.log)
        else:
            page = [raw for raw in found if isinstance(raw, bytes)]
            take = self._note if each.until < 0 else self._rewrite
            take(each, page)

    def _note(self, each: CompactionPass, page: list[bytes]) -> None:
        """Note the keys of a page."""
        for raw in page:
            header = header_of(raw)
            is_full = len(each.newest) >= self._core.config.compaction.keys_max
            if header.end > each.limit or is_full:
                self._turned(each, each.offset)
                return
            each.newest.note(header, raw)
            each.offset = header.end
        if not page:
            self._turned(each, each.offset)

    def _turned(self, each: CompactionPass, offset: int) -> None:
        """Begin the second phase, or end the pass after it."""
        if each.until < 0:
            each.until, each.offset = offset, each.log.start
        else:
            self._end(each)

    def _end(self, each: CompactionPass) -> None:
        """End a pass; the next one must find on the disk what this one has written."""
        self._pass = None
        self._is_waiting = True
        size = partial(self._disk.read, Size(each.log.name), partial(self._ended, each))
        self._disk.when_durable(size)

    def _ended(self, each: CompactionPass, found: PartitionResult) -> None:
        self._is_waiting = False
        if each.until < 0 or each.offset < each.until:
            return  # The pass ended early.
        if not self._is_valid(each) or isinstance(found, CorruptPartition):
            return
        is_whole = len(each.newest) < self._core.config.compaction.keys_max
        size = sum(part for part in found if isinstance(part, int))
        self._compacted[each.log.name] = Compacted(
            each.log, each.cuts, each.until, size if is_whole else 0, self._core.now,
            each.has_tombstones,
        )  # fmt: skip

    def _rewrite(self, each: CompactionPass, page: list[bytes]) -> None:
        """Replace the batches of a page by smaller ones."""
        log, config = each.log, self._core.config.compaction
        if each.last is not None and each.last.header.end <= first_kept(log):
            each.last = None  # The batch was trimmed.
        is_over = not page
        for raw in page:
            header = header_of(raw)
            if header.end > each.until:
                is_over = True
                break
            each.offset = header.end
            if header.end <= first_kept(log):
                continue
            keeps_header = log.producers.remembers(header, log.high)
            new = rewritten(header, raw, each.newest, each.bounds, keeps_header=keeps_header)
            each.has_tombstones |= bool(new.compacted_us)
            both = joined(each.last, new, config.joined_bytes) if each.last is not None else None
            if both is None:
                self._write(each)
                each.last = new
            else:
                each.last = both
        self._write(each)
        if is_over:
            self._turned(each, each.offset)

    def _write(self, each: CompactionPass) -> None:
        """Write the last batch if it differs from that on the disk."""
        last, log = each.last, each.log
        if last is None or not last.is_changed:
            return
        if last.first_end <= first_kept(log):
            each.last = None  # The first batch that it would replace was trimmed.
            return
        last.is_changed = False
        last.first_end = last.header.end
        self._core.counters["compacted_records"] += last.removed
        last.removed = 0
        self._disk.replace(log, last.sealed(log.place))
