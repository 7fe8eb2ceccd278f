"""State of producers: any later leader recognises the retry of an idempotent producer.

A producer numbers its batches 0, 1, 2, ... for each partition, under an epoch that grows when it is
started anew. All that is known comes from the headers of the log, so it is the same on every
replica and is cut with the log (rule RN2). Source: idempotent receiver; Kafka's producer ids
(KIP-98).
"""

from typing import NamedTuple

import msgpack

from docstore.model.streams_batch import BatchHeader

REMEMBERED = 5
"""Newest batches of a producer that a retry is recognised among, as in Kafka."""


class ProducerEntry(NamedTuple):
    """One batch of a producer."""

    epoch: int
    sequence: int
    base: int
    records: int
    us: int


class Verdict(NamedTuple):
    """Decision about a batch: append it if code is "", else answer so. entry: the original."""

    code: str
    detail: str = ""
    entry: ProducerEntry | None = None


APPEND = Verdict("")


class ProducerState:
    """Producer -> its newest batches, oldest first; those above the high watermark all."""

    def __init__(self) -> None:
        self._entries: dict[str, list[ProducerEntry]] = {}

    def note(self, header: BatchHeader, high: int) -> None:
        """Learn of a batch that has joined the log."""
        if not header.producer:
            return
        entries = self._entries.setdefault(header.producer, [])
        entries.append(
            ProducerEntry(
                header.producer_epoch, header.sequence, header.base, header.records, header.last_us
            )
        )
        # Entries that are not committed may be cut: those before them are the newest then.
        while len(entries) > REMEMBERED and entries[REMEMBERED].base < high:
            del entries[0]

    def cut(self, end: int) -> None:  # Tests replace this.
        """Forget the batches from offset `end` on."""
        for producer, entries in list(self._entries.items()):
            while entries and entries[-1].base >= end:
                entries.pop()
            if not entries:
                del self._entries[producer]

    def judge(self, producer: tuple[str, int, int], records: int, *, expired_us: int) -> Verdict:
        """Decide about a batch of (id, epoch, sequence) with this number of records.

        expired_us: a producer whose last batch is older, by the times of the log, has expired.
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
        expected = last.sequence + 1 if epoch == last.epoch else 0
        if sequence == expected:
            return APPEND
        # A producer that expired may have begun at zero again: compare with its newest batch.
        for entry in reversed(entries):
            if (entry.epoch, entry.sequence) == (epoch, sequence):
                return _again(entry, records)
        if sequence > expected:
            return Verdict("sequence-gap", f"sequence {expected} comes next, not {sequence}")
        return Verdict("stale-sequence", f"sequence {sequence} was appended long ago")

    def pack(self, end: int) -> bytes:
        """Return what is known from the batches below offset `end`."""
        packed: bytes = msgpack.packb(
            {
                producer: [tuple(entry) for entry in below]
                for producer, entries in sorted(self._entries.items())
                if (below := [entry for entry in entries if entry.base < end][-REMEMBERED:])
            }
        )
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> "ProducerState":
        """Return what `pack` returned, b"" for nothing."""
        state = cls()
        if packed:
            for producer, entries in msgpack.unpackb(packed, use_list=False).items():
                state._entries[producer] = [ProducerEntry(*entry) for entry in entries]
        return state

    def expire(self, expired_us: int) -> None:
        """Forget producers that wrote nothing since."""
        for producer, entries in list(self._entries.items()):
            if entries[-1].us < expired_us:
                del self._entries[producer]

    def newest(self) -> dict[str, tuple[ProducerEntry, ...]]:
        """Return what decides about the next batch of each producer."""
        return {name: tuple(each[-REMEMBERED:]) for name, each in self._entries.items()}


def _again(entry: ProducerEntry, records: int) -> Verdict:
    if entry.records != records:
        return Verdict(
            "sequence-gap",
            f"sequence {entry.sequence} was {entry.records} records, and is {records} now",
        )
    return Verdict("repeated", entry=entry)
