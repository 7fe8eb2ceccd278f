"""Read-only views of a replica, for the shells and the other machines of a node.

They write into the machine only by events, so that its history can be replayed. Shells run in the
machine's thread, between two events, so one read is consistent. Across an `await` the state may
change; `LogView.cuts` shows whether rows were truncated.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from docstore.documents.core import Core
from docstore.documents.eventual.execute import Executor
from docstore.documents.leadership.unowned_slots import UnownedSlots
from docstore.documents.membership.register import Register
from docstore.documents.membership.transfer import Transfer
from docstore.documents.owners import owner_of, owners_of
from docstore.documents.replica import Replica
from docstore.documents.term import Phase, Term
from docstore.model.document import Ballot, Ballots, Row
from docstore.model.slots import to_bitmap
from docstore.model.stats import Measure
from docstore.ownership.by_hash import Placement
from docstore.ownership.configuration import Configuration, Stage
from docstore.ownership.quorum import is_quorum, majority


class LogView(Protocol):
    """The log of one slot that this node holds, read-only; see `log.py`."""

    @property
    def slot(self) -> int:
        """Return the number of the slot."""

    @property
    def kept(self) -> int:
        """Return the row up to which superseded versions may be compacted."""

    @property
    def decided(self) -> int:
        """Return the last row that is decided, as far as this node knows."""

    @property
    def durable(self) -> int:
        """Return the last row that is on this disk."""

    @property
    def end(self) -> int:
        """Return the n of the last row."""

    @property
    def full(self) -> bool:
        """Say whether the log may be counted: it is neither damaged nor being filled."""

    @property
    def cuts(self) -> int:
        """Return the number of truncations; a read from before one is void after it."""

    @property
    def promised(self) -> Ballot:
        """Return the greatest ballot that this replica has promised."""

    @property
    def ballots(self) -> Ballots:
        """Return the ballots under which the rows were written."""

    @property
    def last_ballot(self) -> Ballot:
        """Return the ballot of the last row."""


class MembersView:
    """The members of the group and their liveness, which is a hint and never counted."""

    def __init__(self, core: Core, register: Register) -> None:
        self._core = core
        self._register = register

    # By the configuration

    @property
    def me(self) -> str:
        return self._core.me

    @property
    def configuration(self) -> Configuration:
        return self._core.configuration

    @property
    def placement(self) -> Placement:
        return self._core.placement

    @property
    def peers(self) -> Sequence[str]:
        return list(self._core.peers)

    @property
    def links(self) -> Sequence[str]:
        return sorted(self._core.peers.links)

    @property
    def leader(self) -> str | None:
        """Return the leader of the configuration register, None if unknown."""
        return self._register.leader

    # Liveness

    @property
    def lacks_quorum(self) -> bool:
        return self._core.lacks_quorum()

    @property
    def is_whole(self) -> bool:
        """Say whether a majority of the members is alive, and all live members are linked."""
        peers = self._core.peers
        alive = list(filter(self._core.is_alive, peers))
        are_linked = all(peers[node].linked for node in alive)
        return are_linked and is_quorum([self.me, *alive], self.configuration.sets)

    def is_alive(self, node: str) -> bool:
        return node == self.me or (node in self._core.peers and self._core.is_alive(node))

    def is_linked(self, node: str) -> bool:
        return node in self._core.peers.links

    def may_own(self, node: str) -> bool:
        """Say whether a member is alive and has not just yielded."""
        return (node == self.me or node in self._core.peers) and self._core.may_own(node)

    def silent_ms(self, node: str) -> int:
        """Return the silence of a member in ms; 0 for this node and for strangers."""
        peer = self._core.peers.get(node)
        return max(0, int((self._core.now - peer.heard_at) * 1000)) if peer else 0


class OwnersView:
    """The owners of slots, as far as this node knows; it is sure of its own slots."""

    def __init__(
        self, core: Core, executor: Executor, transfer: Transfer, unowned_slots: UnownedSlots
    ) -> None:
        self._core = core
        self._unowned_slots = unowned_slots
        self._executor = executor
        self._transfer = transfer

    def owner_of(self, slot: int) -> str | None:
        """Return the node to ask about a slot, None if there is none."""
        return owner_of(self._core, slot)

    def owners_of(self, slots: Iterable[int]) -> dict[str, list[int]]:
        """Return owner -> slots, without the slots for which no node can be asked."""
        return owners_of(self._core, slots)

    @property
    def vacant(self) -> int:
        """Return how many slots have had no owner for longer than a hand-over takes."""
        return self._unowned_slots.lasting()

    def vacant_among(self, slots: Iterable[int]) -> int:
        return self._unowned_slots.among(slots)

    def own_epoch(self, slot: int) -> int:
        term = self._open(slot)
        return term.ballot[0] if term is not None else 0

    def owns(self, slot: int) -> bool:
        return self._open(slot) is not None

    def owned(self) -> list[int]:
        return [log.slot for log, each in self._core.logs.terms() if each.phase is Phase.OPEN]

    @property
    def has_to_give(self) -> bool:
        """Say whether this node has slots, or the register's lead, that another node can take."""
        could = any(map(self._core.may_own, self._core.peers))
        if could and self._core.logs.terms():
            return True
        return self._transfer.target() is not None

    def is_still(self, slot: int) -> bool:
        """Say whether this node owns a slot behind a write barrier, with no update under way."""
        term, log = self._open(slot), self._core.logs.get(slot)
        if term is None or log is None or not term.updates_deferred_until:
            return False
        return not term.is_writing and log.decided == log.end

    def executes(self, slot: int, level: int) -> str | None:
        return self._executor.executing_node(slot, level)

    def is_behind(self, level: int) -> bool:
        """Say whether this node may lack versions of level 1 or 2: then it does not serve."""
        return self._executor.is_behind(level)

    def _open(self, slot: int) -> Term | None:
        log = self._core.logs.get(slot)
        return log.open_term if log is not None else None


