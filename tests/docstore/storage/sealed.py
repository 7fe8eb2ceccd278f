"""Sealed batches for tests: a leader that numbers the records of some partitions."""

from dataclasses import dataclass, field
from pathlib import Path

from docstore.model.streams_batch import BatchHeader, place_of, seal
from docstore.storage.partitions import (
    AppendBatches,
    PartitionRecord,
    SavePartition,
    StreamsRecovered,
)
from docstore.storage.streams_sqlite import SqliteStreamStore
from docstore.streams.records import Record, pack

A, B = "flights/0@01", "flights/1@01"


def begun(*names: str, copy: str = "copy") -> list[SavePartition]:
    """Return the first write of these partitions."""
    return [SavePartition(PartitionRecord(name, copy)) for name in names]


def batch(name: str, base: int, records: int = 1, *, last_us: int = 0, size: int = 10) -> bytes:
    """Return a batch whose records have values of `size` bytes each."""
    body = b"".join(pack(Record(None, b"%d" % n * size)) for n in range(records))
    return seal(place_of(name), BatchHeader(base, records, 1, 0, last_us, "", 0, 0, 0, 0), body)


async def recovered(path: Path) -> StreamsRecovered:
    """Return the result of a start, and close the store."""
    store = SqliteStreamStore(path)
    try:
        return await store.open()
    finally:
        await store.close()


@dataclass
class Leader:
    """A leader that continues after the last batch of a partition, a millisecond later."""

    ends: dict[str, int] = field(default_factory=dict)
    now_us: int = 0

    def append(self, name: str, *records: int, size: int = 10) -> AppendBatches:
        """Return a batch for each number of records."""
        return AppendBatches([(name, self.batch(name, number, size=size)) for number in records])

    def batch(self, name: str, records: int = 1, *, size: int = 10) -> bytes:
        """Return the next batch of a partition."""
        base = self.ends.get(name, 0)
        self.ends[name] = base + records
        self.now_us += 1000
        return batch(name, base, records, last_us=self.now_us, size=size)
