"""Invariants of partitions' documents: each of their steps, and the replicas that they name."""

from collections import Counter
from collections.abc import Mapping

from docstore.model import json
from docstore.model.document import Row
from docstore.ownership.by_lag import may_follow
from docstore.streams.log import PartitionLog
from docstore.streams.replica_set import ReplicaSet, Resolution, partition_name, replica_set_of
from tests.sim.companion import Streamer
from tests.sim.invariants import Violation
from tests.sim.streaming_books import Book, Books


class Documents:
    """The decided versions of all partitions' documents."""

    def __init__(
        self, streamers: Mapping[str, Streamer], books: Books, checked: Counter[str]
    ) -> None:
        self.versions: dict[str, list[tuple[Row, ReplicaSet | None]]] = {}
        """Link -> its versions; None for a tombstone."""
        self.may_be_unclean: set[str] = set()
        """Links of which an operator, or the topic, allows unclean elections."""
        self.books = books
        self.checked = checked
        self._streamers = streamers
        self._candidates: dict[tuple[str, int], str] = {}

    def decided(self, row: Row) -> None:
        """RI16: every step of a document is allowed; RI13: so is every elected replica."""
        versions = self.versions.setdefault(row.link, [])
        if row.deleted:
            versions.append((row, None))
            return
        after = replica_set_of(json.load(row.state))
        book = self.books[partition_name(row.link, after.incarnation)]
        if after.unclean > book.unclean and row.link not in self.may_be_unclean:
            raise Violation(f"RI16: an unclean election of {row.link} was not allowed")
        book.unclean = max(book.unclean, after.unclean)
        before = versions[-1][1] if versions else None
        if before is not None:
            self.checked["RI16"] += 1
            why = may_follow(json.load(versions[-1][0].state), json.load(row.state))
            if why:
                raise Violation(f"RI16: {row.link} {before} became {after}: {why}")
        versions.append((row, after))
        if after.resolution is not Resolution.DELETED and book.unclean == book.reckoned:
            name = partition_name(row.link, after.incarnation)
            self.check_held(name, book, after, len(book.committed))
        if after.candidate:
            name = partition_name(row.link, after.incarnation)
            chosen = self._candidates.setdefault((name, after.epoch), after.candidate)
            if chosen != after.candidate:
                raise Violation(f"RI16: {chosen} and {after.candidate} in epoch {after.epoch}")
            if before is not None and before.resolution is Resolution.ELECTION:
                self._check_elected(before, after)

    def _check_elected(self, before: ReplicaSet, after: ReplicaSet) -> None:
        able = {*before.lrs, *before.elr}
        if not able or after.unclean == after.epoch:
            return
        self.checked["RI13"] += 1
        self.checked["elected outside the set"] += after.candidate in dict(before.elr)
        copies = [copy for copy in after.lrs if copy[0] == after.candidate]
        if not copies or copies[0] not in able:
            raise Violation(f"RI13: {after.candidate} was elected, not one of {able}")

    def newest(self, log: PartitionLog, epoch: int | None = None) -> ReplicaSet | None:
        """Return what the document of a log's incarnation says, or said last in an epoch."""
        for _, found in reversed(self.versions.get(log.link, [])):
            if found is None or found.incarnation != log.incarnation:
                continue
            if epoch is None or found.epoch == epoch:
                return found
        return None

    def is_gone(self, log: PartitionLog) -> bool:
        """Say whether this incarnation is deleted, whether or not another one exists."""
        found = self.versions[log.link][-1][1]
        return (
            found is None
            or found.incarnation != log.incarnation
            or found.resolution is Resolution.DELETED
        )

    def check_held(self, name: str, book: Book, document: ReplicaSet, high: int) -> None:
        for node, copy in (*document.lrs, *document.elr):
            if (node, copy) in book.ended:
                continue
            disk = self._streamers[node].disk
            record = disk._records.get(name)
            headers = disk._logs[name].headers if record is not None else []
            end = headers[-1].end if headers else record.start if record is not None else -1
            self.checked["RI8 copies"] += 1
            if record is None or record.copy != copy or end < high:
                raise Violation(
                    f"RI8: {high} of {name} are committed in epoch {document.epoch}, and {node}"
                    f" has {end} of {record and record.copy}, not of {copy}"
                )
