"""Log of one partition at one replica: sealed batches without gaps, and the promised ballot.

Offsets count records from 0, and `end` is the offset after the last record. `document.Ballots`
numbers rows from 1: the record at offset o is row o + 1, so the last record is row `end`. Only this
file converts between the two. The log in memory is longer than that on the disk by the batches not
stored yet; `durable` is the end of the log on the disk.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from docstore.model.document import (
    NO_BALLOT,
    Ballot,
    Ballots,
    ballot_added,
    ballot_at,
    ballots_until,
    common_end,
)
from docstore.model.streams_batch import BatchHeader, place_of
from docstore.storage.partitions import PartitionRecord, PartitionRecovered
from docstore.storage.store import Status
from docstore.streams.log_times import LogTimes
from docstore.streams.producer_state import ProducerState
from docstore.streams.replica_set import ReplicaSet, incarnation_of, link_of
from docstore.wire.streams_messages import LogState


@dataclass(slots=True)
class PartitionLog:
    """The state of one partition at one replica."""

    name: str
    copy: str
    promised: Ballot = NO_BALLOT
    adopted: Ballot = NO_BALLOT
    ballots: Ballots = ()
    start: int = 0
    high: int = 0
    end: int = 0
    durable: int = 0
    full: bool = True
    """Whether the replica vouches for its data; if not, it promises, but its state is no evidence.
    """
    times: LogTimes = field(default_factory=LogTimes)
    producers: ProducerState = field(default_factory=ProducerState)
    saved_high: int = 0
    saved_producers: bytes = b""
    saved_producers_at: int = 0
    batches_since: int = 0
    """Batches since producer state was saved."""
    cuts: int = 0
    """Number of truncations; a disk read that began before the last one is void."""
    tail: deque[tuple[BatchHeader, bytes]] = field(default_factory=deque)
    """Newest batches, without a gap up to `end`, including all that are not durable yet."""
    tail_bytes: int = 0
    tail_accounted: int = 0
    joined: Ballot = NO_BALLOT
    """Ballot whose leader's log this log became a prefix of, since the process started."""
    tag: tuple[int, int] = (0, 0)
    """(documentEpoch, documentVersion) of the known version of the partition's document."""
    replica_set: ReplicaSet | None = None
    link: str = ""
    place: bytes = b""

    def __post_init__(self) -> None:
        """Set the link and the place from the name."""
        self.link, self.place = link_of(self.name), place_of(self.name)

    @property
    def last_ballot(self) -> Ballot:
        """Return the ballot of the last record; NO_BALLOT when there is none."""
        return ballot_at(self.ballots, self.end)

    @property
    def last_us(self) -> int:
        """Return the time of the newest batch."""
        return self.times.last_us

    @property
    def incarnation(self) -> str:  # Tests replace this.
        """Return the incarnation of the topic that the partition belongs to."""
        return incarnation_of(self.name)

    def epoch_of(self, offset: int) -> Ballot:
        """Return the ballot under which the record at an offset was appended."""
        return ballot_at(self.ballots, offset + 1)

    def record(self) -> PartitionRecord:
        """Return the record that the disk keeps beside the batches."""
        self.saved_high = min(self.high, self.end)
        return PartitionRecord(
            name=self.name,
            copy=self.copy,
            promised=self.promised,
            adopted=self.adopted,
            ballots=self.ballots,
            start=self.start,
            high=self.saved_high,
            producers=self.saved_producers,
            producers_at=self.saved_producers_at,
            status=Status.FULL if self.full else Status.FAULTY,
        )

    def standing(self, epoch: int) -> LogState:
        """Return the log's state to report to a leader or controller, once all of it is durable."""
        return LogState(
            self.name, epoch, self.copy, self.full, self.adopted, self.end, self.high, self.start,
            self.ballots,
        )  # fmt: skip

    # Changes of the log

    def open_term(self, ballot: Ballot) -> None:
        """Begin to append under `ballot`."""
        self.ballots = ballot_added(self.ballots, ballot, self.end + 1)

    def extend(self, batches: Sequence[tuple[BatchHeader, bytes]]) -> None:
        """Append batches that follow `end`; the caller updates `ballots`."""
        for header, raw in batches:
            assert header.base == self.end
            self.tail.append((header, raw))
            self.tail_bytes += header.size
            self.producers.note(header, self.high)
            self.end = header.end
            self.times.note(header, raw)
            self.batches_since += 1

    def cut(self, end: int) -> None:
        """Truncate the log to offset `end`."""
        while self.tail and self.tail[-1][0].end > end:
            header, _ = self.tail.pop()
            self.tail_bytes -= header.size
        self.end = end
        self.durable = min(self.durable, end)
        self.high = min(self.high, end)  # Lowers it only after an unclean election.
        self.ballots = ballots_until(self.ballots, end)
        self.producers.cut(end)
        if end < self.saved_producers_at:
            self._save_evicted_producers()
        self.cuts += 1

    def _save_evicted_producers(self) -> None:
        """Keep only the saved state below `start`, as the headers from there on are read again."""
        known = ProducerState.unpack(self.saved_producers)
        known.cut(self.start)
        self.saved_producers, self.saved_producers_at = known.pack(self.start), self.start

    def relearn_producers(self, headers: Sequence[BatchHeader]) -> None:
        """Restore producer state from the saved state, these headers, and later batches in memory.

        There are no batches between the saved state and the first header.
        """
        self.producers = ProducerState.unpack(self.saved_producers)
        newer = [header for header, _ in self.tail if not headers or header.base >= headers[-1].end]
        headers = [*headers, *newer]
        if headers:
            self.producers.cut(headers[0].base)
        for header in headers:
            self.producers.note(header, self.high)
        self.batches_since = len(headers)

    def clear(self, start: int, producers: bytes) -> None:
        """Begin an empty log at offset `start`, with the producer state below it."""
        self.tail.clear()
        self.tail_bytes = 0
        self.ballots, self.adopted = (), NO_BALLOT
        self.start = self.high = self.end = self.durable = start
        self.times = LogTimes()
        self.producers = ProducerState.unpack(producers)
        self.saved_producers, self.saved_producers_at = producers, start
        self.batches_since = 0
        self.cuts += 1

    def trim(self, start: int) -> None:
        """Drop the records below `start`, and the ballots that only those records had.

        The ballot of the record before `start` is kept, to compare it with that of a log that ends
        there.
        """
        self.start = start
        if start > self.saved_producers_at:
            self.snapshot_producers()  # The headers that hold this state are deleted.
        while len(self.ballots) > 1 and self.ballots[1][1] <= start:
            self.ballots = self.ballots[1:]

    def shorten_tail(self, bytes_max: int) -> None:
        """Evict the oldest durable batches from memory until at most `bytes_max` are left."""
        while self.tail_bytes > bytes_max and self.tail and self.tail[0][0].end <= self.durable:
            header, _ = self.tail.popleft()
            self.tail_bytes -= header.size

    def evict(self, until: int) -> None:
        """Evict from memory the batches that begin below an offset; the disk has newer forms."""
        while self.tail and self.tail[0][0].base < until:
            header, _ = self.tail.popleft()
            self.tail_bytes -= header.size

    # Reads of the log

    def from_tail(self, offset: int, until: int, bytes_max: int) -> list[bytes] | None:
        """Return batches with records in offset..until-1, None if they are not all in memory.

        The first batch contains `offset`. One batch is returned even if it is larger than
        `bytes_max`.
        """
        if not self.tail or offset < self.tail[0][0].base:
            return None if offset < self.end else []
        found: list[bytes] = []
        size = 0
        for header, raw in reversed(self.tail):
            if header.end <= offset:
                break
            if header.base < until:
                found.append(raw)
        found.reverse()
        for index, raw in enumerate(found):
            size += len(raw)
            if size > bytes_max and index:
                return found[:index]
        return found

    def snapshot_producers(self) -> None:
        """Pack the producer state of the committed batches, to be saved with the record."""
        self.saved_producers_at = self.high
        self.saved_producers = self.producers.pack(self.high)
        self.batches_since = 0


