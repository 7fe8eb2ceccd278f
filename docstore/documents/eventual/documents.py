"""The documents of levels 1 and 2 that this node holds: heads in memory, versions on the disk.

Heads are read on first use and cached. A version joins its document in memory and the pending batch
in one step, so that memory never shows what the disk will not.
"""

from collections.abc import Callable, Sequence

from docstore.documents.core import Core
from docstore.documents.eventual.arrivals import Arrived
from docstore.documents.eventual.branches import Branches
from docstore.documents.eventual.lineage import covers, lineage_of
from docstore.documents.operations import Operations
from docstore.machines.effects import Alarm
from docstore.model.document import Row
from docstore.storage.replication_log import Arrive, BranchStatus, Heads, Prune, SetStatus
from docstore.storage.store import Corrupt, Recovered, Result

DOCUMENTS_MAX = 8192
"""Documents whose heads are kept in memory."""

Name = tuple[str, str, int]
"""(link, hand, stamp) of a version."""


class Documents:
    """The heads of each document, and the merging of versions from other disks."""

    def __init__(self, core: Core, recovered: Recovered, stored: Callable[[int], None]) -> None:
        """stored: called with the number of an arrival once it is durable."""
        self.core = core
        self.outbox = core.outbox
        self._stored = stored
        self.arrived = Arrived(recovered)
        self._known: dict[str, Branches] = {}
        self._loading: dict[str, list[Callable[[Branches | None], None]]] = {}
        self.operations = Operations()
        """Operations that made the versions since this start, by number of arrival."""
        self.reset(recovered)

    def reset(self, recovered: Recovered) -> None:
        self.arrived.reset(recovered)
        self._known.clear()
        self._loading.clear()
        self.operations.cut(recovered.arrived)
        self.in_conflict = recovered.in_conflict
        """Count of documents on this disk with losing branches."""

    def known(self, link: str) -> Branches | None:
        return self._known.get(link)

    def load(self, link: str, then: Callable[[Branches | None], None]) -> None:
        """Call `then` with a document's heads, at once if they are cached; with None if damaged."""
        known = self._known.get(link)
        if known is not None:
            then(known)
            return
        waiting = self._loading.setdefault(link, [])
        waiting.append(then)
        if len(waiting) > 1:
            return

        def found(result: Result) -> None:
            if self._loading.get(link) is not waiting:
                return
            del self._loading[link]
            branches = None
            if isinstance(result, Corrupt):
                self.outbox.emit(Alarm(f"{link}: a version does not match its checksum"))
            else:
                branches = self._known[link] = Branches.of(result)
                self._make_room()
            for each in waiting:
                each(branches)

        self.outbox.read(Heads(self.core.slot_of(link), link), found)

    def _make_room(self) -> None:
        """Evict the documents loaded first, except those that the disk does not have yet."""
        if len(self._known) <= DOCUMENTS_MAX:
            return
        for link in list(self._known)[: DOCUMENTS_MAX // 4]:
            if self.is_stored(self._known[link]):
                del self._known[link]

    def is_stored(self, branches: Branches) -> bool:
        return all(head.row.n <= self.arrived.durable for head in branches.heads)

    def add(self, branches: Branches, row: Row) -> Row | None:
        """Add a version to its document and the batch; return it numbered, None if it was known."""
        arrived = row._replace(n=self.arrived.next_number)
        before = _standings(branches)
        if not branches.add(arrived):
            return None
        self.arrived.note(arrived)
        self.operations.note([arrived])
        after = _standings(branches)
        self.outbox.store(Arrive(arrived, after.pop(arrived.n)))
        for n, standing in before.items():
            now = after.get(n, BranchStatus.PAST)
            if now is not standing:
                self.outbox.store(SetStatus(n, now))
        was, is_now = len(before) > 1, len(branches.heads) > 1
        self.in_conflict += is_now - was
        self.core.counters["conflicts"] += len(branches.heads) > max(1, len(before))
        number = arrived.n
        self.outbox.when_durable(lambda: self._stored(number))
        return arrived

    # Versions from other disks

    def take(self, rows: Sequence[Row], then: Callable[[], None]) -> None:
        """Merge versions from another disk into their documents; then call `then`."""
        self._each({row.link for row in rows}, lambda documents: self._merge(documents, rows, then))

    def _merge(
        self, documents: dict[str, Branches], rows: Sequence[Row], then: Callable[[], None]
    ) -> None:
        horizon = self._horizon_us()
        for row in rows:
            branches = documents.get(row.link)
            if branches is None:
                continue  # The document is damaged here: its readers get an error.
            if row.updated_us >= horizon or not branches.heads or _follows(row, branches):
                self.add(branches, row)
        then()

    def lacking(
        self, names: Sequence[Name], then: Callable[[list[str]], None]
    ) -> None:  # Tests replace this.
        """Call `then` with the links of versions that are unknown here, as are their successors."""

        def found(documents: dict[str, Branches]) -> None:
            then(
                sorted(
                    {
                        link
                        for link, hand, stamp in names
                        if link in documents and not documents[link].knows(hand, stamp)
                    }
                )
            )

        self._each({link for link, _, _ in names}, found)

    def heads(self, links: Sequence[str], then: Callable[[list[Row]], None]) -> None:
        """Call back with the heads of documents once they are durable."""

        def found(documents: dict[str, Branches]) -> None:
            every = (head.row for branches in documents.values() for head in branches.heads)
            rows = list(every)
            if all(row.n <= self.arrived.durable for row in rows):
                then(rows)
            else:
                self.outbox.when_durable(lambda: then(rows))

        self._each(set(links), found)

    def _each(self, links: set[str], then: Callable[[dict[str, Branches]], None]) -> None:
        """Call back once with all these documents, except damaged ones."""
        documents: dict[str, Branches] = {}
        waiting = len(links)
        if not waiting:
            then(documents)

        def loaded(link: str, branches: Branches | None) -> None:
            nonlocal waiting
            waiting -= 1
            if branches is not None:
                documents[link] = branches
            if not waiting:
                then(documents)

        for link in sorted(links):
            self.load(link, lambda branches, link=link: loaded(link, branches))  # type: ignore[misc]

    # Removal

    def drop_losers(self, branches: Branches) -> None:
        gone = branches.drop_losers(self._horizon_us())
        self.prune(gone)
        self.core.counters["conflicts_expired"] += len(gone)
        self.in_conflict -= bool(gone) and not branches.losers

    def prune(self, rows: Sequence[Row]) -> None:
        """Remove versions, except the last arrival: its number must not be reused."""
        numbers = [row.n for row in rows if row.n < self.arrived.durable]
        if numbers:
            self.core.counters["versions_pruned"] += len(numbers)
            self.outbox.store(Prune(numbers))

    def _horizon_us(self) -> int:
        return self.core.past_us() - int(self.core.config.retention.conflicts_s * 1e6)


def _standings(branches: Branches) -> dict[int, BranchStatus]:
    return {
        head.row.n: BranchStatus.LOSER if index else BranchStatus.WINNER
        for index, head in enumerate(branches.heads)
    }


def _follows(row: Row, branches: Branches) -> bool:
    """Say whether a version succeeds a head of its document here, so that there is no conflict."""
    lineage = lineage_of(row)
    return any(covers(lineage, head.lineage) for head in branches.heads)
