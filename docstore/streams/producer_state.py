"""Producer state, by which any later leader recognises the retry of an idempotent producer.

A producer numbers its batches 0, 1, 2, ... for each partition, under an epoch that grows when the
producer restarts. A client of Kafka numbers its records instead, up to 2^31 - 1 and then again from
0. The state is derived from the headers of the log alone, so it is the same on every replica and is
truncated with the log (rule RN2). Source: idempotent receiver; Kafka's producer ids (KIP-98).
"""

from typing import NamedTuple, Self

import msgpack

from docstore.model.streams_batch import COUNTED, KAFKA, BatchHeader

SEQUENCES = 1 << 31
"""Number of sequences after which a producer of Kafka begins at 0 again."""
REMEMBERED = 5
"""Number of newest batches of a producer among which a retry is recognised, as in Kafka."""


class ProducerEntry(NamedTuple):
    """Entry of one batch of a producer.

    counted: whether its sequence is that of its first record.
    """

    epoch: int
    sequence: int
    base: int
    records: int
    us: int
    counted: bool = False

    @classmethod
    def of(cls, header: BatchHeader) -> Self:
        """Return the entry of a batch."""
        return cls(
            header.producer_epoch, header.sequence, header.base, header.records, header.last_us,
            bool(header.flags & (KAFKA | COUNTED)),
        )  # fmt: skip

    @property
    def following(self) -> int:
        """Return the sequence of the next batch."""
        return (self.sequence + self.records) % SEQUENCES if self.counted else self.sequence + 1

    def is_ahead(self, sequence: int) -> bool:
        """Say whether a sequence is greater than the one that comes next."""
        ahead = sequence - self.following
        return ahead % SEQUENCES < SEQUENCES // 2 if self.counted else ahead > 0


class Verdict(NamedTuple):
    """Decision about a batch: append it, answer with the offset of `entry`, or reject it.

    entry: the original, if the batch is a repetition. code: the reason of a rejection, "" for none.
    """

    code: str
    detail: str = ""
    entry: ProducerEntry | None = None


APPEND = Verdict("")


class ProducerState:
    """Producer -> entries of its newest batches, oldest first, with all that are not committed."""

    def __init__(self) -> None:
        self._entries: dict[str, list[ProducerEntry]] = {}

    def note(self, header: BatchHeader, high: int) -> None:
        """Add a batch that was appended to the log."""
        if not header.producer:
            return
        entries = self._entries.setdefault(header.producer, [])
        entries.append(ProducerEntry.of(header))
        # An uncommitted entry may be truncated, so the newest committed ones are kept below it.
        while len(entries) > REMEMBERED and entries[REMEMBERED].base < high:
            del entries[0]

    def remembers(self, header: BatchHeader, high: int) -> bool:  # Tests replace this.
        """Say whether a batch is among its producer's newest committed ones, or not committed."""
        entries = self._entries.get(header.producer, [])
        committed = sum(entry.base < high for entry in entries)
        newest = entries[max(0, committed - REMEMBERED) :]
        return any(entry.base == header.base for entry in newest)

    def cut(self, end: int) -> None:  # Tests replace this.
        """Drop the entries of batches from offset `end` on."""
        for producer, entries in list(self._entries.items()):
            while entries and entries[-1].base >= end:
                entries.pop()
            if not entries:
                del self._entries[producer]

    def judge(self, producer: tuple[str, int, int], records: int, *, expired_us: int) -> Verdict:
        """Decide about a batch of this number of records.

        producer: (id, epoch, sequence). expired_us: a producer whose last batch is older, by the
        times in the log, has expired.
        """
        name, epoch, sequence = producer
        entries = self._entries.get(name, [])[-REMEMBERED:]
        if not entries or entries[-1].us < expired_us:
            if sequence:
                return Verdict("unknown-producer", f"nothing is known of producer {name!r}")
            return APPEND
        last = entries[-1]
        if epoch < last.epoch:
            return Verdict(
                "producer-fenced", f"a later start of {name!r} writes under epoch {last.epoch}"
            )
        expected = last.following if epoch == last.epoch else 0
        if sequence == expected:
            return APPEND
        # An expired producer may begin at zero again, so the newest batch with a sequence decides.
        for entry in reversed(entries):
            if (entry.epoch, entry.sequence) == (epoch, sequence):
                return _again(entry, records)
        if epoch > last.epoch or last.is_ahead(sequence):
            return Verdict("sequence-gap", f"sequence {expected} comes next, not {sequence}")
        return Verdict("stale-sequence", f"sequence {sequence} was appended long ago")

    def pack(self, end: int) -> bytes:
        """Return the state from batches below offset `end`, as bytes."""
        packed: bytes = msgpack.packb(
            {
                producer: [entry if entry.counted else entry[:-1] for entry in below]
                for producer, entries in sorted(self._entries.items())
                if (below := [entry for entry in entries if entry.base < end][-REMEMBERED:])
            }
        )
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> "ProducerState":
        """Return the state of packed bytes; b"" stands for none."""
        state = cls()
        if packed:
            for producer, entries in msgpack.unpackb(packed, use_list=False).items():
                state._entries[producer] = [ProducerEntry(*entry) for entry in entries]
        return state

    def expire(self, expired_us: int) -> None:
        """Drop the producers whose last batch is older than `expired_us`."""
        for producer, entries in list(self._entries.items()):
            if entries[-1].us < expired_us:
                del self._entries[producer]

    def newest(self) -> dict[str, tuple[ProducerEntry, ...]]:
        """Return the entries of each producer among which a retry is recognised."""
        return {name: tuple(each[-REMEMBERED:]) for name, each in self._entries.items()}


def _again(entry: ProducerEntry, records: int) -> Verdict:
    if entry.records != records:
        return Verdict(
            "sequence-gap",
            f"sequence {entry.sequence} was {entry.records} records, and is {records} now",
        )
    return Verdict("repeated", entry=entry)