def common_offset(theirs: LogState, mine: PartitionLog) -> int:
    """Return the offset up to which another replica's log is known to be equal to this one."""
    return common_end(mine.ballots, mine.end, theirs.ballots, theirs.end)


def log_from_disk(found: PartitionRecovered) -> PartitionLog:
    """Return a log as it was found on the disk."""
    record = found.record
    log = PartitionLog(
        name=record.name,
        copy=record.copy,
        promised=record.promised,
        adopted=record.adopted,
        ballots=record.ballots,
        start=record.start,
        high=min(record.high, found.end),
        end=found.end,
        durable=found.end,
        full=record.status is Status.FULL,
        times=LogTimes(found.last_us),
        saved_high=record.high,
        saved_producers=record.producers,
        saved_producers_at=record.producers_at,
    )
    log.relearn_producers(found.headers)
    return log


class PartitionLogs(dict[str, PartitionLog]):
    """Name -> log, of each partition that this node has a replica of.

    Only `replicas.py` adds and removes logs.
    """

    def __init__(self) -> None:
        super().__init__()
        self._at: dict[str, list[PartitionLog]] = {}

    def at(self, link: str) -> list[PartitionLog]:
        """Return the logs of a partition's document, one for each incarnation that is here."""
        return self._at.get(link, [])

    def newest(self, link: str) -> PartitionLog | None:
        """Return the log of the current incarnation: that with the newest document."""
        return max(self.at(link), key=lambda each: each.tag, default=None)

    def holds(self, log: PartitionLog) -> bool:
        """Say whether this log is still here: neither dropped, nor replaced by a new one."""
        return self.get(log.name) is log

    def add(self, log: PartitionLog) -> None:
        """Add a log, also under its document."""
        self[log.name] = log
        self._at[log.link] = [*self.at(log.link), log]

    def remove(self, log: PartitionLog) -> None:
        """Remove a log, also under its document."""
        del self[log.name]
        self._at[log.link] = [each for each in self._at[log.link] if each is not log]
        if not self._at[log.link]:
            del self._at[log.link]
