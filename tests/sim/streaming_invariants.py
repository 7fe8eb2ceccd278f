"""Invariants of streams after every single step, over all nodes (RI1 to RI23)."""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docstore.machines.effects import Persist, Send
from docstore.model.document import Ballot
from docstore.model.streams_batch import COUNTED, SPARSE, BatchHeader, header_of
from docstore.storage.partitions import Batches, ReplaceBatches
from docstore.streams.forms import records_of
from docstore.streams.leading import Leading
from docstore.streams.log import PartitionLog
from docstore.streams.producer_state import REMEMBERED, ProducerEntry
from docstore.streams.replica_set import Copy
from docstore.wire.streams_messages import Acked, Fenced, Promoted
from tests.sim.companion import Streamer
from tests.sim.invariants import Violation
from tests.sim.streaming_books import Book, Books, Committed
from tests.sim.streaming_compaction import check_replaced, held_by, uid_of
from tests.sim.streaming_documents import Documents

WHOLE = 1 << 40
STAMPED_EARLY_S = 0.8
"""Greatest error of an early stamp: half a second, and the age of a reading of a clock."""


@dataclass(slots=True)
class Seen:
    """A log as it was after the previous step."""

    era: int
    copy: str
    promised: Ballot
    start: int
    end: int
    high: int
    cuts: int
    high_before: int
    """High watermark before the last step."""


