"""Compaction: replicas remove superseded old versions and old tombstones (SL7, SL9, D3).

`kept` is the row up to which a log is compacted. With a retention set, it rises over the decided
rows that are older than the retention. Without one, it rises only when an operator asks for it, up
to an instant. Above `kept` the log has no holes. A row up to `kept` is removed if another row up to
`kept` supersedes it, so every snapshot at a cut from `kept` on can still be read.

Limits of `kept` and of the removal:

- A named snapshot keeps `kept` at or below its cut.
- If a factory counts versions, each of its documents keeps that many, whatever their age (SL9). A
  replica removes nothing while it does not know which factories count.
- If an Idempotency-Key may have been used, a request to compact spares the last ten minutes,
  because a retry is answered from the row of the first attempt. The rest follows by itself.
- `kept` lies between two atomic batches (rule A2).
- No replica compacts a row that another replica of the slot lacks. The owner reports the end that
  all have acknowledged, and each replica compacts by itself. So a replica that was away catches up
  by rows; only an empty or damaged one is copied. While a replica is down, its slots keep their
  history: remove the replica, and compaction continues.

A tombstone that is the newest row of its link is removed when all replicas have it and it is older
than the time in which operations are retried. The slot's floor replaces it: an absent link counts
as having had that version, so that version numbers never repeat. The floor needs no row of its own
in the log: all replicas have the tombstone, and a copy carries the floor.

Source: rules SL7 and D3; log compaction by key is Kafka's; the wait for all is our own.
"""

from collections.abc import Mapping, Sequence

from docstore.documents.core import Core
from docstore.documents.keys import KEY_LIFE_US
from docstore.documents.log import SlotLog
from docstore.documents.operations import Operations
from docstore.documents.parts import ended
from docstore.documents.peers import NEVER
from docstore.documents.retention.pins import CLOCKS_APART_S
from docstore.documents.term import Phase, Term
from docstore.model.agenda import agenda_of
from docstore.model.document import Row
from docstore.storage.store import Corrupt, LastBefore, Purge, Result, Tombstones, Trim
from docstore.wire.messages import ReplicatedTo

ROWS_AT_ONCE = 512
"""Maximum number of rows of one compaction step: a few milliseconds of disk time."""

SLOTS_ASKED_FOR = 16
"""Slots per tick when an operator waits for the round: 1,024 in a little more than 3 s."""

NEEDS_KNOWN_S = 60.0
"""Seconds after which pins are too old to compact by; a tenth of the shortest retention."""


