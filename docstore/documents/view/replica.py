"""What the shells of a node may see of its replica, and nothing of it that they could change.

They run in the thread of the machine, between two of its events, so what they read here is whole;
across an `await` it may change, and `LogView.cuts` says whether it did. They write into the machine
by events alone, so that its history can be played again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from docstore.documents.replica import Replica
from docstore.documents.view.members import MembersView
from docstore.documents.view.owners import OwnersView
from docstore.documents.view.replication import ReplicationView
from docstore.model.document import Ballot, Ballots, Row
from docstore.model.slots import to_bitmap
from docstore.model.stats import Measure
from docstore.ownership.quorum import majority


class LogView(Protocol):
    """The log of one slot that this node holds, to be read only; see `log.py`."""

    @property
    def slot(self) -> int:
        """Return which slot this is."""

    @property
    def kept(self) -> int:
        """Return up to which row versions that were replaced have been let go of."""

    @property
    def decided(self) -> int:
        """Return up to which row the log is decided, as far as is known here."""

    @property
    def durable(self) -> int:
        """Return up to which row it is on this disk."""

    @property
    def end(self) -> int:
        """Return its last row."""

    @property
    def full(self) -> bool:
        """Say whether this node vouches for it: it is neither damaged nor being filled."""

    @property
    def cuts(self) -> int:
        """Return how often rows were taken away: what was read before a cut is void after it."""

    @property
    def promised(self) -> Ballot:
        """Return the greatest ballot that was promised."""

    @property
    def ballots(self) -> Ballots:
        """Return who wrote which rows."""

    @property
    def last_ballot(self) -> Ballot:
        """Return whose the last row is."""


class ReplicaView:
    """The eyes of the shells: members, owners and replication; here the logs and the clock."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._core = core = replica.core
        self._measures = replica.measures
        self.members = MembersView(core, replica.register)
        self.owners = OwnersView(
            core, replica.executor, replica.register.transfer, replica.liveness.vacancies
        )
        self.replication = ReplicationView(core)

    def slot_of(self, link: str) -> int:
        """Return the slot of a document."""
        return self._core.slot_of(link)

    def copies_of(self, link: str) -> range:
        """Return how many copies of a document may be waited for: from its quorum to all.

        Of its replica set, whoever votes on configurations. While that changes the smaller quorum
        of the two, so that nothing is refused meanwhile that is not before.
        """
        placement, slot = self._core.placement, self.slot_of(link)
        quorum = min(map(majority, placement.voting(slot)))
        return range(quorum, len(placement.replicas(slot)) + 1)

    def bitmap(self, slots: Iterable[int]) -> bytes:
        """Return a set of slots as it travels between nodes."""
        return to_bitmap(slots, self._core.placement.slots)

    # Logs

    @property
    def logs(self) -> Mapping[int, LogView]:
        """Return slot -> log, of the slots that this node holds."""
        return self._core.logs

    def readable_until(self, slot: int) -> int:
        """Return up to which row this disk has what is decided of a slot, 0 if it is not whole."""
        log = self._core.logs.get(slot)
        return min(log.decided, log.durable) if log is not None and log.full else 0

    def decided_row(self, slot: int, link: str) -> Row | None:
        """Return a document's newest decided row, where this node owns it and has it in memory."""
        log = self._core.logs.get(slot)
        reign = log.open_reign if log is not None else None
        cached = reign.cache.get(link) if reign is not None else None
        return cached.decided if cached is not None else None

    @property
    def documents_in_conflict(self) -> int:
        """Return how many documents of levels 1 and 2 have branches that lost."""
        return self._replica.documents.in_conflict

    @property
    def compaction(self) -> tuple[int, int]:
        """Return up to which instant (us) versions were asked to go, and the slots left to do."""
        return self._replica.trimmer.asked_us, self._replica.trimmer.slots_left

    # Time, and what was counted

    @property
    def ticked_at(self) -> float:
        """Return when the machine ticked last, on its own clock."""
        return self._core.clock.ticked_at

    @property
    def owner_patience_s(self) -> float:
        """Return for how long a request waits for a slot that has no owner."""
        return self._core.config.waiting.owner_patience_s

    @property
    def history_retention_s(self) -> float:
        """Return for how long versions that were replaced are kept, 0 for ever."""
        return self._core.config.retention.history_s

    def wall_now_us(self, now: float | None = None) -> int:
        """Return the time to stamp with, in microseconds since 1970: see `WallClock`.

        now: what the machine's clock shows; None as of its last event.
        """
        return self._core.clock.now_us(self._core.now if now is None else now)

    def past_us(self) -> int:
        """Return an instant that is past for sure, in microseconds since 1970: to delete by."""
        return self._core.past_us()

    def measures_of(self, path: str) -> Mapping[str, Measure]:
        """Return what was measured here of a factory, or of a document: by method."""
        return self._measures.of(path)

    @property
    def measures_of_factories(self) -> Mapping[str, Mapping[str, Measure]]:
        """Return path -> method -> what was measured here."""
        return self._measures.of_factories

    @property
    def counters(self) -> Counter[str]:
        """Return what the machine has counted since its start."""
        return self._core.counters
