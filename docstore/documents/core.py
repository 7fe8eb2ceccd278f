"""What all steps share: the time, the group, and the parts that have files of their own.

Who the others are is in `peers.py`, the slots are in `logs.py`, the way out is `outbox.py`. Here is
what this node thinks of itself and of the others, and how an operation is handed back.
"""

import hashlib
from collections import Counter
from math import inf
from random import Random

from docstore.documents.clients import Inflight
from docstore.documents.clock import WallClock
from docstore.documents.leadership.leases import Leases
from docstore.documents.log import SlotLog
from docstore.documents.logs import Logs
from docstore.documents.operations import Closed, Proposed
from docstore.documents.outbox import Outbox
from docstore.documents.peers import NEVER, Peers
from docstore.documents.retention.pins import Needs
from docstore.documents.timing import ReplicaConfig
from docstore.model.fences import is_of_the_store
from docstore.model.operation import Answer, Operation
from docstore.model.service import WITHOUT_AUTHOR, Service, ServiceFor
from docstore.model.slots import slot_of
from docstore.ownership.by_hash import Placement
from docstore.ownership.configuration import Configuration, unpack_registered
from docstore.ownership.quorum import is_quorum
from docstore.storage.store import Recovered


def start_of(recovered: Recovered) -> int:
    """Return a number that no other start of this node has, on this disk or on one before it.

    A new disk counts its starts from one again, and operations of the old disk's starts are still
    in the logs: the same number would take a new operation for an old one (rule C1).
    """
    disk = int.from_bytes(hashlib.sha256(recovered.store_id.encode()).digest()[:4], "big")
    return (disk + recovered.boot) & 0x7FFF_FFFF


