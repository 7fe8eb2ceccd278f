"""What is counted of a journal since the start, and where it stands, as `/metrics` tells it."""

from dataclasses import dataclass

from docstore.storage.backlog import Backlog


@dataclass(slots=True)
class JournalMeasures:
    """Counters; docs/metrics.md says what each is."""

    entries: int = 0
    bytes: int = 0
    transactions: int = 0
    straight: int = 0
    write_seconds: float = 0.0
    wait_seconds: float = 0.0

    def told(self, backlog: Backlog, *, is_full: bool) -> dict[str, float]:
        """Return counters and gauges by their names."""
        return {
            "docstore_journal_entries_total": float(self.entries),
            "docstore_journal_bytes_total": float(self.bytes),
            "docstore_journal_transactions_total": float(self.transactions),
            "docstore_journal_straight_total": float(self.straight),
            "docstore_journal_write_seconds_total": self.write_seconds,
            "docstore_journal_wait_seconds_total": self.wait_seconds,
            "docstore_journal_behind_rows": float(backlog.rows),
            "docstore_journal_behind_bytes": float(backlog.bytes),
            "docstore_journal_unflushed_bytes": float(backlog.unflushed_bytes),
            "docstore_journal_full": float(is_full),
        }
