"""The view of a replica: all that the shells and the other machines of a node may see of it.

They can change nothing by it: they write into the machine by events alone, so that its history can
be played again. Shells run in the thread of the machine, between two of its events, so what they
read here is whole; across an `await` it may change, and `LogView.cuts` says whether it did.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from docstore.documents.core import Core
from docstore.documents.eventual.execute import Executor
from docstore.documents.leadership.unowned_slots import UnownedSlots
from docstore.documents.membership.register import Register
from docstore.documents.membership.transfer import Transfer
from docstore.documents.owners import owner_of
from docstore.documents.replica import Replica
from docstore.documents.term import Phase, Term
from docstore.model.document import Ballot, Ballots, Row
from docstore.model.slots import to_bitmap
from docstore.model.stats import Measure
from docstore.ownership.by_hash import Placement
from docstore.ownership.configuration import Configuration, Stage
from docstore.ownership.quorum import is_quorum, majority


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


class MembersView:
    """Who belongs to the group and is there. What is heard is a hint, never counted."""

    def __init__(self, core: Core, register: Register) -> None:
        self._core = core
        self._register = register

    # By the configuration

    @property
    def me(self) -> str:
        """Return the id of this node."""
        return self._core.me

    @property
    def configuration(self) -> Configuration:
        """Return the configuration in use."""
        return self._core.configuration

    @property
    def placement(self) -> Placement:
        """Return which nodes hold which slots."""
        return self._core.placement

    @property
    def slots(self) -> int:
        """Return how many slots the group has."""
        return self._core.placement.slots

    @property
    def peers(self) -> Sequence[str]:
        """Return the other members, those that come and go included."""
        return list(self._core.peers)

    @property
    def links(self) -> Sequence[str]:
        """Return the nodes that a connection stands to, members or not."""
        return sorted(self._core.peers.links)

    @property
    def leader(self) -> str | None:
        """Return who leads the register of configurations, None if nobody is known to."""
        return self._register.leader

    @property
    def slots_ready(self) -> int:
        """Return how many slots are ready for the next step of the change that is under way."""
        return self._register.readiness.progress

    # As they are heard

    @property
    def lacks_quorum(self) -> bool:
        """Say whether a majority of the members is not heard (rule O6)."""
        return self._core.lacks_quorum()

    @property
    def is_whole(self) -> bool:
        """Say whether a majority of the members is alive, and everybody alive is connected."""
        peers = self._core.peers
        alive = list(filter(self._core.is_alive, peers))
        are_linked = all(peers[node].linked for node in alive)
        return are_linked and is_quorum([self.me, *alive], self.configuration.sets)

    @property
    def is_draining(self) -> bool:
        """Say whether this node gives everything away, and takes no more."""
        return self._core.is_draining

    def is_alive(self, node: str) -> bool:
        """Say whether a node is heard. False for strangers; True for this one."""
        return node == self.me or (node in self._core.peers and self._core.is_alive(node))

    def is_linked(self, node: str) -> bool:
        """Say whether a connection to a node stands, a member or not."""
        return node in self._core.peers.links

    def may_own(self, node: str) -> bool:
        """Say whether a member is heard, and has not just yielded."""
        return (node == self.me or node in self._core.peers) and self._core.may_own(node)

    def silent_ms(self, node: str) -> int:
        """Return for how long a member has not been heard; 0 for this node and for strangers."""
        peer = self._core.peers.get(node)
        return max(0, int((self._core.now - peer.heard_at) * 1000)) if peer else 0


class OwnersView:
    """The owners of slots, as far as this node knows; of its own it is sure."""

    def __init__(
        self, core: Core, executor: Executor, transfer: Transfer, unowned_slots: UnownedSlots
    ) -> None:
        self._core = core
        self._unowned_slots = unowned_slots
        self._executor = executor
        self._transfer = transfer

    def owner_of(self, slot: int) -> str | None:
        """Return whom to ask about a slot: who owns it, else who should, else nobody."""
        return owner_of(self._core, slot)

    def owners_of(self, slots: Iterable[int]) -> dict[str, list[int]]:
        """Return owner -> slots, without those that nobody can be asked for."""
        owners: dict[str, list[int]] = {}
        for slot in slots:
            owner = owner_of(self._core, slot)
            if owner is not None:
                owners.setdefault(owner, []).append(slot)
        return owners

    @property
    def vacant(self) -> int:
        """Return how many slots have lacked an owner for longer than a hand-over takes."""
        return self._unowned_slots.lasting()

    def vacant_among(self, slots: Iterable[int]) -> int:
        """Return how many of these nobody owns, as far as is heard here."""
        return self._unowned_slots.among(slots)

    def own_epoch(self, slot: int) -> int:
        """Return the epoch under which this node owns a slot, 0 if it does not."""
        term = self._open(slot)
        return term.ballot[0] if term is not None else 0

    def owns(self, slot: int) -> bool:
        """Say whether this node owns a slot."""
        return self._open(slot) is not None

    def owned(self) -> list[int]:
        """Return the slots that this node owns."""
        return [log.slot for log, each in self._core.logs.terms() if each.phase is Phase.OPEN]

    @property
    def has_to_give(self) -> bool:
        """Say whether this node owns slots, or leads the register, and another node could."""
        could = any(map(self._core.may_own, self._core.peers))
        if could and self._core.logs.terms():
            return True
        return self._transfer.heir() is not None

    def is_still(self, slot: int) -> bool:
        """Say whether this node owns a slot, stands still, and has nothing under way there."""
        term, log = self._open(slot), self._core.logs.get(slot)
        if term is None or log is None or not term.updates_deferred_until:
            return False
        return not term.is_writing and log.decided == log.end

    def executes(self, slot: int, level: int) -> str | None:
        """Return who executes an operation of level 1 or 2 that comes in here, None if nobody."""
        return self._executor.who(slot, level)

    def is_behind(self, level: int) -> bool:
        """Say whether this node does not serve level 1 or 2 yet: it may lack what it had."""
        return self._executor.is_behind(level)

    def _open(self, slot: int) -> Term | None:
        log = self._core.logs.get(slot)
        return log.open_term if log is not None else None


class GroupView(MembersView):
    """The view of streams and sessions (`machines/view.py`): members, and owners of documents."""

    def __init__(
        self, core: Core, register: Register, owners: OwnersView, clock: Callable[[], float]
    ) -> None:
        """clock: by which the machines of the node are stepped."""
        super().__init__(core, register)
        self._owners = owners
        self._clock = clock

    @property
    def members(self) -> tuple[str, ...]:
        """Return the ids of the members that hold data, those that come and go included."""
        configuration = self.configuration
        every = (*configuration.members, *configuration.next_members)
        return tuple(sorted({each.id for each in every if not each.observes and not each.lost}))

    @property
    def leavers(self) -> frozenset[str]:
        """Return the members that are on their way out."""
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
        """Return how many slots this node has begun to own, ever."""
        return self._core.counters["opened"]

    def owns(self, link: str) -> bool:
        """Say whether this node owns the slot of a document: then it is its controller."""
        return self.own_epoch(link) > 0

    def own_epoch(self, link: str) -> int:
        """Return the epoch under which this node owns the slot of a document, 0 if it does not."""
        return self._owners.own_epoch(self._core.slot_of(link))

    def owner_of(self, link: str) -> str:
        """Return who owns the slot of a document as far as is known, "" if nobody does."""
        return owner_of(self._core, self._core.slot_of(link)) or ""

    def wall_now_us(self) -> int:
        """Return the time to stamp with, in microseconds since 1970."""
        return self._core.clock.now_us(self._clock())

    def past_us(self) -> int:
        """Return an instant that is past for sure, in microseconds since 1970: to delete by."""
        return self._core.past_us()

    def slot_of(self, link: str) -> int:
        """Return the slot of a document."""
        return self._core.slot_of(link)

    def owned(self) -> list[int]:
        """Return the slots that this node owns."""
        return self._owners.owned()


class ReplicationView:
    """Rows that somebody lacks, as of the last acknowledgements."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def lag(self) -> Counter[str]:
        """Return replica -> rows that it has not acknowledged, over the slots that we own."""
        lag: Counter[str] = Counter()
        for log, term in self._core.logs.terms():
            if term.phase is Phase.OPEN:
                for peer, follower in term.followers.items():
                    lag[peer] += max(0, log.end - max(follower.acked, log.kept))
        return lag

    def lacking(self, slot: int) -> int:
        """Return how many rows of a slot its replicas have not acknowledged, those in step."""
        log = self._core.logs.get(slot)
        if log is None or log.term is None:
            return 0
        followers = log.term.followers.values()
        return sum(log.end - max(each.acked, log.kept) for each in followers if each.adopted)

    def behind(self, slot: int) -> list[str]:
        """Return the connected replicas that lack something decided; this node if not the owner."""
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
    """The eyes of the shells: members, owners and replication; here the logs and the clock."""

    def __init__(self, replica: Replica, clock: Callable[[], float]) -> None:
        """clock: by which the machines of the node are stepped."""
        self._replica = replica
        self._core = core = replica.core
        self._measures = replica.measures
        self.owners = OwnersView(
            core, replica.executor, replica.register.transfer, replica.liveness.unowned_slots
        )
        self.members = GroupView(core, replica.register, self.owners, clock)
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
        term = log.open_term if log is not None else None
        cached = term.cache.get(link) if term is not None else None
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
