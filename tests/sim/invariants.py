"""Invariants that hold after every single step, over all nodes."""

from collections import Counter

from docstore.documents.log import SlotLog
from docstore.documents.parts import span_of
from docstore.documents.term import Phase
from docstore.model.document import Ballot, Row, ballot_at
from docstore.ownership.by_vote import Role
from docstore.storage.store import Rows, Status
from tests.sim.process import EPOCH_US, Process


class Violation(AssertionError):
    """An invariant does not hold."""


class Invariants:
    """Checks the steps of all processes."""

    clocks_err_in_few = True
    """Whether the wall clocks of most nodes are right."""

    def __init__(self) -> None:
        self.checked: Counter[str] = Counter()
        self.decided: dict[int, list[Row]] = {}
        """slot -> the rows that some owner has decided, in order."""
        self._decided_under: dict[int, list[Ballot]] = {}
        self._contents: dict[tuple[int, Ballot, int], bytes] = {}
        self._promised: dict[tuple[str, int], Ballot] = {}
        self._ends: dict[tuple[str, int, int], int] = {}
        self._opened: dict[tuple[int, Ballot], int] = {}
        self._made: dict[tuple[int, Ballot], int] = {}
        self._operations: dict[int, set[bytes]] = {}
        self._versions: dict[str, int] = {}
        self._dead: dict[str, int] = {}
        """Link -> the version of its last tombstone."""
        self._tombstones: dict[int, int] = {}
        """Slot -> the greatest version of any tombstone in it."""
        self._configurations: dict[int, bytes] = {}
        self._leaders: dict[int, str] = {}
        self._used: dict[str, int] = {}
        self._within: set[tuple[int, Ballot, int]] = set()
        """(Slot, ballot, n) of rows that are not the last of their batch."""

    def after_step(self, process: Process) -> None:
        """Check all that a step may have changed."""
        self._check_register(process)
        self._check_past(process)
        core = process.replica.core
        leading = [log.slot for log in core.logs.values() if log.term is not None]
        if [log.slot for log, term in core.logs.terms() if log.term is term] != leading:
            raise Violation(f"{process.name} does not know which slots it tries to own")
        for log in core.logs.values():
            self._check_promise(process, log)
            self._check_contents(process, log)
            self._check_whole(process, log)
            term = log.term
            if term is not None and term.phase is Phase.OPEN:
                self._check_open(process, log)
                self._check_room(process, log)
                self._note_decided(process, log)

    def _check_register(self, process: Process) -> None:
        """I8: one content for each configuration in use; also one leader in a generation."""
        register, used = process.replica.register, process.replica.core.configuration
        if self._configurations.get(used.id) is None:
            self._configurations[used.id] = used.pack()
        elif used.id != self._used.get(process.name):
            self.checked["I8"] += 1
            if self._configurations[used.id] != used.pack():
                raise Violation(f"I8: two contents of configuration {used.id}")
        self._used[process.name] = used.id
        voter = register.stored.voter
        if voter.role is Role.LEADER:
            leader = self._leaders.setdefault(voter.generation, process.name)
            if leader != process.name:
                raise Violation(f"{leader} and {process.name} lead generation {voter.generation}")

    def _check_past(self, process: Process) -> None:
        """I14: a node's `past_us` is past while fewer than a majority's clocks are wrong."""
        core = process.replica.core
        ahead_us = core.past_us() - EPOCH_US - int(core.now * 1e6)
        if self.clocks_err_in_few and ahead_us > 1_000_000:
            raise Violation(f"I14: {process.name} would delete by a time that is not past")

    def _check_promise(self, process: Process, log: SlotLog) -> None:
        """I1: within a life a promise never decreases; over a restart the disk keeps it."""
        key = (process.name, log.slot)
        before = self._promised.get(key)
        same_life = (process.name, log.slot, process.era) in self._ends
        if same_life and before is not None and log.promised < before:
            raise Violation(f"I1: {key} promised {before}, then {log.promised}")
        self._promised[key] = log.promised

    def _check_contents(self, process: Process, log: SlotLog) -> None:
        """I3: one content for (ballot, n), wherever it is."""
        key = (process.name, log.slot, process.era)
        seen = self._ends.setdefault(key, 0)
        if log.end == seen:
            return
        self._ends[key] = log.end
        for n in range(min(seen, log.end) + 1, log.end + 1):
            row = log.pending.get(n)
            if row is None:
                continue
            content = self._contents.setdefault((log.slot, row.ballot, n), row.digest)
            self.checked["I3"] += 1
            if content != row.digest:
                raise Violation(f"I3: two contents for {row.ballot} n={n} of slot {log.slot}")
            if span_of(row)[1] > n:
                self._within.add((log.slot, row.ballot, n))

    def _check_whole(self, process: Process, log: SlotLog) -> None:
        """I13: a log ends between two batches, in memory and on disk, as do `decided` and `kept`.

        A log that is being copied is no evidence, and serves no reads.
        """
        if not self._within:
            return
        self.checked["I13"] += 1
        ends = [(log.ballots, n) for n in (log.end, log.durable, log.decided, log.kept) if log.full]
        disk = process.disk.record(log.slot)
        if disk.status is Status.FULL:
            ends.append((disk.ballots, process.disk.end(log.slot)))
        for ballots, n in ends:
            if (log.slot, ballot_at(ballots, n), n) in self._within:
                raise Violation(f"I13: slot {log.slot} of {process.name} has a part of a batch")

    def _check_open(self, process: Process, log: SlotLog) -> None:
        """I5: a log that is opened holds everything that was decided under smaller ballots.

        One that opens late, when a higher ballot has decided already, cannot decide any more.
        """
        assert log.term is not None
        key = (log.slot, log.term.ballot)
        if key in self._opened:
            return
        self._opened[key] = log.term.base
        mine = self._rows(process, log)
        under = self._decided_under.get(log.slot, [])
        decided = self.decided.get(log.slot, [])
        passed = [row for row in decided if row.n <= log.kept]
        newest = {row.link: row.version for row in passed}
        dead = {row.link: row.version for row in passed if row.deleted}
        for row, ballot in zip(decided, under, strict=True):
            if ballot > log.term.ballot:
                continue
            self.checked["I5"] += 1
            held = mine.get(row.n)
            if held is None and row.n <= log.kept:
                if row.version <= newest[row.link] - max(1, process.versions):
                    self.checked["SL9" if process.versions else "SL7"] += 1
                    continue  # Trimmed, since enough newer versions are decided.
                if row.version <= min(log.floor, dead.get(row.link, -1)):
                    self.checked["D3"] += 1
                    continue  # A tombstone that the floor replaces, or a version before it.
            if held is None or held != row:
                raise Violation(
                    f"I5: {process.name} opened slot {log.slot} under {log.term.ballot}"
                    f" without the decided row {row.n}"
                )

    def _check_room(self, process: Process, log: SlotLog) -> None:
        """Check that an owner makes rows only if it has room, and a quorum may have (O7, O8)."""
        assert log.term is not None
        key, core = (log.slot, log.term.ballot), process.replica.core
        before, self._made[key] = self._made.get(key, log.end), log.end
        if log.end == before:
            return
        if not core.has_room:
            raise Violation(f"O7: {process.name} made a row of slot {log.slot} without room")
        self.checked["O8"] += bool(core.peers.full)
        for voters in log.voting:
            if len(core.peers.full.intersection(voters)) > (len(voters) - 1) // 2:
                raise Violation(f"O8: {process.name} made a row that most disks have no room for")

    def _note_decided(self, process: Process, log: SlotLog) -> None:
        decided = self.decided.setdefault(log.slot, [])
        if log.decided <= len(decided):
            return
        assert log.term is not None
        under = self._decided_under.setdefault(log.slot, [])
        mine = self._rows(process, log)
        for n in range(len(decided) + 1, log.decided + 1):
            row = mine.get(n)
            if row is None:
                raise Violation(f"I12: {process.name} decided row {n}, which it does not hold")
            self._check_row(row)
            decided.append(row)
            under.append(log.term.ballot)

    def _check_row(self, row: Row) -> None:
        """I9: an operation once; I11: versions of a link grow by one."""
        operations = self._operations.setdefault(row.slot, set())
        self.checked["I9"] += 1
        identity = row.operation
        if identity in operations:
            raise Violation(f"I9: an operation twice in slot {row.slot}")
        operations.add(identity)
        before = self._versions.get(row.link, -1)
        # After a tombstone that was trimmed, versions continue from the floor of the slot.
        floor = (
            self._tombstones.get(row.slot, -1)
            if before in (-1, self._dead.get(row.link))
            else before
        )
        self.checked["I11"] += 1
        if not before < row.version <= max(before, floor) + 1:
            raise Violation(f"I11: {row.link} goes from {before} to {row.version}")
        self._versions[row.link] = row.version
        if row.deleted:
            self._dead[row.link] = row.version
            self._tombstones[row.slot] = max(row.version, self._tombstones.get(row.slot, -1))

    def _rows(self, process: Process, log: SlotLog) -> dict[int, Row]:
        """Return the log as memory and disk have it."""
        stored = process.disk.answer(Rows(log.slot, 1, log.durable, 1 << 30))
        rows = {row.n: row for row in stored} if isinstance(stored, list) else {}
        return rows | log.pending
