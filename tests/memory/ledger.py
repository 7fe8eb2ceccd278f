"""Rows in memory: the whole contract of storage without a disk.

`MemoryStore` wraps one ledger. A simulation keeps one ledger of the writes to a virtual disk and
another of the durable ones, so `copy` must be cheap: copies share the logs of their slots until one
of them writes to a slot.

The module is pure: no clock, no I/O. A write against the rules (a hole, a version that goes back)
is a bug of this program and fails an assertion. The ledger must not be used after that.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter

from docstore.model.agenda import has_agenda
from docstore.model.document import Row
from docstore.storage.answers import digest_hex, is_child, link_digest, within_bytes
from docstore.storage.store import (
    After,
    Append,
    AsOf,
    Base,
    Bounds,
    Erase,
    Expired,
    History,
    LastBefore,
    Newest,
    NewestOfMany,
    Purge,
    Query,
    Recovered,
    Rows,
    SaveConfiguration,
    SaveSlot,
    SlotRecord,
    SlotRecovered,
    Tombstones,
    Trim,
    Truncate,
    Version,
    Write,
)
from tests.memory.branch_store import BranchStore, expired

_n = attrgetter("n")
_version = attrgetter("version")
_updated_us = attrgetter("updated_us")


class _SlotLog:
    """The rows start + 1, start + 2, ... of one slot, and the rows of each link in order.

    base: the rows up to `start` that are left, in order of n, with holes.
    """

    __slots__ = ("base", "links", "rows", "start")

    def __init__(self) -> None:
        self.start = 0
        self.base: list[Row] = []
        self.rows: list[Row] = []
        self.links: dict[str, list[Row]] = {}

    def copy(self) -> "_SlotLog":
        log = _SlotLog()
        log.start = self.start
        log.base = self.base.copy()
        log.rows = self.rows.copy()
        log.links = {link: rows.copy() for link, rows in self.links.items()}
        return log


_EMPTY = _SlotLog()


class Ledger:
    """Records, rows and configuration of one disk."""

    __slots__ = ("_branches", "_logs", "_own", "_records", "configuration")

    def __init__(self) -> None:
        self.configuration: bytes | None = None
        self._records: dict[int, SlotRecord] = {}
        self._logs: dict[int, _SlotLog] = {}
        self._own: set[int] = set()  # Slots whose log no copy of this ledger shares.
        self._branches = BranchStore()

    def copy(self) -> "Ledger":
        """Return an equal ledger that changes independently of this one."""
        ledger = Ledger()
        ledger.configuration = self.configuration
        ledger._records = self._records.copy()
        ledger._logs = self._logs.copy()
        ledger._branches = self._branches.copy()
        self._own.clear()
        return ledger

    # Writing

    def apply(self, writes: Sequence[Write]) -> None:
        """Apply `writes` in order."""
        for write in writes:
            match write:
                case Append(rows):
                    self._append(rows)
                case Purge():
                    self._purge(write)
                case SaveSlot(record):
                    self._records[record.slot] = record
                case Truncate(slot, end):
                    self._cut(slot, end)
                case Erase(slot):
                    self._logs.pop(slot, None)
                    self._own.discard(slot)
                case Base(rows):
                    self._found(rows)
                case Trim():
                    self._trim(write)
                case SaveConfiguration(configuration):
                    self.configuration = configuration
                case _:
                    self._branches.apply(write)

    def _append(self, rows: Sequence[Row]) -> None:
        slot, log, end = -1, _EMPTY, 0
        for row in rows:
            if row.slot != slot:
                slot = row.slot
                log = self._log_to_write(slot)
                if not log.rows:
                    # The record with the new `kept` may come later in the same batch.
                    log.start = row.n - 1
                    assert not log.base or log.base[-1].n <= log.start
                end = log.start + len(log.rows)
            end += 1
            assert row.n == end, f"slot {slot}: row {row.n} where {end} is next"
            log.rows.append(row)
            known = log.links.get(row.link)
            if known is None:
                log.links[row.link] = [row]
            else:
                assert row.version > known[-1].version, f"{row.link}: version goes back"
                known.append(row)

    def _found(self, rows: Sequence[Row]) -> None:
        for row in rows:
            log = self._log_to_write(row.slot)
            assert not log.rows, "a base must come before all other rows"
            assert not log.base or row.n > log.base[-1].n
            log.base.append(row)
            log.links.setdefault(row.link, []).append(row)

    def _purge(self, purge: Purge) -> None:
        log = self._log_to_write(purge.slot)
        for link, version in purge.tombstones:
            known = log.links.get(link, [])
            gone = {row.n for row in known if row.version <= version}
            log.base = [row for row in log.base if row.n not in gone]
            log.links[link] = [row for row in known if row.n not in gone]
            if not log.links[link]:
                del log.links[link]

    def _trim(self, trim: Trim) -> None:
        log = self._log_to_write(trim.slot)
        count = max(0, trim.kept - log.start)
        passed, log.rows = log.rows[:count], log.rows[count:]
        log.start = max(log.start, trim.kept)
        gone = set()
        for link in {row.link for row in passed if row.n > trim.after}:
            known = log.links[link]
            newest = max(row.version for row in known if row.n <= trim.kept)
            last_to_go = newest - trim.staying(link)
            gone |= {row.n for row in known if row.n <= trim.kept and row.version <= last_to_go}
            log.links[link] = [row for row in known if row.n not in gone]
        log.base = [row for row in (*log.base, *passed) if row.n not in gone]

    def _cut(self, slot: int, end: int) -> None:
        if self.end(slot) <= end:
            return
        log = self._log_to_write(slot)
        while log.rows and log.rows[-1].n > end:
            link = log.rows.pop().link
            known = log.links[link]
            known.pop()
            if not known:
                del log.links[link]

    def _log_to_write(self, slot: int) -> _SlotLog:
        """Return the log of `slot` for a write, copied first if another ledger shares it."""
        if slot not in self._own:
            shared = self._logs.get(slot)
            self._logs[slot] = _SlotLog() if shared is None else shared.copy()
            self._own.add(slot)
        return self._logs[slot]

    # Reading

    def answer(self, query: Query) -> list[Row]:
        log = self._logs.get(query.slot, _EMPTY)
        match query:
            case Newest(_, link, until):
                rows = log.links.get(link, ())
                if rows and rows[-1].n <= until:
                    return [rows[-1]]
                index = bisect_right(rows, until, key=_n)
                return [rows[index - 1]] if index else []
            case NewestOfMany(asked):
                return [row for each in asked for row in self.answer(Newest(*each))]
            case Version(_, link, version, until):
                rows = log.links.get(link, ())
                index = bisect_left(rows, version, key=_version)
                found = rows[index : index + 1]
                return [row for row in found if row.version == version and row.n <= until]
            case AsOf(_, link, at_us, until):
                rows = log.links.get(link, ())
                index = bisect_right(rows, at_us, key=_updated_us)
                index = min(index, bisect_right(rows, until, key=_n))
                return [rows[index - 1]] if index else []
            case History(_, link, before, limit, until, bytes_max):
                rows = log.links.get(link, ())
                index = bisect_right(rows, until, key=_n)
                if before is not None:
                    index = min(index, bisect_left(rows, before, key=_version))
                newest_first = rows[max(0, index - limit) : index][::-1]
                return within_bytes(newest_first, bytes_max)
            case Rows(_, first, last, bytes_max):
                return within_bytes(_stretch(log, first, last), bytes_max)
            case After(_, after, until, limit, bytes_max):
                return within_bytes(_stretch(log, after + 1, until)[:limit], bytes_max)
            case LastBefore(_, before_us, until):
                index = bisect_left(log.rows, before_us, key=_updated_us)
                index = min(index, bisect_right(log.rows, until, key=_n))
                return [log.rows[index - 1]] if index else []
            case Tombstones(_, until, before_us, limit):
                newest = (rows[-1] for rows in log.links.values())
                dead = (row for row in newest if row.deleted and row.n <= until)
                old = [row for row in dead if row.updated_us < before_us]
                return sorted(old, key=_n)[:limit]
            case Expired(level=3):
                newest = (rows[-1] for log in self._logs.values() for rows in log.links.values())
                return expired((row for row in newest if not row.deleted), query)
            case _:
                return self._branches.answer(query)

    def end(self, slot: int) -> int:
        """Return the n of the last row of `slot`; `kept` when there is none."""
        log = self._logs.get(slot, _EMPTY)
        if log.rows:
            return log.start + len(log.rows)
        return max(self.kept(slot), log.base[-1].n if log.base else 0)

    def kept(self, slot: int) -> int:
        """Return the row up to which the log of `slot` has holes, from the slot's record."""
        return self.record(slot).kept

    def record(self, slot: int) -> SlotRecord:
        return self._records.get(slot) or SlotRecord(slot)

    def recovered(self, store_id: str, boot: int) -> Recovered:
        """Return the content that a node finds when it starts on this disk as `boot`."""
        slots = {}
        for slot in sorted(self._records.keys() | self._logs.keys()):
            rows = self._logs.get(slot, _EMPTY).rows
            record = self._records.get(slot)
            if record is None and not rows:
                continue
            last = (rows or self._logs.get(slot, _EMPTY).base)[-1:]
            updated_us = last[0].updated_us if last else 0
            slots[slot] = SlotRecovered(record or SlotRecord(slot), self.end(slot), updated_us)
        branches = self._branches
        return Recovered(
            store_id, boot, self.configuration, slots,
            branches.arrived, branches.in_conflict(), dict(branches.cursors),
        )  # fmt: skip

    def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """Return up to `limit` (slot, link, version) of live children of `prefix`, by link."""
        found = [row for row in self._children(prefix, until, level) if row.link > after]
        found.sort(key=lambda row: (row.link, row.slot))
        return [(row.slot, row.link, row.version) for row in found[:limit]]

    def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Return slot -> number of live direct children of `prefix`."""
        return dict(Counter(row.slot for row in self._children(prefix, until, level)))

    def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """Return the newest rows of live documents at any depth below `prefix`, by link."""
        newest = [
            rows[-1]
            for slot in slots
            for link, rows in self._logs.get(slot, _EMPTY).links.items()
            if link.startswith(prefix) and link != prefix
        ]
        newest.sort(key=lambda row: (row.link, row.slot))
        return [row for row in newest if not row.deleted]

    def with_agenda(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """Return the newest rows of links below `prefix` that have an agenda, by slot and link."""
        newest = [
            rows[-1]
            for slot in slots
            for link, rows in self._logs.get(slot, _EMPTY).links.items()
            if link.startswith(prefix) and link != prefix and has_agenda(rows[-1])
        ]
        return sorted(newest, key=lambda row: (row.slot, row.link))

    def _children(self, prefix: str, until: Bounds, level: int) -> Iterator[Row]:
        if level < 3:
            for row in self._branches.winners():
                if row.slot in until and not row.deleted and is_child(row.link, prefix):
                    yield row
            return
        for slot, bound in until.items():
            for link, rows in self._logs.get(slot, _EMPTY).links.items():
                before = bisect_right(rows, bound, key=_n)
                if before and not rows[before - 1].deleted and is_child(link, prefix):
                    yield rows[before - 1]

    def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return slot -> (end, number of links, digest in hex)."""
        return {slot: (self.end(slot), *self._digest(slot)) for slot in slots}

    def _digest(self, slot: int) -> tuple[int, str]:
        links = self._logs.get(slot, _EMPTY).links
        newest = [rows[-1] for rows in links.values() if not rows[-1].deleted]
        total = sum(link_digest(row.link, row.version, row.digest) for row in newest)
        return len(newest), digest_hex(total)


def _stretch(log: _SlotLog, first: int, last: int) -> list[Row]:
    """Return the rows first..last of a log, including rows of its base."""
    start = max(0, first - log.start - 1)
    stop = max(start, last - log.start)
    base = log.base[bisect_left(log.base, first, key=_n) : bisect_right(log.base, last, key=_n)]
    return [*base, *log.rows[start:stop]]