class GroupView(MembersView):
    """The view of streams and sessions: members, and owners of documents."""

    def __init__(
        self, core: Core, register: Register, owners: OwnersView, clock: Callable[[], float]
    ) -> None:
        """clock: returns the same time as `now` in the steps of the node's machines."""
        super().__init__(core, register)
        self._owners = owners
        self._clock = clock

    @property
    def members(self) -> tuple[str, ...]:
        """Return the ids of the members that hold data, joining and leaving ones included."""
        configuration = self.configuration
        every = (*configuration.members, *configuration.next_members)
        return tuple(sorted({each.id for each in every if not each.observes and not each.lost}))

    @property
    def leavers(self) -> frozenset[str]:
        configuration = self.configuration
        if configuration.stage is Stage.STABLE:
            return frozenset()
        staying = {each.id for each in configuration.next_members}
        return frozenset(each.id for each in configuration.members if each.id not in staying)

    @property
    def zones(self) -> dict[str, str]:
        """Return member -> zone, "" for none."""
        configuration = self.configuration
        every = (*configuration.members, *configuration.next_members)
        return {each.id: each.zone for each in every}

    @property
    def terms_opened(self) -> int:
        return self._core.counters["opened"]

    def owns(self, link: str) -> bool:
        return self.own_epoch(link) > 0

    def own_epoch(self, link: str) -> int:
        return self._owners.own_epoch(self._core.slot_of(link))

    def owner_of(self, link: str) -> str:
        """Return the owner of a document's slot as far as known, "" for none."""
        return owner_of(self._core, self._core.slot_of(link)) or ""

    def wall_now_us(self) -> int:
        """Return the time to stamp with, in microseconds since 1970."""
        return self._core.clock.now_us(self._clock())

    def past_us(self) -> int:
        """Return an instant that is certainly past, in us since 1970: older data may be deleted."""
        return self._core.past_us()

    def slot_of(self, link: str) -> int:
        return self._core.slot_of(link)

    def owned(self) -> list[int]:
        return self._owners.owned()