class Trimmer:
    """Visits the slots in rounds, one per tick, or faster when an operator asks for it."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.outbox = core.outbox
        self._queue: list[int] = []
        self._round_at = NEVER
        self._asked = self._owes = False
        """Whether a round was asked for, and whether keys kept versions from being compacted."""
        self.asked_us = 0
        """Versions superseded before this instant are compacted as well."""

    @property
    def slots_left(self) -> int:
        """Return the number of slots that the requested round has not visited yet."""
        return len(self._queue) if self._asked else 0

    def ask(self, before_us: int) -> None:
        """Begin a round at once that compacts versions superseded before an instant."""
        self.asked_us = max(self.asked_us, before_us)
        # After the rest of the present round, so that repeated requests cannot keep it from ending.
        again = set(self.core.logs) - set(self._queue)
        self._asked, self._queue = True, sorted(again, reverse=True) + self._queue

    def tick(self) -> None:
        if not self.knows_what_is_needed():
            return
        if not self._queue:
            self._asked = False
            config = self.core.config
            recent = self.core.now - self._round_at < config.retention.trim_interval_s
            if recent or (config.retention.history_s <= 0 and not self._owes):
                return
            self._round_at, self._owes = self.core.now, False
            self._queue = sorted(self.core.logs, reverse=True)
        for _ in range(SLOTS_ASKED_FOR if self._asked else 1):
            log = self.core.logs.get(self._queue.pop()) if self._queue else None
            if log is not None and log.full:
                self._visit(log)

    def _visit(self, log: SlotLog) -> None:
        if log.term is not None and log.term.phase is Phase.OPEN:
            self._tell(log, log.term)
        if self._until(log) > log.kept:
            self._look(log)
        if log.kept:
            self._bury(log)

    def knows_what_is_needed(self) -> bool:  # Tests replace this.
        """Say whether the pins are recent enough to compact by.

        The pins were read less than the retention ago, so a version within the retention cannot
        have been pinned unseen. A requested instant may be younger. Then compaction waits until the
        pins were read after it, by any two clocks.
        """
        pins = self.core.pins
        if pins is None:
            return True
        age_s = self.core.now - pins.known_at
        if age_s >= NEEDS_KNOWN_S:
            return False
        known_us = self.core.past_us() - int((age_s + CLOCKS_APART_S) * 1e6)
        return not self._asked or self.asked_us <= known_us

    def _before_us(self, log: SlotLog) -> int:
        """Return the instant before which a version must be superseded to be compacted."""
        now_us, kept_s = self.core.past_us(), self.core.config.retention.history_s
        old_us = now_us - int(kept_s * 1e6) if kept_s > 0 else 0
        spared_us = now_us - KEY_LIFE_US
        if self.asked_us > spared_us and log.operations.may_have_keys(log.kept, now_us):
            self._owes = True
            return max(old_us, spared_us)
        return max(old_us, self.asked_us)

    # Rows that all replicas hold

    def _tell(self, log: SlotLog, term: Term) -> None:
        """Compute, as the owner, up to where all replicas hold the log, and tell them."""
        log.passed = max(log.passed, self.held_by_all(log, term))
        message = ReplicatedTo([(log.slot, term.ballot[0], log.passed)])
        for peer in term.followers:
            self.outbox.send(peer, message)

    def held_by_all(self, log: SlotLog, term: Term) -> int:  # Tests replace this.
        """Return the last row that is decided and on the disk of every replica, 0 for none."""
        if not all(follower.adopted for follower in term.followers.values()):
            return 0
        acked = (follower.acked for follower in term.followers.values())
        return min(log.decided, log.durable, *acked)

    def passed(self, sender: str, message: ReplicatedTo) -> None:
        """Learn from the owner up to where all replicas hold a log."""
        for slot, epoch, n in message.slots:
            log = self.core.logs.get(slot)
            if log is not None and log.adopted == (epoch, sender):
                log.passed = max(log.passed, n)

    # Compaction

    def _until(self, log: SlotLog) -> int:
        """Return the last row up to which a log may be compacted now."""
        pins = self.core.pins
        needed = pins.of(log.slot) if pins is not None else log.passed
        return min(log.decided, log.durable, log.passed, needed, log.kept + ROWS_AT_ONCE)

    def _look(self, log: SlotLog) -> None:
        """Query the disk for the last old row, then compact up to it."""
        before_us = self._before_us(log)
        cuts = log.cuts

        def found(result: Result) -> None:
            if isinstance(result, Corrupt):
                self.core.corrupt(log)
                return
            # A copy or a new configuration may have replaced the log during the query.
            same = log.cuts == cuts and self.core.logs.get(log.slot) is log
            if result and same and log.full:
                self._trim(log, min(ended(result[0]), self._until(log)))

        self.outbox.read(LastBefore(log.slot, before_us, self._until(log)), found)

    def counted(self) -> Mapping[str, int]:  # Tests replace this.
        """Return factory -> number of versions that its documents keep (rule SL9)."""
        return self.core.pins.versions if self.core.pins is not None else {}

    def _trim(self, log: SlotLog, kept: int) -> None:
        if kept <= log.kept or self._is_source(log):
            return
        self.core.counters["trimmed"] += kept - log.kept
        self.outbox.store(Trim(log.slot, log.kept, kept, self.counted()))
        log.kept = kept
        self.outbox.save(log)
        self._queue.append(log.slot)  # More rows may be old enough to compact.

    def _bury(self, log: SlotLog) -> None:
        """Look for old tombstones, and replace them by the slot's floor."""
        retried_us = int(self.core.config.retention.tombstones_s * 1e6)
        before_us = min(self._before_us(log), self.core.past_us() - retried_us)
        cuts = log.cuts

        def found(result: Result) -> None:
            if isinstance(result, Corrupt):
                self.core.corrupt(log)
                return
            same = log.cuts == cuts and self.core.logs.get(log.slot) is log
            tombstones = without_effects(result)
            if tombstones and same and log.full and not self._is_source(log):
                self._purge(log, tombstones)

        self.outbox.read(
            Tombstones(log.slot, self.buried_until(log), before_us, ROWS_AT_ONCE), found
        )

    def buried_until(self, log: SlotLog) -> int:  # Tests replace this.
        """Return the row up to which tombstones may go: all replicas have them.

        The last row of a log stays: it tells a replica that is filled from it where the log ends.
        """
        return min(log.kept, log.end - 1)

    def _purge(self, log: SlotLog, tombstones: list[Row]) -> None:
        self.core.counters["purged"] += len(tombstones)
        self.outbox.store(Purge(log.slot, [(row.link, row.version) for row in tombstones]))
        log.floor = self.floor_over(log, tombstones)
        self.outbox.save(log)
        for row in tombstones:
            self._forget_head(log, row)

    def floor_over(self, log: SlotLog, tombstones: list[Row]) -> int:  # Tests replace this.
        """Return the slot's floor: the version that a link without rows counts as having had."""
        return max(log.floor, *(row.version for row in tombstones))

    def _forget_head(self, log: SlotLog, row: Row) -> None:
        """Evict a purged tombstone from the owner's cache, unless a newer row has replaced it."""
        cached = log.term.cache.get(row.link) if log.term else None
        if cached is not None and cached.newest is not None and cached.newest.n == row.n:
            assert log.term is not None
            del log.term.cache[row.link]

    def _is_source(self, log: SlotLog) -> bool:
        """Say whether a replica is being filled from this log: its pages must have one floor."""
        followers = log.term.followers.values() if log.term else ()
        return any(follower.copied is not None for follower in followers)


def without_effects(tombstones: Sequence[Row]) -> list[Row]:
    """Return the tombstones that have no effect left to deliver (rule EF1)."""
    return [row for row in tombstones if not agenda_of(row).effects]


class Forgetter:
    """Expiry of Idempotency-Keys, also in slots without writes.

    Each tick visits one log, so that all 1,024 are visited within a minute, at no noticeable cost.
    Every replica does it by itself, by the time that is certainly past (rule D6): it only forgets
    keys that the owner would not look at any more.
    """

    def __init__(self, core: Core, weaker: Operations) -> None:
        """weaker: the operations of levels 1 and 2, which have no log."""
        self.core = core
        self._weaker = weaker
        self._round: list[int] = []

    def tick(self) -> None:
        now_us = self.core.past_us()
        if not self._round:
            self._weaker.forget_keys(now_us)
            self._round = list(self.core.logs)
        log = self.core.logs.get(self._round.pop()) if self._round else None
        if log is not None:
            log.operations.forget_keys(now_us)
