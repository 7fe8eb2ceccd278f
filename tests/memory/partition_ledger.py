"""Partitions in memory: the contract of `storage/partitions.py` without a disk.

`MemoryStreamStore` wraps one ledger. A simulation keeps one ledger of the writes to a virtual disk
and another of the durable ones, so `copy` must be cheap: copies share the batches of a partition
until one of them writes to it.

The module is pure: no clock, no I/O. A write against the rules (a hole, a truncation inside a
batch, a batch of another partition) is a bug of this program and fails an assertion. The ledger
must not be used after that.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from typing import assert_never

from docstore.model.streams_batch import BatchHeader, header_of, is_of, place_of, verified
from docstore.storage.partitions import (
    AppendBatches,
    At,
    Batches,
    CorruptPartition,
    CutPartition,
    DropPartition,
    ErasePartition,
    Oldest,
    PartitionQuery,
    PartitionRecord,
    PartitionRecovered,
    PartitionResult,
    PartitionWrite,
    ReplaceBatches,
    SavePartition,
    Size,
    StreamsRecovered,
    TrimPartition,
    dropped,
)

_base = attrgetter("base")
_end = attrgetter("end")
_last_us = attrgetter("last_us")


class _PartitionLog:
    """Batches of one partition, and the header of each."""

    __slots__ = ("batches", "headers", "place")

    def __init__(self, place: bytes) -> None:
        self.place = place
        self.headers: list[BatchHeader] = []
        self.batches: list[bytes] = []

    def copy(self) -> "_PartitionLog":
        log = _PartitionLog(self.place)
        log.headers, log.batches = self.headers.copy(), self.batches.copy()
        return log

    def keep(self, first: int, last: int) -> None:
        """Drop all batches except those with index first..last-1; the oldest has index 0."""
        self.headers, self.batches = self.headers[first:last], self.batches[first:last]


class PartitionLedger:
    """Records and batches, as the streams file of one node holds them."""

    __slots__ = ("_logs", "_own", "_records")

    def __init__(self) -> None:
        self._records: dict[str, PartitionRecord] = {}
        self._logs: dict[str, _PartitionLog] = {}
        self._own: set[str] = set()  # Partitions whose log no copy of this ledger shares.

    def copy(self) -> "PartitionLedger":
        """Return an equal ledger that changes independently of this one."""
        ledger = PartitionLedger()
        ledger._records = self._records.copy()
        ledger._logs = self._logs.copy()
        self._own.clear()
        return ledger

    # Writing

    def apply(self, writes: Sequence[PartitionWrite]) -> None:
        """Apply `writes` in order."""
        for write in writes:
            match write:
                case SavePartition(record):
                    self._save(record)
                case AppendBatches(batches):
                    for name, raw in batches:
                        self._append(name, raw)
                case ReplaceBatches(name, raw):
                    self._replace(self._log(name), raw)
                case CutPartition(name, end):
                    log = self._log(name)
                    kept = bisect_left(log.headers, end, key=_base)
                    assert not kept or log.headers[kept - 1].end <= end, (
                        "a truncation inside a batch"
                    )
                    log.keep(0, kept)
                case TrimPartition(name, start, limit):
                    log = self._log(name)
                    below = bisect_right(log.headers, start, key=_end)
                    log.keep(min(below, limit), len(log.headers))
                case ErasePartition(name):
                    self._log(name).keep(0, 0)
                case DropPartition(name, limit):
                    self._drop(name, limit)
                case _:
                    assert_never(write)

    def _save(self, record: PartitionRecord) -> None:
        before = self._records.get(record.name)
        assert record.copy, "a copy has a name"
        assert before is None or before.copy or not self._logs[record.name].headers, (
            "a partition that begins again before it is dropped completely"
        )
        self._records[record.name] = record
        self._logs.setdefault(record.name, _PartitionLog(place_of(record.name)))

    def _append(self, name: str, raw: bytes) -> None:
        assert self._records[name].copy, "a batch for a dropped partition"
        log, header = self._log(name), header_of(raw)
        assert is_of(raw, log.place), "a batch of another partition"
        assert header.records > 0, "an empty batch"
        if log.headers:
            assert header.base == log.headers[-1].end, "a hole in a partition"
            assert header.last_us >= log.headers[-1].last_us, "a batch older than the one before"
        log.headers.append(header)
        log.batches.append(raw)

    def _replace(self, log: _PartitionLog, raw: bytes) -> None:
        header = header_of(raw)
        assert is_of(raw, log.place), "a batch of another partition"
        first, last = (
            bisect_left(log.headers, offset, key=_base) for offset in (header.base, header.end)
        )
        edges = [
            each.base for each in (*log.headers[first : first + 1], *log.headers[last : last + 1])
        ]
        assert edges == [header.base, header.end], "a replacement of a part of a batch"
        log.headers[first:last], log.batches[first:last] = [header], [raw]

    def _drop(self, name: str, limit: int) -> None:
        if name not in self._records:
            return
        log = self._log(name)
        log.keep(limit, len(log.headers))
        if log.headers:
            self._records[name] = dropped(name)
        else:
            del self._records[name], self._logs[name]
            self._own.discard(name)

    def _log(self, name: str) -> _PartitionLog:
        """Return a log that no copy of this ledger shares."""
        if name not in self._own:
            self._logs[name] = self._logs[name].copy()
            self._own.add(name)
        return self._logs[name]

    def rot(self, name: str, offset: int) -> None:
        """Damage the batch that holds `offset`, for simulations of bad disks."""
        log = self._log(name)
        place = bisect_right(log.headers, offset, key=_base) - 1
        raw = bytearray(log.batches[place])
        raw[-1] ^= 1
        log.batches[place] = bytes(raw)

    # Reading

    def answer(self, query: PartitionQuery) -> PartitionResult:
        log = self._logs.get(query.name)
        if log is None:
            return []
        match query:
            case Batches():
                return _batches(log, query)
            case At(_, us):
                first = bisect_left(log.headers, us, key=_last_us)
                return log.headers[first : first + 1]
            case Oldest(_, limit):
                return log.headers[:limit]
            case Size():
                return [sum(header.size for header in log.headers)]
            case _:
                assert_never(query)

    def recovered(self, boot: int, *, is_old: bool = False) -> StreamsRecovered:
        """Return the content that a node finds when it starts on this disk as `boot`."""
        partitions = {name: self._recovered(record) for name, record in self._records.items()}
        return StreamsRecovered(boot, is_old, partitions)

    def _recovered(self, record: PartitionRecord) -> PartitionRecovered:
        headers = self._logs[record.name].headers
        first = bisect_right(headers, record.producers_at, key=_end)
        return PartitionRecovered(
            record,
            end=headers[-1].end if headers else record.start,
            last_us=headers[-1].last_us if headers else 0,
            size=sum(header.size for header in headers),
            headers=tuple(headers[first:]) if record.copy else (),
        )


def _batches(log: _PartitionLog, query: Batches) -> PartitionResult:
    first = bisect_right(log.headers, query.offset, key=_end)
    last = bisect_left(log.headers, query.until, key=_base) if query.offset < query.until else 0
    found: list[bytes] = []
    weight = 0
    for raw in islice(log.batches, first, max(first, last)):
        weight += len(raw)
        if found and weight > query.bytes_max:
            break
        try:
            verified(raw, log.place)
        except ValueError:
            return CorruptPartition(query.name)
        found.append(raw)
    return found