class StreamInvariants:
    """Checks the steps of all nodes' partitions, and the decided versions of their documents."""

    def __init__(self, streamers: Mapping[str, Streamer]) -> None:
        self.checked: Counter[str] = Counter()
        self.books = Books()
        self.documents = Documents(streamers, self.books, self.checked)
        self.refused: dict[str, str] = {}
        """Value -> why it was refused: it must be in no log."""
        self.retention_s = 0.0
        """Least time that records stay; 0 if it is not set, or if they also go otherwise."""
        self._streamers = streamers
        self._seen: dict[tuple[str, str], Seen] = {}
        self._opened: dict[int, Leading] = {}

    # Steps

    def recovered(self, streamer: Streamer) -> None:
        """RI2: a promise that was sent has survived the restart."""
        for log in streamer.partitions.logs.values():
            told = self.books[log.name].promised.get((streamer.name, log.copy), 0)
            self.checked["RI2"] += 1
            if log.promised[0] < told:
                raise Violation(f"RI2: {streamer.name} sent {told}, and knows {log.promised}")
            self._check_producers(streamer, log)

    def after_step(self, streamer: Streamer, event: Any, effects: Sequence[Any]) -> None:
        """Check all that a step may have changed, and the messages that it sends."""
        for log in streamer.partitions.logs.values():
            self._check_log(streamer, log)
        for name, leading in streamer.partitions.leader.leading.items():
            self._check_leading(streamer, name, leading)
        self._check_following(streamer)
        for effect in effects:
            if type(effect) is Send:
                self._check_said(streamer, effect.to, effect.message)
            elif type(effect) is Persist:
                for write in effect.writes:
                    if isinstance(write, ReplaceBatches):
                        self._check_replaced(streamer, write)

    # One log

    def _check_log(self, streamer: Streamer, log: PartitionLog) -> None:
        key = (streamer.name, log.name)
        seen = self._seen.get(key)
        same = seen is not None and seen.era == streamer.era
        if (
            same
            and seen is not None
            and (seen.end, seen.high, seen.start) == (log.end, log.high, log.start)
            and (seen.cuts, seen.copy, seen.promised) == (log.cuts, log.copy, log.promised)
        ):
            seen.high_before = log.high
            return
        book = self.books[log.name]
        if not 0 <= log.start <= log.high <= log.end or log.durable > log.end:
            where = f"{log.start} {log.high} {log.durable} {log.end}"
            raise Violation(f"RI11: {key} {where}")
        self.checked["RI11"] += 1
        fresh = 0
        if same and seen is not None:
            self._check_change(key, book, seen, log)
            fresh = seen.end if seen.cuts == log.cuts else 0
        elif seen is not None and seen.copy != log.copy:
            book.ended.add((streamer.name, seen.copy))
        self._check_contents(key, book, log, fresh)
        high_before = seen.high if same and seen is not None else log.high
        self._seen[key] = Seen(
            streamer.era, log.copy, log.promised, log.start, log.end, log.high, log.cuts,
            high_before,
        )  # fmt: skip

    def _check_change(
        self, key: tuple[str, str], book: Book, seen: Seen, log: PartitionLog
    ) -> None:
        """RI2, RI7, RI10, RI20: within a life promise, high watermark and start of a copy grow."""
        if log.copy != seen.copy:
            book.ended.add((key[0], seen.copy))
            return
        self.checked["RI2"] += 1
        if log.promised < seen.promised:
            raise Violation(f"RI2: {key} promised {seen.promised}, then {log.promised}")
        self.checked["RI7"] += 1
        if log.cuts != seen.cuts:
            self.checked["RI10"] += 1
        may_lose = book.unclean and book.unclean <= log.promised[0]
        if log.high < seen.high and not may_lose:
            raise Violation(f"RI7, RI10: high of {key} goes from {seen.high} to {log.high}")
        self.checked["RI20"] += log.start != seen.start
        if log.start < seen.start and not may_lose:
            raise Violation(f"RI20: start of {key} goes from {seen.start} to {log.start}")
        if self.retention_s:
            self._check_age(key, book, range(seen.start, min(log.start, len(book.committed))))

    def _check_age(self, key: tuple[str, str], book: Book, trimmed: range) -> None:
        """RI21: records that expire are old enough, up to the error of stamps and ticks."""
        now = self._streamers[key[0]].partitions.core.now
        for offset in trimmed:
            epoch = book.committed[offset].epoch
            age_s = now - book.made_at[epoch, book.contents[epoch, offset][0]]
            self.checked["RI21"] += 1
            if age_s < self.retention_s - STAMPED_EARLY_S:
                raise Violation(f"RI21: record {offset} of {key} has gone after {age_s:.2f} s")

    def _check_contents(
        self, key: tuple[str, str], book: Book, log: PartitionLog, fresh: int
    ) -> None:
        """RI4: one content for (epoch, offset), wherever it is; RI18: the order of a log."""
        later: BatchHeader | None = None
        for header, raw in reversed(log.tail):
            self.checked["RI18"] += 1
            expected = log.end if later is None else later.base
            if header.end != expected:
                raise Violation(f"RI11: {key} has a hole at {header.end}, before {expected}")
            if later is not None and header.last_us > later.last_us:
                raise Violation(f"RI18: {key} goes back in time at {later.base}")
            later = header
            if header.end <= max(fresh, log.start):
                break
            if log.epoch_of(header.base)[0] != header.epoch:
                epoch = log.epoch_of(header.base)
                raise Violation(f"RI18: {key} has {header.epoch} at {header.base}, not {epoch}")
            if header.flags & SPARSE:
                self._check_kept(key, book, header, raw)
            else:
                self._note(key, book, header, raw)

    def _note(self, key: tuple[str, str], book: Book, header: BatchHeader, raw: bytes) -> None:
        crc = zlib.crc32(raw)
        known = book.contents.get((header.epoch, header.base))
        self.checked["RI4"] += 1
        if known is not None and known != (header.base, crc):
            raise Violation(f"RI4: two contents at {header.base} of epoch {header.epoch}, {key}")
        if known is not None:
            return
        for offset in range(header.base, header.end):
            if book.contents.setdefault((header.epoch, offset), (header.base, crc)) != (
                header.base,
                crc,
            ):
                raise Violation(f"RI4: two contents at {offset} of epoch {header.epoch}, {key}")
        book.raw[header.epoch, header.base] = raw
        book.made_at[header.epoch, header.base] = self._streamers[key[0]].partitions.core.now
        for offset, record in records_of(header, raw):
            uid = book.uids[header.epoch, offset] = uid_of(record)
            book.seen.add(uid)
            if uid in self.refused:
                raise Violation(f"RI17: {uid} is in a log, refused as {self.refused[uid]}")

    def _check_kept(
        self, key: tuple[str, str], book: Book, header: BatchHeader, raw: bytes
    ) -> None:
        """RI4: a rewritten batch has only records that were at these offsets before."""
        self.checked["RI4"] += 1
        for offset, record in records_of(header, raw):
            if book.uids.get((header.epoch, offset)) != uid_of(record):
                raise Violation(f"RI4: {key} has another record at {offset} once it is compacted")

    def _check_replaced(self, streamer: Streamer, write: ReplaceBatches) -> None:
        log = streamer.partitions.logs.get(write.name)
        if log is None:
            return
        self.checked["RI23"] += 1
        check_replaced(
            f"{streamer.name} {write.name}",
            self.books[write.name],
            header_of(write.batch),
            write.batch,
            start=log.start,
            limit=min(log.high, log.end - 1),
            old=self.old_before(streamer),
        )

    def old_before(self, streamer: Streamer) -> float:
        """Return the time such that older tombstones may have been removed by now."""
        config = streamer.partitions.core.config.compaction
        return streamer.partitions.core.now - config.tombstone_us / 1e6 + STAMPED_EARLY_S

    def batches(
        self, streamer: Streamer, log: PartitionLog, first: int, until: int
    ) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the batches with records in first..until-1, as disk and memory have them."""
        edge = min(until, log.tail[0][0].base) if log.tail else until
        if first < edge:
            stored = streamer.disk.answer(Batches(log.name, first, edge, WHOLE))
            # A rotten batch counts as intact until a node reads it.
            whole = stored if isinstance(stored, list) else self._as_appended(log, first, edge)
            for raw in whole:
                if isinstance(raw, bytes):
                    yield header_of(raw), raw
        for header, raw in log.tail:
            if header.base < until and header.end > first:
                yield header, raw

    def _as_appended(self, log: PartitionLog, first: int, until: int) -> Iterator[bytes]:
        book, offset = self.books[log.name], first
        while offset < until:
            epoch = log.epoch_of(offset)[0]
            raw = book.raw[epoch, book.contents[epoch, offset][0]]
            offset = header_of(raw).end
            yield raw

    def deleted(self, name: str, start: int) -> None:
        """RI22: note that an answer has said that a partition begins there."""
        book = self.books[name]
        if start > len(book.committed) and not book.unclean:
            raise Violation(f"RI22: {name} begins at {start}, above {len(book.committed)}")
        book.deleted = max(book.deleted, start)

    # A leader

    def _check_leading(self, streamer: Streamer, name: str, leading: Leading) -> None:
        log, book = leading.log, self.books[name]
        if self._opened.get(id(leading)) is not leading:
            self._opened[id(leading)] = leading
            self._check_opened(streamer, book, leading)
        if leading.epoch < book.unclean:
            self._commit_void(streamer, book, leading)
        elif log.high > len(book.committed):
            self._commit(streamer, book, leading)
        document = self.documents.newest(log)
        if leading.is_online and document is not None and document.epoch == leading.epoch:
            self.checked["RI12"] += 1
            missing = set(document.lrs) - leading.required
            if missing:
                raise Violation(f"RI12: {streamer.name} does not count {missing} for {name}")

    def _check_opened(self, streamer: Streamer, book: Book, leading: Leading) -> None:
        """RI1, RI5: one leader an epoch, and it holds all that was committed under smaller ones."""
        log = leading.log
        self.checked["RI1"] += 1
        if book.leaders.setdefault(leading.epoch, streamer.name) != streamer.name:
            raise Violation(f"RI1: two leaders of epoch {leading.epoch} of {log.name}")
        if leading.epoch < book.unclean:
            return  # An unclean election has ended its history.
        self.checked["RI22"] += bool(book.deleted)
        if log.start < book.deleted and not book.unclean:
            raise Violation(
                f"RI22: {streamer.name} leads {log.name} from {log.start}, not {book.deleted}"
            )
        batches = list(self.batches(streamer, log, log.start, log.end))
        held = held_by(book, batches, self.old_before(streamer))
        if book.unclean > book.reckoned:
            self._reckon(streamer, book, leading, held)
            held = held_by(book, batches, self.old_before(streamer))
        self.checked["lost uncommitted"] += book.lost_to(leading.epoch, held)
        for offset in range(log.start, len(book.committed)):
            each = book.committed[offset]
            if each.raised >= leading.epoch:
                continue  # Deposed before it knew that it was elected.
            self.checked["RI5"] += 1
            if held.get(offset) != each.crc:
                raise Violation(
                    f"RI5: {streamer.name} leads {log.name} in epoch {leading.epoch} from"
                    f" {log.start} to {log.end} without the committed record {offset}"
                )
        known = log.producers.newest()
        is_late = bool(book.committed) and book.committed[-1].raised >= leading.epoch
        for producer, (epoch, following) in ({} if is_late else book.sequences).items():
            entries = known.get(producer)
            if entries is None or (entries[-1].epoch, entries[-1].following) < (epoch, following):
                raise Violation(
                    f"RI19: {streamer.name} leads {log.name} and knows of {producer} {entries},"
                    f" not {epoch, following}"
                )
        self._check_producers(streamer, log)

    def _reckon(
        self, streamer: Streamer, book: Book, leading: Leading, held: Mapping[int, int]
    ) -> None:
        """RI10: an unclean election loses what its leader lacks, but nothing that it knew of."""
        self.checked["unclean elections"] += 1
        log, before = leading.log, len(book.committed)
        kept = log.start
        while kept < min(log.end, before) and log.epoch_of(kept)[0] == book.committed[kept].epoch:
            kept += 1
        lost = book.lose(log.start, kept, held)
        self.checked["lost by unclean elections"] += before - len(book.committed)
        # In its first step it may have committed records that no earlier leader had.
        knew = self._seen[streamer.name, log.name].high_before
        if lost < min(knew, before):
            raise Violation(f"RI10: {log.name} has lost {lost}, below {knew}")
        if log.high > len(book.committed):
            # A second unclean election: these were committed before the first one, by its rule.
            self._add_committed(streamer, book, leading)

    def _commit_void(self, streamer: Streamer, book: Book, leading: Leading) -> None:
        """Note the commits of a leader that an unclean election has replaced unnoticed."""
        log = leading.log
        for header, raw in list(self.batches(streamer, log, log.start, log.high)):
            crc = zlib.crc32(raw)
            for offset, record in records_of(header, raw):
                book.note_lost(offset, crc, uid_of(record))

    def _commit(self, streamer: Streamer, book: Book, leading: Leading) -> None:
        """RI15: a committed record never changes."""
        log, first = leading.log, len(book.committed)
        if log.start > first:
            raise Violation(f"RI15: {streamer.name} has trimmed {log.name} beyond {first}")
        self._check_rule(streamer, book, leading)
        self._add_committed(streamer, book, leading)

    def _add_committed(self, streamer: Streamer, book: Book, leading: Leading) -> None:
        """Add the records up to a leader's high watermark to the committed map."""
        log, first = leading.log, len(book.committed)
        for header, raw in list(self.batches(streamer, log, first, log.high)):
            if header.base != len(book.committed):
                raise Violation(f"RI15: {streamer.name} has no record {len(book.committed)}")
            if header.producer:
                self._check_sequence(book, log.name, header)
            crc = zlib.crc32(raw)
            for _, record in records_of(header, raw):
                uid = uid_of(record)
                self.checked["RI15"] += 1
                if uid in book.places:
                    raise Violation(f"RI17: {uid} is at {book.places[uid]} and {header.base}")
                book.places[uid] = len(book.committed)
                book.by_key.setdefault(record.key, []).append(len(book.committed))
                is_tombstone = record.value is None
                book.committed.append(
                    Committed(leading.epoch, header.epoch, crc, uid, record.key, is_tombstone)
                )
        if log.high > len(book.committed):
            raise Violation(f"RI15: {streamer.name} lacks records below {log.high} of {log.name}")

    def _check_sequence(self, book: Book, name: str, header: BatchHeader) -> None:
        """RI6: the batches of a producer one after the other, each once."""
        epoch, expected = book.sequences.get(header.producer, (-1, 0))
        goes_on = header.producer_epoch == epoch and header.sequence == expected
        begins = header.producer_epoch > epoch and header.sequence == 0
        self.checked["RI6"] += 1
        if not goes_on and not begins and not book.unclean:
            now = (header.producer_epoch, header.sequence)
            raise Violation(f"RI6: {header.producer} in {name}: {now}, not {epoch, expected}")
        following = header.sequence + (header.records if header.flags & COUNTED else 1)
        book.sequences[header.producer] = (header.producer_epoch, following)

    def _check_rule(self, streamer: Streamer, book: Book, leading: Leading) -> None:
        """RI8: enough replicas may be elected, and each has all committed records on disk."""
        log = leading.log
        document = self.documents.newest(log, leading.epoch)
        if document is None:
            raise Violation(f"RI8: no document has {streamer.name} as leader of {leading.epoch}")
        if self.documents.is_gone(log):
            return  # Its replicas delete it.
        self.checked["RI8"] += 1
        # A set may shrink before its leader learns of it: the leader still counts the replicas
        # that left, and these are eligible.
        if len({*document.lrs, *document.elr}) < document.min_in_sync:
            raise Violation(f"RI8: {log.name} is committed by {document.lrs} alone")
        self.documents.check_held(log.name, book, document, log.high)

    # Followers and messages

    def _check_following(self, streamer: Streamer) -> None:
        """RI7: a follower that joined a leader has no higher watermark than the leader."""
        logs = streamer.partitions.logs
        for name, following in streamer.partitions.follower.following.items():
            log = logs.get(name)
            leader = self._streamers.get(following.leader)
            if log is None or leader is None or log.joined != following.ballot:
                continue
            if not leader.node.up:
                continue
            leading = leader.partitions.leader.leading.get(name)
            if leading is not None and (leading.epoch, leader.name) == log.joined:
                self.checked["RI7"] += 1
                # After an unclean election a leader determines its watermark anew.
                is_learning = self.books[name].unclean and not leading.knows_high
                if log.high > leading.log.high and not is_learning:
                    raise Violation(f"RI7: {streamer.name} is ahead of the leader of {name}")

    def _check_said(self, streamer: Streamer, to: str, message: Any) -> None:
        """RI2, RI3: promises that were sent bind, and an epoch is acknowledged to one leader."""
        kind = type(message)
        if kind is Fenced:
            for standing in message.partitions:
                book, copy = self.books[standing[0]], (streamer.name, standing[2])
                book.promised[copy] = max(standing[1], book.promised.get(copy, 0))
        elif kind is Acked:
            for name, epoch, data, *_ in message.partitions:
                book = self.books[name]
                self.checked["RI3"] += 1
                if book.acknowledged.setdefault(epoch, to) != to:
                    raise Violation(f"RI3: epoch {epoch} of {name} is acknowledged to two leaders")
                self._check_promise(book, (streamer.name, data), epoch)
        elif kind is Promoted:
            for name, epoch, _ in message.partitions:
                log = streamer.partitions.logs[name]
                self._check_promise(self.books[name], (streamer.name, log.copy), epoch)

    def _check_promise(self, book: Book, copy: Copy, epoch: int) -> None:
        told = book.promised.get(copy, 0)
        if epoch < told:
            raise Violation(f"RI2: {copy} acknowledges epoch {epoch} after {told}")
        book.promised[copy] = epoch

    def _check_producers(self, streamer: Streamer, log: PartitionLog) -> None:
        """RI19: the state of producers is that of the log."""
        found: dict[str, list[ProducerEntry]] = {}
        for each, _ in self.batches(streamer, log, log.start, log.end):
            if each.producer and each.base >= log.start:
                found.setdefault(each.producer, []).append(ProducerEntry.of(each))
        known = {
            producer: kept
            for producer, entries in log.producers.newest().items()
            if (kept := [entry for entry in entries if entry.base >= log.start])
        }
        self.checked["RI19"] += 1
        wanted = {producer: entries[-REMEMBERED:] for producer, entries in found.items()}
        if known != wanted:
            raise Violation(f"RI19: {streamer.name} {log.name}: {known} is not {wanted}")