class ReplicationView:
    """The rows that replicas lack, as of their last acknowledgements."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def lag(self) -> Counter[str]:
        """Return replica -> rows that it has not acknowledged, in the slots of this node."""
        lag: Counter[str] = Counter()
        for log, term in self._core.logs.terms():
            if term.phase is Phase.OPEN:
                for peer, follower in term.followers.items():
                    lag[peer] += max(0, log.end - max(follower.acked, log.kept))
        return lag

    def lacking(self, slot: int) -> int:
        """Return how many rows of a slot its followers that have adopted the term lack."""
        log = self._core.logs.get(slot)
        if log is None or log.term is None:
            return 0
        followers = log.term.followers.values()
        return sum(log.end - max(each.acked, log.kept) for each in followers if each.adopted)

    def behind(self, slot: int) -> list[str]:
        """Return the linked replicas that lack decided rows; this node if it is not the owner."""
        log = self._core.logs.get(slot)
        term = log.open_term if log is not None else None
        if log is None or term is None:
            return [self._core.me]
        peers = self._core.peers
        return [
            peer
            for peer, follower in term.followers.items()
            if peers[peer].linked and not (follower.adopted and follower.acked >= log.decided)
        ]


class ReplicaView:
    """The shells' view of a replica: logs, clock, and views of members, owners, replication."""

    def __init__(self, replica: Replica, clock: Callable[[], float]) -> None:
        """clock: returns the same time as `now` in the steps of the node's machines."""
        self._replica = replica
        self._core = core = replica.core
        self._measures = replica.measures
        self.owners = OwnersView(
            core, replica.executor, replica.register.transfer, replica.liveness.unowned_slots
        )
        self.members = GroupView(core, replica.register, self.owners, clock)
        self.replication = ReplicationView(core)

    def slot_of(self, link: str) -> int:
        return self._core.slot_of(link)

    def copies_of(self, link: str) -> range:
        """Return the counts of copies that an update may wait for: from a quorum to all replicas.

        While the replica set changes the smaller quorum counts, so that no request is refused that
        would have been accepted before.
        """
        placement, slot = self._core.placement, self.slot_of(link)
        quorum = min(map(majority, placement.voting(slot)))
        return range(quorum, len(placement.replicas(slot)) + 1)

    def bitmap(self, slots: Iterable[int]) -> bytes:
        """Return a set of slots as a bitmap of all slots of the group."""
        return to_bitmap(slots, self._core.placement.slots)

    # Logs

    @property
    def logs(self) -> Mapping[int, LogView]:
        return self._core.logs

    def readable_until(self, slot: int) -> int:
        """Return the last decided row on this disk; 0 if the log is not full."""
        log = self._core.logs.get(slot)
        return min(log.decided, log.durable) if log is not None and log.full else 0

    def decided_row(self, slot: int, link: str) -> Row | None:
        """Return a document's newest decided row if this node owns it and has it cached."""
        log = self._core.logs.get(slot)
        term = log.open_term if log is not None else None
        cached = term.cache.get(link) if term is not None else None
        return cached.decided if cached is not None else None

    def keys_of(self, link: str) -> int | None:
        """Return how many Idempotency-Keys a document's owner remembers; None on other nodes."""
        slot = self.slot_of(link)
        return self._core.logs[slot].operations.keys_of(link) if self.owners.owns(slot) else None

    @property
    def slots_ready(self) -> int:
        """Return how many slots are ready for the next step of the present change."""
        return self._replica.register.readiness.progress

    @property
    def documents_in_conflict(self) -> int:
        """Return how many documents of levels 1 and 2 have losing branches."""
        return self._replica.documents.in_conflict

    @property
    def compaction(self) -> tuple[int, int]:
        """Return the instant (us) of the last request to compact, and the slots left to do."""
        return self._replica.trimmer.asked_us, self._replica.trimmer.slots_left

    # Time and statistics

    @property
    def ticked_at(self) -> float:
        return self._core.clock.ticked_at

    @property
    def owner_patience_s(self) -> float:
        return self._core.config.waiting.owner_patience_s

    @property
    def history_retention_s(self) -> float:
        """Return the retention of superseded versions in seconds; 0 for ever."""
        return self._core.config.retention.history_s

    def wall_now_us(self, now: float | None = None) -> int:
        """Return the timestamp for rows, in microseconds since 1970: see `WallClock`.

        now: reading of the machine's clock; None: as of its last event.
        """
        return self._core.clock.now_us(self._core.now if now is None else now)

    def past_us(self) -> int:
        """Return an instant that is certainly past, in us since 1970: older data may be deleted."""
        return self._core.past_us()

    def measures_of(self, path: str) -> Mapping[str, Measure]:
        """Return method -> statistics of a factory or a document."""
        return self._measures.of(path)

    @property
    def measures_of_factories(self) -> Mapping[str, Mapping[str, Measure]]:
        """Return path -> method -> statistics."""
        return self._measures.of_factories

    @property
    def counters(self) -> Counter[str]:
        return self._core.counters
