"""Removal of one rule of the journal at a time, from outside: a test must notice each.

    python -m tests.disk.journal_ablations [--seeds 40] [NAME ...]

prints for each the first seed, from 0, whose run under cuts of power or failing calls notices. The
tests of rules without such a run are in `tests/docstore/storage/test_journal_rules.py`.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from hashlib import blake2b

from docstore.errors import DiskFull
from docstore.reads.scans.scanner import Scans
from docstore.storage import journal, journal_line, tables, writing
from docstore.storage.backlog import Backlog, Batch
from docstore.storage.journal import Header, Position
from docstore.storage.journal_line import JournalLine
from docstore.storage.journalling import Journalling
from docstore.storage.overlay import Overlay
from docstore.storage.ring import Entry, Ring
from docstore.storage.store import SlotRecord, Then, Write
from docstore.storage.transactions import transaction
from docstore.storage.writing import Writer
from tests.disk.failures import no_room
from tests.disk.files import DiskOfFiles
from tests.disk.journalled import Journalled, cut_at_random, fail_at, watched
from tests.disk.laps import cut_laps_at_random
from tests.disk.power import Outcome
from tests.disk.starts import boots_told, cut_in_a_start
from tests.sim.taken_away import Ablation, changed

World = Callable[[int], Sequence[object]]
"""Returns the problems of the run of a seed."""


# --- worlds -----------------------------------------------------------------------------------


def _wrong(outcome: Outcome) -> list[str]:
    return outcome.lost + outcome.odd


def _laps(seed: int) -> list[str]:
    return _wrong(cut_laps_at_random(seed, 300))


def _power(seed: int) -> list[str]:
    return _wrong(cut_at_random(seed, 100))


def _power_while_read(seed: int) -> list[str]:
    return _wrong(cut_at_random(seed, 100, watched))


def _power_in_a_start(seed: int) -> list[str]:
    return _wrong(cut_in_a_start(seed))


def _room(seed: int) -> list[str]:
    calls = fail_at(seed, 1 << 60, no_room).calls
    played = (fail_at(seed, nth, no_room) for nth in range(1, calls + 1, 3))
    return [problem for each in played for problem in each.problems]


def _numbers_of_starts(seed: int) -> list[int]:
    told = boots_told(seed)
    return [] if told == sorted(set(told)) else told


# --- replacements of rules --------------------------------------------------------------------


def _told_before_synced(self: DiskOfFiles, name: str, offset: int, parts: Sequence[bytes]) -> None:
    self.disk.files["journal/" + name].write(offset, b"".join(parts))
    self._before("write")


def _created_without_a_name(self: DiskOfFiles, name: str, size: int) -> None:
    _create(self, name, size)
    self.disk.files["journal/" + name].is_named = False


def _not_synced_at_a_start(self: DiskOfFiles) -> None:
    """Trust the writes that a killed process has left."""


def _any_body(self: Header, body: bytes) -> bool:
    return True


def _next_by_number(position: Position, header: Header) -> bool:
    return header.number == position.number + 1


def _stamp_without_key(key: bytes, head: bytes) -> bytes:
    return blake2b(head, digest_size=len(journal.START.stamp)).digest()


def _any_end(end: Position, newest: int) -> None:
    """Treat damage in the middle as a torn entry."""


def _over_once_followed(self: Ring, name: str) -> bool:
    return self._newest[name] < max(1, self.end.number)


def _flushed_once_followed(self: Backlog, batch: Batch, now: float) -> None:
    _followed(self, batch, now)
    self._flushed(now)


def _place_beside_the_rows(
    self: Writer, writes: Sequence[Write], to: JournalLine, *, durably: bool, boot: int = 0
) -> None:
    self.commit(writes)
    with transaction(self._connection):
        journal_line.write(self._connection, to)


def _flushed_by_copying_back(
    self: Writer, writes: Sequence[Write], to: JournalLine, *, durably: bool, boot: int = 0
) -> None:
    _follow(self, writes, to, durably=False, boot=boot)
    if durably:
        self.copy_back("PASSIVE")


def _first_record(records: dict[int, tuple[object, ...]], record: SlotRecord) -> None:
    if record.slot not in records:
        _take(records, record)


def _opened_without_boots(
    self: Ring, followed: Position, *, may_be_missing: bool = False
) -> list[Entry]:
    lacking = _open(self, followed, may_be_missing=may_be_missing)
    self.boot = 0
    return lacking


def _opened_without_a_journal(
    self: Ring, followed: Position, *, may_be_missing: bool = False
) -> list[Entry]:
    return _open(self, followed, may_be_missing=True)


def _no_mark(self: Backlog) -> None:
    return None


def _in_the_overlay_when_begun(
    self: Journalling, entry: Entry, writes: Sequence[Write], then: Then | None
) -> None:
    self.overlay.add(entry.header.number, writes)
    _hand_over(self, entry, writes, then)


def _added_once(self: Overlay, number: int, writes: Sequence[Write]) -> None:
    if number > self.last:
        _add(self, number, writes)


def _run_or_forget(self: Journalled, batch: Batch) -> None:
    with suppress(DiskFull):  # Right only for batches that are in no journal.
        _run(self, batch)


async def _apply_or_forget(self: Journalling, batch: Batch) -> None:
    with suppress(DiskFull):
        await self._jobs.apply(batch)
    self.backlog.followed(batch, self._loop.time())
    self._waits.resolve(self.overlay.followed)


def _say_nothing(self: Journalling, error: BaseException, *, is_told: bool = False) -> None:
    """Log it, and go on."""


async def _all_in_file(self: Scans, scan: object) -> list[int]:
    return []


_create, _run = DiskOfFiles.create, Journalled._run
_open, _followed, _follow = Ring.open, Backlog.followed, Writer.follow
_take, _hand_over, _add = writing._take, Journalling._hand_over, Overlay.add
_SETS_ANYTHING = ", written=(journal.written + 1)"

ABLATIONS: dict[str, Ablation] = {
    "told-before-synced": Ablation(
        "a commit is acknowledged once its entry is synced",
        [(DiskOfFiles, "write", _told_before_synced)], _laps,
    ),
    "names-not-synced": Ablation(
        "a file of the journal is used once its name is durable",
        [(DiskOfFiles, "create", _created_without_a_name)], _laps,
    ),
    "a-start-syncs-nothing": Ablation(
        "a start syncs what it finds before it builds on it",
        [(DiskOfFiles, "sync", _not_synced_at_a_start)], _laps,
    ),
    "bodies-not-checked": Ablation(
        "an entry counts if its body is whole", [(Header, "is_whole", _any_body)], _laps
    ),
    "of-any-past": Ablation(
        "an entry names the one before it", [(journal, "_is_next", _next_by_number)]
    ),
    "stamps-without-a-key": Ablation(
        "no document is read as an entry", [(journal, "_stamp", _stamp_without_key)]
    ),
    "place-beside-the-rows": Ablation(
        "rows and the place in the journal are one transaction",
        [(Writer, "follow", _place_beside_the_rows)], _power,
    ),
    "ring-over-once-followed": Ablation(
        "a file is used again once the tables have it durably",
        [(Ring, "_is_over", _over_once_followed)], _laps,
    ),
    "flushed-once-followed": Ablation(
        "a transaction releases the journal once it was synced",
        [(Backlog, "followed", _flushed_once_followed)], _power,
    ),
    "flushes-not-synced": Ablation(
        "a flush is synced by itself", [(writing, "FLUSHING", "NORMAL")], _power
    ),
    "flushes-that-change-nothing": Ablation(
        "a flush is written, whatever has changed",
        [(journal_line, "_UPDATE", tables.UPDATE_JOURNAL.removesuffix(_SETS_ANYTHING))],
        _power_in_a_start,
    ),
    "flushed-by-copying-back": Ablation(
        "a log that was copied back makes no transaction durable",
        [(Writer, "follow", _flushed_by_copying_back)], _power_while_read,
    ),
    "tables-never-synced": Ablation(
        "the log is synced before it is copied back", [(writing, "FOLLOWING", "OFF")], _power
    ),
    "a-hole-is-a-tail": Ablation(
        "a broken entry before a whole one is damage", [(journal, "_insist_on_a_tail", _any_end)]
    ),
    "no-mark": Ablation(
        "the last entry gets a successor", [(Backlog, "mark", _no_mark)]
    ),
    "in-the-overlay-when-begun": Ablation(
        "writes that are not durable are not read",
        [(Journalling, "_hand_over", _in_the_overlay_when_begun), (Overlay, "add", _added_once)],
    ),
    "forgotten-for-want-of-room": Ablation(
        "acknowledged batches go into the tables, with or without room",
        [(Journalled, "_run", _run_or_forget)], _room,
    ),
    "forgotten-by-the-shell": Ablation(
        "the same, by the shell", [(Journalling, "_apply", _apply_or_forget)]
    ),
    "failures-only-logged": Ablation(
        "tables that fail end the node", [(Journalling, "_break", _say_nothing)]
    ),
    "starts-not-counted-by-the-journal": Ablation(
        "no two starts have the same number",
        [(Ring, "open", _opened_without_boots)], _numbers_of_starts,
    ),
    "a-missing-journal-is-none": Ablation(
        "only tables that were closed in order need no journal",
        [(Ring, "open", _opened_without_a_journal)],
    ),
    "scans-that-do-not-wait": Ablation(
        "a scan waits for the file", [(Scans, "_not_in_file", _all_in_file)]
    ),
    "first-record-of-a-slot": Ablation(
        "of the records of a slot the last one counts",
        [(writing, "_take", _first_record)], _power,
    ),
}  # fmt: skip


def ablated(name: str) -> AbstractContextManager[None]:
    """Run the body without a rule."""
    return changed(ABLATIONS[name])


def noticed_by(name: str, seeds: int) -> int | None:
    """Return the first seed that notices the lack of a rule."""
    world = ABLATIONS[name].aim
    with ablated(name):
        return next((seed for seed in range(seeds) if world is not None and world(seed)), None)


def main() -> None:
    """Print the first seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.disk.journal_ablations")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("names", nargs="*", choices=[[], *ABLATIONS])
    options = parser.parse_args()
    for name in options.names or ABLATIONS:
        if ABLATIONS[name].aim is not None:
            print(name, noticed_by(name, options.seeds), flush=True)


if __name__ == "__main__":
    main()