class Core:
    """The shared state of one replica. Steps are written around it; see `replica.py`."""

    def __init__(
        self,
        me: str,
        recovered: Recovered,
        *,
        service_for: ServiceFor,
        rng: Random,
        config: ReplicaConfig,
        now: float,
    ) -> None:
        self.me = me
        self.boot = start_of(recovered)  # Names this process in its operations' identities.
        self.proposed, self.closed = Proposed(), Closed()
        self.service_for = service_for
        self.rng = rng
        self.config = config
        self.now = now
        self.started_at = now
        self.clock = WallClock(config.clock_ahead_us_max, now)
        self.configuration: Configuration
        self.placement: Placement
        self.peers, self.logs = Peers(now), Logs()
        self.outbox = Outbox(self.peers, self.logs)
        self.leases = Leases(config.leadership.lease_s, now)
        self.needs: Needs | None = None  # Of the past; None: nobody needs anything.
        self.routes_changed = self.claims_changed = False
        self.unfit_until = NEVER
        self.has_room = True
        """Whether the disk takes rows; promises it takes for longer."""
        self.draining_since = inf
        """When it was asked to give all slots away, for good; inf: it was not."""
        self.corrupted: set[int] = set()
        """Slots in which a read met a bad checksum, to be marked faulty at the end of the step."""
        self.counters: Counter[str] = Counter()
        self.answers: dict[str, list[tuple[Inflight, Answer | None, bool]]] = {}
        """Entry node -> (operation, answer, whether it was proposed here) to hand back."""
        self._load(recovered)

    def reset(self, recovered: Recovered) -> None:
        """Begin again from what is on disk; every reign of ours is over."""
        self._load(recovered)
        self.outbox.reset()

    def _load(self, recovered: Recovered) -> None:
        assert recovered.configuration is not None
        self.take_members(unpack_registered(recovered.configuration).decided)
        self.logs.reset(self.me, self.placement, recovered.slots)

    def take_members(self, configuration: Configuration) -> None:
        """Count by a configuration from now on; what is known of members that stay is kept."""
        self.configuration = configuration
        self.placement = configuration.placement()
        others = [each for each in configuration.names if each != self.me]
        self.peers.become(others, self.now)
        self.peers.count = not is_quorum([self.me], configuration.sets)

    def service_of(self, operation: Operation, since: int) -> Service | None:
        """Return who says what an update makes of its document; see ServiceFor (rule D5)."""
        if is_of_the_store(operation.fence):
            return WITHOUT_AUTHOR[operation.level]
        return self.service_for(operation.link, since)

    # What others are

    def is_alive(self, member: str) -> bool:
        """Say whether a member is alive for the purpose of trying; never of counting."""
        if member == self.me:
            return True
        peer = self.peers[member]
        heard = self.now - peer.heard_at <= self.config.leadership.owner_timeout_s
        believed = self.peers.believed_alive
        return heard and (believed is None or member in believed)

    def may_own(self, member: str) -> bool:
        """Say whether a member is alive and has not just yielded."""
        if member == self.me:
            return self.now >= self.unfit_until and not self.should_yield
        return self.is_alive(member) and self.peers[member].fit

    @property
    def ownership_changes(self) -> int:
        """Return how often it has changed who owns which slot, as far as this node knows.

        Until then holds what timers have found out about slots.
        """
        return self.peers.changes + self.logs.changes

    def slot_of(self, link: str) -> int:
        """Return the slot of a link."""
        return slot_of(link, self.placement.slots)

    @property
    def is_draining(self) -> bool:
        """Say whether this node gives all away, and takes no more."""
        return self.draining_since < inf

    @property
    def should_yield(self) -> bool:
        """Say whether this node should own nothing that somebody else can own (rule O7)."""
        return self.is_draining or not self.has_room

    @property
    def has_leases(self) -> bool:
        """Say whether owners of this group read by lease."""
        return self.configuration.reads == "lease"

    def is_leased(self, slot: int, candidate: str) -> bool:  # Seam.
        """Say whether a slot must not be promised to a candidate yet (rule R2)."""
        return self.has_leases and self.leases.keeps_from(slot, candidate, self.now)

    def lacks_quorum(self) -> bool:
        """Say whether a majority of the members has been silent for too long (rule O6).

        A group of one has nobody to listen to: that it was slow itself proves nothing.
        """
        return (
            self.peers.count
            and self.now - self.peers.quorum_heard_at > self.config.leadership.quorum_grace_s
        )

    def tick(self, wall_us: int) -> None:
        """Learn what the wall clock shows now."""
        others = {
            name: peer.clock_us for name, peer in self.peers.items() if peer.clock_us is not None
        }
        self.clock.set(wall_us, self.now, self.me, others, self.configuration.sets)

    def wall_now_us(self) -> int:
        """Return the time to stamp with: the wall clock, held near the others' if it is wrong."""
        return self.clock.now_us(self.now)

    def past_us(self) -> int:  # Seam.
        """Return an instant that is past for sure: what is deleted by time is older (rule D6)."""
        return self.clock.past_us(self.now)

    # What the end of a step deals with

    def reply(self, inflight: Inflight, answer: Answer | None, *, proposed: bool = False) -> None:
        """Hand an operation back to its entry node, at the end of this step.

        answer: None means "not mine"; `proposed` then says whether it may take effect all the
        same, so that the entry node knows what it may tell its client.
        """
        operation = inflight.operation
        has_failed = answer is None or not answer.is_success
        if has_failed and not proposed and operation.level == 3 and not operation.is_read:
            origin = (inflight.entry, inflight.boot)
            # This may be an echo of what was proposed, and whose answer has been lost.
            proposed = answer is None and self.proposed.has(origin, inflight.seq)
            if not proposed:
                # Given back is given back: no echo of this attempt may be applied here later.
                self.closed.note(origin, inflight.seq, inflight.attempt, inflight.oldest)
        self.answers.setdefault(inflight.entry, []).append((inflight, answer, proposed))

    def corrupt(self, log: SlotLog) -> None:
        """A record of the slot failed its checksum: abstain, and say so (rule P5)."""
        self.corrupted.add(log.slot)
