"""One slot on one replica: a log without holes, under a promise.

Memory is ahead of the disk by the rows of the batch that is not written yet; `durable` is the end
of the log on disk. No message reports a row before it is durable: see `outbox.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from docstore.documents.operations import Operations
from docstore.documents.term import Phase, Term
from docstore.model.document import Ballot, Ballots, Row, ballot_added, ballot_at, ballots_until
from docstore.ownership.by_hash import Placement
from docstore.storage.store import SlotRecord, SlotRecovered, Status


@dataclass(slots=True)
class SlotLog:
    slot: int
    replicas: tuple[str, ...]
    """The replicas that count, in order of preference."""
    voting: tuple[tuple[str, ...], ...]
    """The sets of which each must give a majority: one, or two while the group changes."""
    learners: tuple[str, ...]
    """The replicas that are being filled and do not count."""
    promised: Ballot
    adopted: Ballot
    ballots: Ballots
    kept: int
    floor: int
    end: int
    durable: int
    decided: int
    full: bool
    updated_us: int
    operations: Operations
    cuts: int = 0
    """Number of truncations. A result read from the disk before a truncation is void after it."""
    term: Term | None = None
    """This node's term over the slot, while it owns the slot or tries to; else None."""
    pending: dict[int, Row] = field(default_factory=dict)
    """Rows above min(decided, durable), by n."""
    dropped: int = 0
    """Row up to which `pending` has been emptied."""
    copying: Ballot | None = None
    """The ballot whose owner is replacing this log page by page, if one is."""
    passed: int = 0
    """End up to which all replicas of the slot hold its log durably."""
    copied: int = 0
    """During a copy: the n of the last row received."""
    buffered: list[Row] = field(default_factory=list)
    """During a copy: rows received and not handed to the disk yet."""

    @property
    def last_ballot(self) -> Ballot:
        """Return the ballot of the row at `end`; NO_BALLOT when there is none."""
        return ballot_at(self.ballots, self.end)

    @property
    def open_term(self) -> Term | None:
        """Return the term under which this node owns the slot; None if it does not own it (yet)."""
        term = self.term
        return term if term is not None and term.phase is Phase.OPEN else None

    def record(self) -> SlotRecord:
        return SlotRecord(
            slot=self.slot,
            promised=self.promised,
            adopted=self.adopted,
            ballots=self.ballots,
            kept=self.kept,
            floor=self.floor,
            decided=min(self.decided, self.end),
            status=Status.FULL if self.full else Status.FAULTY,
        )

    def extend(self, rows: Sequence[Row]) -> None:
        """Append rows that follow `end`; their terms come with them."""
        assert rows[0].n == self.end + 1
        newest = self.ballots[-1][0] if self.ballots else None
        for row in rows:
            if newest != (row.epoch, row.owner):
                newest = row.ballot
                self.ballots = ballot_added(self.ballots, newest, row.n)
            self.pending[row.n] = row
        self.operations.note(rows)
        last = rows[-1]
        self.end = last.n
        self.updated_us = max(self.updated_us, last.updated_us)

    def settled_at(self, at_us: int) -> int:
        """Close the log up to an instant; return the last row with a time up to it."""
        self.close(at_us)
        for n in range(self.end, self.decided, -1):
            if self.pending[n].updated_us <= at_us:
                return n
        return self.decided

    def close(self, until_us: int) -> None:  # Tests replace this.
        """Close the log up to an instant: all later rows get a later time (rule R5)."""
        self.updated_us = max(self.updated_us, until_us)

    def load_snapshot(self, rows: Sequence[Row]) -> None:
        """Note the snapshot rows of a copy: they lie at or below `kept`, outside the log."""
        self.operations.note(rows)
        self.updated_us = max(self.updated_us, rows[-1].updated_us)

    def cut(self, end: int) -> None:
        """Truncate the log to `end`; no row above is decided (rule P4)."""
        assert end >= self.decided
        self.retract(end)
        self.durable = min(self.durable, end)
        self.cuts += 1

    def retract(self, end: int) -> None:
        """Drop rows above `end` from memory; they were neither stored nor sent."""
        for n in range(end + 1, self.end + 1):
            self.pending.pop(n, None)
        self.end, self.dropped = end, min(self.dropped, end)
        self.ballots = ballots_until(self.ballots, end)
        self.operations.cut(end)

    def place(self, placement: Placement) -> None:
        self.replicas = placement.replicas(self.slot)
        self.voting = placement.voting(self.slot)
        self.learners = placement.learners(self.slot)

    def clear(self, *, kept: int, floor: int) -> None:
        """Empty the log because a copy replaces it."""
        self.pending.clear()
        self.buffered = []
        self.operations = Operations(since=kept + 1)
        self.adopted, self.ballots = (0, ""), ()
        self.kept = self.end = self.durable = self.dropped = kept
        self.decided, self.floor = kept, floor
        self.cuts += 1

    def evict_durable(self) -> None:
        bound = min(self.decided, self.durable)
        if bound > self.dropped:
            for n in range(self.dropped + 1, bound + 1):
                self.pending.pop(n, None)
            self.dropped = bound


def log_from_disk(slot: int, placement: Placement, found: SlotRecovered | None) -> SlotLog:
    """Return a slot as the disk has it.

    A slot without a record was founded with the group and never used: its log is empty, and `full`,
    so it counts. A slot that came to this node later has a record from its first moment (rule D4).
    """
    record = found.record if found else SlotRecord(slot)
    end = found.end if found else 0
    return SlotLog(
        slot=slot,
        replicas=placement.replicas(slot),
        voting=placement.voting(slot),
        learners=placement.learners(slot),
        promised=record.promised,
        adopted=record.adopted,
        ballots=record.ballots,
        kept=record.kept,
        floor=record.floor,
        end=end,
        durable=end,
        dropped=end,
        decided=min(record.decided, end),
        full=record.status is Status.FULL,
        updated_us=found.updated_us if found else 0,
        operations=Operations(since=end + 1, since_us=found.updated_us if found else 0),
    )
