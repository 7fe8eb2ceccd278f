"""What the shells of a node may see of its replica, and nothing of it that they could change.

They run in the thread of the machine, between two of its events, so what they read here is whole;
across an `await` it may change, and `LogView.cuts` says whether it did. They write into the machine
by events alone, so that its history can be played again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from docstore.model.document import Ballot, Ballots, Row
from docstore.ownership.by_hash import Placement
from docstore.protocol.group.configuration import Configuration
from docstore.protocol.quorum import is_quorum
from docstore.protocol.reign import Follower, Phase, Reign
from docstore.protocol.replica import Replica
from docstore.protocol.slots import to_bitmap


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
    """The eyes of the shells."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._core = replica.core

    # The group

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
        return sorted(self._core.links)

    @property
    def counters(self) -> Counter[str]:
        """Return what the machine has counted since its start."""
        return self._core.counters

    @property
    def lacks_quorum(self) -> bool:
        """Say whether a majority of the members is not heard (rule O6)."""
        return self._core.lacks_quorum()

    @property
    def is_whole(self) -> bool:
        """Say whether a majority of the members is alive, and everybody alive is connected."""
        alive = [self.me, *filter(self._core.is_alive, self._core.peers)]
        return all(map(self.is_linked, alive)) and is_quorum(alive, self.configuration.sets)

    @property
    def is_draining(self) -> bool:
        """Say whether this node gives everything away, and takes no more."""
        return self._core.is_draining

    def is_alive(self, node: str) -> bool:
        """Say whether a node is heard. False for strangers; True for this one."""
        return node == self.me or (node in self._core.peers and self._core.is_alive(node))

    def is_linked(self, node: str) -> bool:
        """Say whether a connection to a member stands; True for this one."""
        peer = self._core.peers.get(node)
        return node == self.me or (peer is not None and peer.linked)

    def is_connected(self, node: str) -> bool:
        """Say whether a connection to a node stands, a member or not."""
        return node in self._core.links

    def may_own(self, node: str) -> bool:
        """Say whether a member is heard, and has not just yielded."""
        return (node == self.me or node in self._core.peers) and self._core.may_own(node)

    # Changes of the group

    @property
    def leader(self) -> str | None:
        """Return who leads the register of configurations, None if nobody is known to."""
        return self._replica.register.leader

    @property
    def slots_ready(self) -> int:
        """Return how many slots are ready for the next step of the change that is under way."""
        return self._replica.register.readiness.progress

    # Time

    @property
    def ticked_at(self) -> float:
        """Return when the machine ticked last, on its own clock."""
        return self._core.ticked_at

    @property
    def owner_patience_s(self) -> float:
        """Return for how long a request waits for a slot that has no owner."""
        return self._core.config.owner_patience_s

    @property
    def history_retention_s(self) -> float:
        """Return for how long versions that were replaced are kept, 0 for ever."""
        return self._core.config.history_retention_s

    def wall_now_us(self, now: float | None = None) -> int:
        """Return the wall clock in microseconds since 1970, held back if it is wrong.

        now: what the machine's clock shows; None as of its last event.
        """
        return self._core.clock.now_us(self._core.now if now is None else now)

    def silent_ms(self, node: str) -> int:
        """Return for how long a member has not been heard; 0 for this node and for strangers."""
        peer = self._core.peers.get(node)
        return max(0, int((self._core.now - peer.heard_at) * 1000)) if peer else 0

    # Owners

    def slot_of(self, link: str) -> int:
        """Return the slot of a document."""
        return self._core.slot_of(link)

    def owner_of(self, slot: int) -> str | None:
        """Return whom to ask about a slot: who owns it, else who should, else nobody."""
        return self._core.owner_of(slot)

    def owners_of(self, slots: Iterable[int]) -> dict[str, list[int]]:
        """Return owner -> slots, without those that nobody can be asked for."""
        owners: dict[str, list[int]] = {}
        for slot in slots:
            owner = self._core.owner_of(slot)
            if owner is not None:
                owners.setdefault(owner, []).append(slot)
        return owners

    def has_owner(self, slot: int) -> bool:
        """Say whether somebody alive says that it owns a slot."""
        return self.owns(slot) or self._core.claimant(slot) is not None

    def reign_of(self, slot: int) -> int:
        """Return the epoch under which this node owns a slot, 0 if it does not."""
        reign = self._open(slot)
        return reign.ballot[0] if reign is not None else 0

    def owns(self, slot: int) -> bool:
        """Say whether this node owns a slot."""
        return self._open(slot) is not None

    def owned(self) -> list[int]:
        """Return the slots that this node owns."""
        return [log.slot for log, each in self._core.reigns() if each.phase is Phase.OPEN]

    @property
    def has_to_give(self) -> bool:
        """Say whether this node owns slots, or leads the register, and another node could."""
        could = any(map(self._core.may_own, self._core.peers))
        if could and self._core.reigns():
            return True
        return self._replica.register.transfer.heir() is not None

    def is_still(self, slot: int) -> bool:
        """Say whether this node owns a slot, stands still, and has nothing under way there."""
        reign, log = self._open(slot), self._core.logs.get(slot)
        if reign is None or log is None or not reign.still_until:
            return False
        return not reign.is_writing and log.decided == log.end

    def executes(self, slot: int, level: int) -> str | None:
        """Return who executes an operation of level 1 or 2 that comes in here, None if nobody."""
        return self._replica.executor.who(slot, level)

    def is_behind(self, level: int) -> bool:
        """Say whether this node does not serve level 1 or 2 yet: it may lack what it had."""
        return self._replica.executor.is_behind(level)

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
        reign = self._open(slot)
        head = reign.heads.get(link) if reign is not None else None
        return head.decided if head is not None else None

    def bitmap(self, slots: Iterable[int]) -> bytes:
        """Return a set of slots as it travels between nodes."""
        return to_bitmap(slots, self.slots)

    @property
    def documents_in_conflict(self) -> int:
        """Return how many documents of levels 1 and 2 have branches that lost."""
        return self._replica.documents.in_conflict

    @property
    def compaction(self) -> tuple[int, int]:
        """Return up to which instant (us) versions were asked to go, and the slots left to do."""
        return self._replica.trimmer.asked_us, self._replica.trimmer.slots_left

    # Replicas of the slots that this node owns

    def lag(self) -> Counter[str]:
        """Return replica -> rows that it has not acknowledged, over the slots that we own."""
        lag: Counter[str] = Counter()
        for slot in self.owned():
            log = self._core.logs[slot]
            for peer, follower in self._followers(slot):
                lag[peer] += max(0, log.end - max(follower.acked, log.kept))
        return lag

    def lacking(self, slot: int) -> int:
        """Return how many rows of a slot its replicas have not acknowledged, those in step."""
        log = self._core.logs.get(slot)
        if log is None or log.reign is None:
            return 0
        followers = log.reign.followers.values()
        return sum(log.end - max(each.acked, log.kept) for each in followers if each.adopted)

    def behind(self, slot: int) -> list[str]:
        """Return the connected replicas that lack something decided; this node if not the owner."""
        if not self.owns(slot):
            return [self.me]
        decided = self._core.logs[slot].decided
        return [
            peer
            for peer, follower in self._followers(slot)
            if self.is_linked(peer) and not (follower.adopted and follower.acked >= decided)
        ]

    def _open(self, slot: int) -> Reign | None:
        log = self._core.logs.get(slot)
        reign = log.reign if log is not None else None
        return reign if reign is not None and reign.phase is Phase.OPEN else None

    def _followers(self, slot: int) -> list[tuple[str, Follower]]:
        reign = self._open(slot)
        return list(reign.followers.items()) if reign is not None else []
